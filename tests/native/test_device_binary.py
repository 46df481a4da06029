"""Kernels of cards with two operands, on the host, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from device_helpers import FLOATS, INTEGERS, bits, check, kernels, numbers, storage

SHAPES = [
    ((5,), (5,)),
    ((3, 37), (3, 37)),
    ((64, 32), (64, 32)),
    ((7, 16), (16,)),
    ((7, 16), (7, 1)),
    ((2, 3, 5, 16), (2, 1, 1, 16)),
    ((4, 1, 16), (4, 3, 1)),
    ((), (4, 5)),
    ((1,), (33,)),
    ((2, 3, 4), ()),
    ((), ()),
    ((0, 3), (1, 3)),
    ((1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3), (1, 3)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (1, 2, 1, 3, 1, 2, 1, 3)),  # nothing can be merged
]

ARITHMETIC = {
    "binary_add": np.add,
    "binary_sub": np.subtract,
    "binary_mul": np.multiply,
    "binary_div": np.divide,
    "binary_min": np.minimum,
    "binary_max": np.maximum,
    "binary_pow": np.power,
    "binary_fmod": np.fmod,
    "binary_prelu": lambda x, y: np.where(x < 0, x * y, x),
}
COMPARISONS = {
    "binary_equal": np.equal,
    "binary_less": np.less,
    "binary_less_or_equal": np.less_equal,
    "binary_greater": np.greater,
    "binary_greater_or_equal": np.greater_equal,
}
LOGIC = {"binary_and": np.logical_and, "binary_or": np.logical_or, "binary_xor": np.logical_xor}


def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Towards zero, as in C."""
    return np.trunc(x.astype(np.float64) / y).astype(x.dtype)


def run(entry: str, t0: str, t1: str, a: np.ndarray, b: np.ndarray, blocks: int) -> np.ndarray:
    out = storage(np.zeros(np.broadcast_shapes(a.shape, b.shape)), t1)
    assert kernels.binary(entry, t0, t1, storage(a, t0), storage(b, t0), out, blocks)
    return out


@pytest.mark.parametrize("entry", ARITHMETIC)
@pytest.mark.parametrize("kind", FLOATS)
def test_arithmetic(kind: str, entry: str, blocks: int) -> None:
    for shapes in SHAPES:
        a, b = (numbers(shape, kind, seed) for seed, shape in enumerate(shapes))
        if entry == "binary_pow":
            a = abs(a)
        if entry == "binary_fmod":
            b = b + np.where(b < 0, -0.5, 0.5)
            b = numbers_like(b, kind)
        with np.errstate(all="ignore"):
            expected = ARITHMETIC[entry](a, b)
        check(run(entry, kind, kind, a, b, blocks), expected, kind)


def numbers_like(array: np.ndarray, kind: str) -> np.ndarray:
    """Rounded to what the type can hold."""
    return bits(storage(array, kind), kind)


@pytest.mark.parametrize("entry", [*ARITHMETIC, "binary_mod"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind: str, entry: str, blocks: int) -> None:
    for shapes in SHAPES:
        a, b = (numbers(shape, kind, seed) for seed, shape in enumerate(shapes))
        if entry in ("binary_div", "binary_mod", "binary_fmod"):
            b = np.where(b == 0, 3, b).astype(b.dtype)
        if entry == "binary_pow":
            b = abs(b) % 5
        how = {"binary_div": divide, "binary_mod": np.mod}.get(entry) or ARITHMETIC[entry]
        expected = how(a, b)
        assert np.array_equal(run(entry, kind, kind, a, b, blocks), expected)


@pytest.mark.parametrize("kind", INTEGERS)
def test_no_integer_operation_faults(kind: str) -> None:
    smallest = np.array([np.iinfo(storage(np.zeros(1), kind).dtype).min])
    for entry in ("binary_div", "binary_mod", "binary_fmod"):
        assert run(entry, kind, kind, np.array([7]), np.array([0]), 1)[0] == 0
        for by in (-1, 1):
            run(entry, kind, kind, smallest, np.array([by]) % 256 if kind == "u8" else np.array([by]), 1)


@pytest.mark.parametrize("entry", COMPARISONS)
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_comparisons(kind: str, entry: str, blocks: int) -> None:
    for shapes in SHAPES:
        a, b = (numbers(shape, kind, seed) for seed, shape in enumerate(shapes))
        if a.shape == b.shape:
            b = np.where(numbers(b.shape, "f32", 9) < 0, a, b).astype(b.dtype)
        assert np.array_equal(run(entry, kind, "b", a, b, blocks), COMPARISONS[entry](a, b))


@pytest.mark.parametrize("entry", [*LOGIC, "binary_equal"])
def test_logic(entry: str, blocks: int) -> None:
    for shapes in SHAPES:
        a, b = (numbers(shape, "b", seed) for seed, shape in enumerate(shapes))
        expected = {**LOGIC, **COMPARISONS}[entry](a, b)
        assert np.array_equal(run(entry, "b", "b", a, b, blocks), expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_no_number_or_infinite(kind: str) -> None:
    some = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0])
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        for entry, how in ARITHMETIC.items():
            check(run(entry, kind, kind, a, b, 1), how(a, b), kind)
        for entry, how in COMPARISONS.items():
            assert np.array_equal(run(entry, kind, "b", a, b, 1), how(a, b))


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_addresses_that_allow_no_packs(kind: str, shift: int) -> None:
    for which in range(3):
        a, b = storage(numbers((70,), kind, 1), kind), storage(numbers((70,), kind, 2), kind)
        out = np.zeros_like(a)
        arrays = [array[shift if n == which else 0 :][:64] for n, array in enumerate((a, b, out))]
        assert kernels.binary("binary_max", kind, kind, *arrays, 2)
        expected = np.maximum(bits(arrays[0], kind), bits(arrays[1], kind))
        check(arrays[2], expected, kind)
        assert not out[shift + 64 :].any() if which == 2 else True


def test_shapes_that_do_not_fit_are_refused() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    assert not kernels.binary("binary_add", "f32", "f32", a, b, np.zeros((2, 4), np.float32), 1)
    nine = tuple(2 if i % 2 else 1 for i in range(9)), tuple(1 if i % 2 else 2 for i in range(9))
    a, b = (np.zeros(shape, np.float32) for shape in nine)
    assert not kernels.binary("binary_add", "f32", "f32", a, b, np.zeros((2,) * 9, np.float32), 1)
