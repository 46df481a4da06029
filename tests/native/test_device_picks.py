"""Kernels of cards that pick by indices, reduce and scan, on the host, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from device_helpers import DTYPES, FLOATS, check, kernels, numbers, storage

WIDTHS = ["w1", "w2", "w4", "w8"]
INDICES = ["i32", "i64"]
NUMBERS = [*FLOATS, "i32", "i64"]


def places(shape: tuple[int, ...], size: int, kind: str, seed: int = 0) -> np.ndarray:
    """Indices of both signs."""
    drawn = np.random.default_rng(seed).integers(-size, size, shape)
    return np.asarray(drawn).astype(DTYPES[kind])


GATHERS = [
    ((10, 16), 0, (3, 4)),
    ((10, 7), 0, (5,)),
    ((2, 5, 16), 1, (3,)),
    ((2, 5), 1, (2, 2)),
    ((2, 5, 3), 2, ()),
    ((6,), 0, (0,)),
    ((3, 2, 32), 1, (4,)),
]


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("width", WIDTHS)
def test_gather(width: str, kind: str, blocks: int) -> None:
    for shape, axis, picked in GATHERS:
        x = numbers(shape, width, 1)
        indices = places(picked, shape[axis], kind)
        expected = np.take(x, indices, axis)
        out = np.ones_like(expected)
        kernels.gather(width, kind, x, axis, indices, out, blocks)
        assert np.array_equal(out, expected)


ELEMENTS = [((4, 6), 1, (4, 3)), ((4, 6), 0, (5, 6)), ((2, 3, 4), 1, (2, 7, 2)), ((5,), 0, (9,))]


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("width", WIDTHS)
def test_gather_elements(width: str, kind: str, blocks: int) -> None:
    for shape, axis, picked in ELEMENTS:
        x = numbers(shape, width, 1)
        indices = places(picked, shape[axis], kind)
        within = x[tuple(slice(None) if d == axis else slice(0, p) for d, p in enumerate(picked))]
        expected = np.take_along_axis(within, indices.astype(np.int64), axis)
        out = np.ones_like(expected)
        assert kernels.gather_elements(width, kind, x, axis, indices, out, blocks)
        assert np.array_equal(out, expected)


def gather_nd(x: np.ndarray, batch_dims: int, indices: np.ndarray) -> np.ndarray:
    batches = [x[b][tuple(np.moveaxis(indices[b], -1, 0))] for b in np.ndindex(x.shape[:batch_dims])]
    return np.stack(batches).reshape((*x.shape[:batch_dims], *np.shape(batches[0])))


ND = [
    ((4, 6), 0, (3, 2)),
    ((4, 6, 5), 0, (2, 3, 2)),
    ((2, 4, 6), 1, (2, 3, 1)),
    ((2, 3, 4, 5), 2, (2, 3, 2)),
    ((7,), 0, (1,)),
]


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("width", WIDTHS)
def test_gather_nd(width: str, kind: str, blocks: int) -> None:
    for shape, batch_dims, picked in ND:
        x = numbers(shape, width, 1)
        parts = [places(picked[:-1], shape[batch_dims + p], kind, p) for p in range(picked[-1])]
        indices = np.ascontiguousarray(np.stack(parts, -1))
        expected = gather_nd(x, batch_dims, indices)
        out = np.ones_like(expected)
        assert kernels.gather_nd(width, kind, x, batch_dims, indices, out, blocks)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("width", WIDTHS)
def test_indices_outside_give_zeros(width: str, kind: str) -> None:
    x = numbers((4, 16), width, 1) | 1
    info = np.iinfo(DTYPES[kind])
    indices = np.array([4, -5, 100000, info.max, info.min, 3], DTYPES[kind])
    out = np.ones((6, 16), x.dtype)
    kernels.gather(width, kind, x, 0, indices, out, 1)
    assert not out[:5].any()
    assert np.array_equal(out[5], x[3])
    column = np.ones((6, 1), x.dtype)
    assert kernels.gather_elements(width, kind, x[:, 0].copy(), 0, indices, column[:, 0], 1)
    assert list(column[:, 0]) == [0] * 5 + [x[3, 0]]
    out = np.ones((6, 16), x.dtype)
    assert kernels.gather_nd(width, kind, x, 0, indices.reshape(6, 1), out, 1)
    assert not out[:5].any()
    assert np.array_equal(out[5], x[3])


def test_shapes_of_indices_that_do_not_fit_are_refused() -> None:
    x, out = np.zeros((4, 6), np.uint32), np.zeros((5, 2), np.uint32)
    assert not kernels.gather_elements("w4", "i64", x, 1, np.zeros((5, 2), np.int64), out, 1)
    assert not kernels.gather_nd("w4", "i64", x, 0, np.zeros((5, 3), np.int64), out, 1)
    assert not kernels.gather_nd("w4", "i64", x, 1, np.zeros((5, 1), np.int64), out, 1)


REDUCTIONS: dict[str, Any] = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
    "reduce_l1": lambda x, axis: np.sum(abs(x), axis),
    "reduce_l2": lambda x, axis: np.sqrt(np.sum(x * x, axis)),
    "reduce_sum_square": lambda x, axis: np.sum(x * x, axis),
}
REDUCED = [(5,), (3, 16), (2, 3, 40), (3, 1, 7), (2, 3, 2, 5), (4, 64), (2, 700)]


def cases(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every choice of axes."""
    return [axes for n in range(len(shape) + 1) for axes in itertools.combinations(range(len(shape)), n)]


