"""Kernels of cards that move elements, on the host, against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from device_helpers import kernels, numbers

WIDTHS = ["w1", "w2", "w4", "w8"]

CONCATS = [
    (0, [(2, 16), (3, 16)]),
    (1, [(2, 16), (2, 32), (2, 16)]),
    (1, [(2, 3), (2, 5)]),
    (2, [(2, 3, 1), (2, 3, 7)]),
    (1, [(2, 1, 16), (2, 4, 16), (2, 0, 16)]),
    (0, [(3,), (16,)]),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_concat_and_split(width: str, blocks: int) -> None:
    for axis, shapes in CONCATS:
        parts = [numbers(shape, width, n) for n, shape in enumerate(shapes)]
        expected = np.concatenate(parts, axis)
        out = np.zeros_like(expected)
        offset = 0
        for part in parts:
            assert kernels.concat(width, part, out, axis, offset, blocks)
            starts = [0] * part.ndim
            starts[axis] = offset
            back = np.zeros_like(part)
            if part.size:
                assert kernels.slice(width, expected, starts, [1] * part.ndim, back, blocks)
            assert np.array_equal(back, part)
            offset += part.shape[axis]
        assert np.array_equal(out, expected)


SLICES = [
    ((10,), (slice(2, 9, 3),)),
    ((10,), (slice(None, None, -1),)),
    ((4, 32), (slice(1, 3), slice(None))),
    ((4, 32), (slice(None), slice(8, 24))),
    ((4, 32), (slice(None, None, 2), slice(16, 32))),
    ((4, 32), (slice(None, None, -2), slice(30, 2, -5))),
    ((2, 3, 4, 16), (slice(None), slice(1, 2), slice(None), slice(None))),
    ((2, 3, 5, 16), (slice(None), slice(None), slice(4, 0, -1), slice(0, 16))),
    ((5, 1), (slice(1, 4), slice(None))),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_slices(width: str, blocks: int) -> None:
    for shape, parts in SLICES:
        x = numbers(shape, width, 1)
        expected = np.ascontiguousarray(x[parts])
        indices = [part.indices(dim) for part, dim in zip(parts, shape, strict=True)]
        starts, steps = [i[0] for i in indices], [i[2] for i in indices]
        out = np.zeros_like(expected)
        assert kernels.slice(width, x, starts, steps, out, blocks)
        assert np.array_equal(out, expected)


EXPANDS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), (3, 5)),
    ((1,), (40,)),
    ((16,), (3, 16)),
    ((3, 1), (3, 16)),
    ((2, 1, 5, 16), (2, 3, 5, 16)),
    ((1, 4, 1, 7), (2, 4, 3, 7)),
    ((2, 1, 1, 8, 16), (2, 1, 3, 8, 16)),
    ((3, 4), (3, 4)),
    ((1, 3), (0, 3)),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_expand(width: str, blocks: int) -> None:
    for shape, to in EXPANDS:
        x = numbers(shape, width, 1)
        expected = np.ascontiguousarray(np.broadcast_to(x, to))
        out = np.zeros_like(expected)
        assert kernels.expand(width, x, out, blocks)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_tile(width: str, blocks: int) -> None:
    cases = [((4,), (3,)), ((2, 16), (2, 3)), ((2, 3), (1, 1)), ((2, 1, 5), (3, 4, 2)), ((3, 4), (0, 2))]
    for shape, repeats in cases:
        x = numbers(shape, width, 1)
        expected = np.tile(x, repeats)
        out = np.zeros_like(expected)
        assert kernels.tile(width, x, list(repeats), out, blocks)
        assert np.array_equal(out, expected)


PADS = [((5,), [(2, 3)]), ((4, 7), [(0, 2), (3, 1)]), ((2, 3, 4), [(1, 1), (2, 0), (0, 3)])]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pad(width: str, mode: str, blocks: int) -> None:
    number = ["constant", "edge", "reflect", "wrap"].index(mode)
    for shape, widths in PADS:
        if mode == "reflect":
            widths = [(min(a, dim - 1), min(b, dim - 1)) for (a, b), dim in zip(widths, shape, strict=True)]
        x = numbers(shape, width, 1)
        expected = np.pad(x, widths, mode, **({"constant_values": 77} if mode == "constant" else {}))
        out = np.zeros_like(expected)
        assert kernels.pad(width, x, [a for a, _ in widths], number, 77, out, blocks)
        assert np.array_equal(out, expected)


def test_negative_pads_leave_out() -> None:
    x = numbers((4, 6), "w4", 1)
    out = np.zeros((3, 7), np.uint32)
    assert kernels.pad("w4", x, [-1, 2], 0, 5, out, 1)
    expected = np.full((3, 7), 5, np.uint32)
    expected[:, 2:] = x[1:, :5]
    assert np.array_equal(out, expected)


TRANSPOSES = [(3, 5), (70, 33), (2, 3, 4), (2, 65, 3, 16), (1, 4, 1, 8), (2, 1, 3, 1, 2)]


@pytest.mark.parametrize("width", WIDTHS)
def test_transpose(width: str, blocks: int) -> None:
    for shape in TRANSPOSES:
        for permutation in itertools.islice(
            itertools.permutations(range(len(shape))), 0, None, len(shape) - 1
        ):
            x = numbers(shape, width, 1)
            expected = np.ascontiguousarray(x.transpose(permutation))
            out = np.zeros_like(expected)
            assert kernels.transpose(width, x, list(permutation), out, blocks)
            assert np.array_equal(out, expected), (shape, permutation)


def test_which_kernel_transposes() -> None:
    x = np.zeros((2, 8, 4, 32), np.uint32)
    for permutation, entry in (((0, 2, 1, 3), "copy"), ((0, 2, 3, 1), "copy_tiled"), ((0, 1, 2, 3), "copy")):
        out = np.zeros([x.shape[d] for d in permutation], np.uint32)
        assert kernels.transpose("w4", x, list(permutation), out, 1) == entry


@pytest.mark.parametrize("width", WIDTHS)
def test_addresses_that_allow_no_packs(width: str) -> None:
    for which in range(2):
        arrays = [numbers((2, 65), width, n).reshape(-1) for n in range(2)]
        x, out = (a[1:129] if n == which else a[:128] for n, a in enumerate(arrays))
        assert kernels.expand(width, x.reshape(2, 64), out.reshape(2, 64), 1)
        assert np.array_equal(x, out)
        assert kernels.transpose(width, x.reshape(2, 4, 16), [1, 0, 2], out.reshape(4, 2, 16), 1)
        assert np.array_equal(out.reshape(4, 2, 16), x.reshape(2, 4, 16).transpose(1, 0, 2))


def test_nothing_moves_nothing() -> None:
    assert kernels.transpose("w4", np.zeros((0, 3), np.uint32), [1, 0], np.zeros((3, 0), np.uint32), 1)
    x = np.zeros((2,) * 9, np.uint8)
    assert not kernels.transpose("w1", x, list(range(8, -1, -1)), np.zeros_like(x), 1)
