"""Kernels of cards that write what no input holds, or where indices say, on the host, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from device_helpers import DTYPES, kernels, numbers

WIDTHS = ["w1", "w2", "w4", "w8"]


@pytest.mark.parametrize("width", WIDTHS)
def test_fill(width: str, blocks: int) -> None:
    for count in (1, 7, 1031):
        out = np.zeros(count, DTYPES[width])
        kernels.fill(width, out, 0x0102030405060708, blocks)
        expected = np.array([0x0102030405060708], np.uint64).astype(DTYPES[width])
        assert (out == expected).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_trilu(width: str, blocks: int) -> None:
    for shape in ((3, 3), (2, 4, 7), (2, 1, 5, 2), (1, 9), (9, 1)):
        x = numbers(shape, width, 1)
        for diagonal in (0, 1, -2, 100, -(1 << 62)):
            for upper, of_numpy in ((True, np.triu), (False, np.tril)):
                out = np.ones_like(x)
                kernels.trilu(width, x, diagonal, upper, out, blocks)
                assert np.array_equal(out, of_numpy(x, max(diagonal, -100)))


@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64"])
def test_range(kind: str, blocks: int) -> None:
    for count, start, delta in ((1, 3, 2), (700, -5, 3), (13, 9, -1)):
        out = np.zeros(count, DTYPES[kind])
        kernels.range(kind, out, start, delta, blocks)
        assert np.array_equal(out, start + delta * np.arange(count, dtype=DTYPES[kind]))


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_scatter(width: str, kind: str, blocks: int) -> None:
    generator = np.random.default_rng(5)
    out = numbers((4, 6, 3), width, 1)
    expected = out.copy()
    at = np.argsort(generator.random((4, 4, 3)), axis=1).astype(DTYPES[kind])  # each once
    updates = numbers(at.shape, width, 2)
    np.put_along_axis(expected, at.astype(np.int64), updates, 1)
    at[0] -= 6  # the same, counted from the end
    assert kernels.scatter_elements(width, kind, at, 1, updates, out, blocks)
    assert np.array_equal(out, expected)

    rows = np.array([[3, 5], [0, -6], [-1, 2]], DTYPES[kind])
    updates = numbers((3, 3), width, 3)
    for row, values in zip(rows, updates, strict=True):
        expected[tuple(row)] = values
    assert kernels.scatter_nd(width, kind, rows, updates, out, blocks)
    assert np.array_equal(out, expected)


def test_what_lies_outside_is_not_written(blocks: int) -> None:
    out = np.zeros((2, 3), np.uint32)
    updates = np.ones((1, 3), np.uint32)
    assert kernels.scatter_elements("w4", "i64", np.array([[2, -3, 1]]), 0, updates, out, blocks)
    assert np.array_equal(out, [[0, 0, 0], [0, 0, 1]])
    assert kernels.scatter_nd("w4", "i64", np.array([[2], [-3]]), np.ones((2, 3), np.uint32), out, blocks)
    assert np.array_equal(out, [[0, 0, 0], [0, 0, 1]])
    assert not kernels.scatter_nd("w4", "i64", np.zeros((1, 3), np.int64), updates, out, blocks)


@pytest.mark.parametrize("width", ["w2", "w4", "w8"])
def test_im2col(width: str, blocks: int) -> None:
    x = numbers((2, 3, 7, 9), width, 1)
    for filters, stride, dilation, pads in (
        ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
        ((3, 2), (1, 1), (1, 1), (1, 0, 1, 1)),
        ((2, 3), (2, 3), (1, 2), (0, 2, 1, 2)),
        ((3, 3), (3, 3), (2, 1), (2, 1, 2, 1)),
    ):
        padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        reach = [d * (f - 1) + 1 for d, f in zip(dilation, filters, strict=True)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
        windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
        high, wide = windows.shape[2:4]
        for first, band in ((0, 0), (0, 1), (high - 1, 1), (high // 2, high - high // 2)):
            rows = windows[:, :, first : first + (band or high)]
            expected = rows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 3 * filters[0] * filters[1], -1)
            out = np.ones_like(expected)
            assert expected.shape[2] == (band or high) * wide
            assert kernels.im2col(width, x, filters, stride, dilation, pads, first, band, out, blocks)
            assert np.array_equal(out, expected)