@pytest.mark.parametrize("entry", REDUCTIONS)
@pytest.mark.parametrize("kind", NUMBERS)
def test_reductions(kind: str, entry: str, blocks: int) -> None:
    if entry == "reduce_l2" and kind not in FLOATS:
        assert ["reduce", kind, kind, entry] not in [list(names) for names in kernels.names()]
        return
    for shape in REDUCED:
        for axes in cases(shape):
            x = numbers(shape, kind, 1)
            if entry == "reduce_prod":
                x = np.clip(x, -1, 1) if kind in FLOATS else np.clip(x, -1, 2)
            with np.errstate(over="ignore"):
                expected = np.asarray(REDUCTIONS[entry](x.astype(np.float64), axes))
            out = storage(np.zeros(expected.shape), kind)
            assert kernels.reduce(entry, kind, storage(x, kind), list(axes), out, blocks)
            if kind in FLOATS:
                check(out, expected, kind, {"f32": 3e-5, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-12}[kind])
            elif entry != "reduce_prod":
                assert np.array_equal(out, np.trunc(expected)), (shape, axes)
            else:
                with np.errstate(over="ignore"):
                    assert np.array_equal(out, np.prod(x, axes, dtype=x.dtype))


def test_reductions_see_what_is_no_number() -> None:
    x = np.zeros((2, 64), np.float32)
    x[1, 40] = np.nan
    for entry in ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean"):
        out = np.zeros(2, np.float32)
        assert kernels.reduce(entry, "f32", x, [1], out, 1)
        assert list(np.isnan(out)) == [False, True]
        inner = np.zeros(64, np.float32)
        assert kernels.reduce(entry, "f32", x, [0], inner, 1)
        assert np.flatnonzero(np.isnan(inner)) == [40]


def test_reductions_over_nothing() -> None:
    x = np.zeros((2, 0), np.float32)
    for entry, expected in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        out = np.full(2, 7, np.float32)
        assert kernels.reduce(f"reduce_{entry}", "f32", x, [1], out, 1)
        assert list(out) == [expected] * 2


@pytest.mark.parametrize("kind", NUMBERS)
def test_running_sums(kind: str, blocks: int) -> None:
    for shape, axis in (((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 4), 1), ((2, 0), 1)):
        for exclusive, reverse in itertools.product((False, True), repeat=2):
            x = numbers(shape, kind, 1)
            turned = np.flip(x, axis) if reverse else x
            expected = np.cumsum(turned.astype(np.float64), axis)
            if exclusive:
                expected = expected - turned
            expected = np.flip(expected, axis) if reverse else expected
            out = storage(np.zeros(shape), kind)
            kernels.cumsum(kind, storage(x, kind), axis, exclusive, reverse, out, blocks)
            check(out, expected, kind, {"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2, "f64": 1e-12}.get(kind, 0.0))


@pytest.mark.parametrize("kind", NUMBERS)
def test_places_of_extremes(kind: str, blocks: int) -> None:
    for shape, axis in (((7,), 0), ((3, 5), 0), ((3, 50), 1), ((2, 3, 4), 1)):
        x = np.clip(numbers(shape, kind, 1), -1, 1)  # with equal ones
        for entry, how in (("reduce_argmax", np.argmax), ("reduce_argmin", np.argmin)):
            first = how(x, axis)
            last = shape[axis] - 1 - how(np.flip(x, axis), axis)
            for wanted, expected in ((False, first), (True, last)):
                out = np.zeros(np.shape(expected), np.int64)
                kernels.arg(entry, kind, storage(x, kind), axis, wanted, out, blocks)
                assert np.array_equal(out, expected)
