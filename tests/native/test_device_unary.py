"""Kernels of cards with one operand, casts and choices, on the host, against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from device_helpers import DTYPES, FLOATS, INTEGERS, bits, check, kernels, numbers, storage

SIZES = [0, 1, 7, 64, 203]
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -3.0, 100.0, -100.0])

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(alpha * x + beta, 0, 1)


ROOT = math.sqrt(2 / math.pi)
FUNCTIONS: dict[str, tuple[Any, dict[str, float]]] = {
    "unary_sqrt": (np.sqrt, {}),
    "unary_erf": (erf, {}),
    "unary_tanh": (np.tanh, {}),
    "unary_sigmoid": (sigmoid, {}),
    "unary_gelu": (lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))), {}),
    "unary_gelu_tanh": (lambda x: x * 0.5 * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))), {}),
    "unary_quick_gelu": (lambda x: x * sigmoid(1.702 * x), {"alpha": 1.702}),
    "unary_reciprocal": (lambda x: 1 / x, {}),
    "unary_exp": (np.exp, {}),
    "unary_log": (np.log, {}),
    "unary_sin": (np.sin, {}),
    "unary_cos": (np.cos, {}),
    "unary_floor": (np.floor, {}),
    "unary_ceil": (np.ceil, {}),
    "unary_round": (np.rint, {}),
    "unary_leaky_relu": (lambda x: np.where(x < 0, 0.1 * x, x), {"alpha": 0.1}),
    "unary_elu": (lambda x: np.where(x < 0, 1.5 * np.expm1(x), x), {"alpha": 1.5}),
    "unary_softplus": (lambda x: np.logaddexp(x, 0), {}),
    "unary_hard_sigmoid": (lambda x: hard_sigmoid(x, 0.2, 0.5), {"alpha": 0.2, "beta": 0.5}),
    "unary_hard_swish": (
        lambda x: x * hard_sigmoid(x, 1 / 6, 0.5),
        {"alpha": 1 / 6, "beta": 0.5},
    ),
    "unary_clip": (lambda x: np.clip(x, -0.75, 1.25), {"alpha": -0.75, "beta": 1.25}),
    "unary_neg": (np.negative, {}),
    "unary_abs": (np.abs, {}),
    "unary_relu": (lambda x: np.where(x < 0, 0, x), {}),
    "unary_sign": (np.sign, {}),
}


def run(entry: str, t0: str, t1: str, x: np.ndarray, blocks: int, **parameters: float) -> np.ndarray:
    out = storage(np.zeros(x.shape), t1)
    kernels.unary(entry, t0, t1, storage(x, t0), out, blocks, **parameters)
    return out


@pytest.mark.parametrize("entry", FUNCTIONS)
@pytest.mark.parametrize("kind", FLOATS)
def test_functions(kind: str, entry: str, blocks: int) -> None:
    how, parameters = FUNCTIONS[entry]
    for size in SIZES:
        x = numbers((size,), kind, size)
        if entry in ("unary_sqrt", "unary_log"):
            x = abs(x)
        with np.errstate(all="ignore"):
            expected = how(x.astype(np.float64))
        check(run(entry, kind, kind, x, blocks, **parameters), expected, kind)


@pytest.mark.parametrize("entry", FUNCTIONS)
@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_no_number_or_infinite(kind: str, entry: str) -> None:
    how, parameters = FUNCTIONS[entry]
    finite = entry in ("unary_softplus", "unary_gelu", "unary_gelu_tanh", "unary_elu", "unary_exp")
    x = SPECIAL[np.isfinite(SPECIAL) | np.isnan(SPECIAL)] if finite else SPECIAL
    if entry in ("unary_exp", "unary_sin", "unary_cos"):
        x = x[~(abs(x) > 10)]
    with np.errstate(all="ignore"):
        check(run(entry, kind, kind, x, 1, **parameters), how(x), kind)


def test_zeros_keep_their_sign() -> None:
    for entry in ("unary_relu", "unary_sqrt", "unary_floor", "unary_round", "unary_clip", "unary_neg"):
        parameters = {"alpha": -1.0, "beta": 1.0} if entry == "unary_clip" else {}
        out = run(entry, "f32", "f32", np.array([-0.0, 0.0]), 1, **parameters)
        assert list(np.signbit(out)) == ([False, True] if entry == "unary_neg" else [True, False])


@pytest.mark.parametrize("kind", FLOATS)
def test_questions(kind: str) -> None:
    assert np.array_equal(run("unary_isnan", kind, "b", SPECIAL, 2), np.isnan(SPECIAL))
    for negative, positive in ((True, True), (True, False), (False, True)):
        out = run("unary_isinf", kind, "b", SPECIAL, 2, alpha=float(negative), beta=float(positive))
        expected = (np.isposinf(SPECIAL) & positive) | (np.isneginf(SPECIAL) & negative)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind: str, blocks: int) -> None:
    for size in SIZES:
        x = numbers((size,), kind, size)
        with np.errstate(all="ignore"):
            for entry in ("unary_neg", "unary_abs", "unary_relu", "unary_sign"):
                expected = FUNCTIONS[entry][0](x).astype(x.dtype)
                assert np.array_equal(run(entry, kind, kind, x, blocks), expected), entry
        assert np.array_equal(run("unary_clip", kind, kind, x, blocks, low=3, high=50), np.clip(x, 3, 50))


def test_not(blocks: int) -> None:
    for size in SIZES:
        x = numbers((size,), "b", size)
        assert np.array_equal(run("unary_not", "b", "b", x, blocks), ~x)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_addresses_that_allow_no_packs(kind: str) -> None:
    for shift in (1, 2):
        x = storage(numbers((40,), kind, 1), kind)
        out = np.zeros_like(x)
        kernels.unary("unary_abs", kind, kind, x[shift:38], out[shift:38], 2)
        expected = abs(bits(x, kind))
        expected[:shift] = expected[38:] = 0
        check(out, expected, kind)


CASTS = [names for names in kernels.names() if names[3] == "cast"]


def test_there_is_a_cast_between_any_two_types() -> None:
    assert len(CASTS) == 8 * 7


@pytest.mark.parametrize("pair", CASTS, ids=lambda names: f"{names[1]}-{names[2]}")
def test_casts(pair: list[str], blocks: int) -> None:
    _, t0, t1, _ = pair
    for size in SIZES:
        x = numbers((size,), t0, size)
        out = storage(np.ones(x.shape), t1)
        kernels.cast(t0, t1, storage(x, t0), out, blocks)
        if t1 in FLOATS:
            check(out, x, t1)
        elif t1 == "b":
            assert np.array_equal(out, x != 0)
        else:
            assert np.array_equal(out, x.astype(np.int64).astype(DTYPES[t1]))


@pytest.mark.parametrize("pair", CASTS, ids=lambda names: f"{names[1]}-{names[2]}")
def test_scaled_casts(pair: list[str], blocks: int) -> None:
    _, t0, t1, _ = pair
    if t1 not in FLOATS:
        return  # the provider asks for no others
    for size in SIZES:
        x = numbers((size,), t0, size)
        for sign, shift, scale in ((-1.0, 1.0, -8.0), (1.0, 0.5, 0.25)):
            out = storage(np.ones(x.shape), t1)
            kernels.cast_scaled(t0, t1, storage(x, t0), out, blocks, sign, shift, scale)
            check(out, (sign * x.astype(np.float64) + shift) * scale, t1)


def test_casts_of_what_no_integer_can_hold() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, 300, -1.9, 2147483520, -2147483648], np.float32)
    smallest = -(2**31)
    out = np.zeros(x.shape, np.int32)
    kernels.cast("f32", "i32", x, out, 1)
    assert list(out) == [*[smallest] * 6, 300, -1, 2147483520, smallest]
    wide = np.zeros(x.shape, np.int64)
    kernels.cast("f32", "i64", x, wide, 1)
    assert list(wide[3:6]) == [3 * 10**9, -3 * 10**9, -(2**63)]
    assert list(wide[:3]) == [-(2**63)] * 3
    narrow = np.ones(x.shape, np.uint8)
    kernels.cast("f32", "u8", x, narrow, 1)
    assert list(narrow[:8]) == [0, 0, 0, 0, 0, 0, 44, 255]
    truth = np.zeros(x.shape, np.bool_)
    kernels.cast("f32", "b", x, truth, 1)
    assert truth.all()


def test_casts_round_to_even() -> None:
    x = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 2**-25, 2**-24], np.float32)
    out = np.zeros(x.shape, np.float16)
    kernels.cast("f32", "f16", x, out, 1)
    with np.errstate(over="ignore"):
        assert np.array_equal(out, x.astype(np.float16))
    brain = np.zeros(3, np.uint16)
    kernels.cast("f32", "bf16", np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38], np.float32), brain, 1)
    assert list(brain) == [0x3F80, 0x3F82, 0x7F80]


WHERE_SHAPES = [
    ((5,), (5,), (5,)),
    ((64,), (64,), (64,)),
    ((4, 32), (4, 32), ()),
    ((4, 32), (1,), (4, 32)),
    ((2, 1, 1, 32), (2, 3, 8, 32), (1,)),
    ((8, 32), (2, 8, 32), ()),
    ((4, 1), (1, 5), (3, 1, 1)),
    ((), (3, 7), (7,)),
    ((0,), (1,), (1,)),
    ((1,), (), ()),
]


@pytest.mark.parametrize("kind", ["w1", "w2", "w4", "w8"])
def test_where(kind: str, blocks: int) -> None:
    for shapes in WHERE_SHAPES:
        condition = numbers(shapes[0], "b", 1)
        a, b = (numbers(shape, kind, seed) for seed, shape in enumerate(shapes[1:]))
        expected = np.where(condition, a, b)
        out = np.zeros_like(expected)
        assert kernels.where(kind, condition, a, b, out, blocks)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("kind", ["w1", "w2", "w4", "w8"])
def test_where_at_addresses_that_allow_no_packs(kind: str) -> None:
    for which in range(4):
        arrays = [numbers((70,), "b", 1), *(numbers((70,), kind, seed) for seed in range(3))]
        condition, a, b, out = (x[1 if n == which else 0 :][:64] for n, x in enumerate(arrays))
        assert kernels.where(kind, condition, a, b, out, 2)
        assert np.array_equal(out, np.where(condition, a, b))
