"""How far an fp32 GEMM may be from the exact result.

A sum of k products in fp32 errs by at most gamma * sum(|a||b|) with gamma = k * u / (1 - k * u) in the worst
case, u = 2**-24. Rounding errors are close to random, and then gamma is about lambda * sqrt(k) * u (Higham
and Mary, 2019); lambda = 8 leaves no room for chance, and is far below what one wrong, missing or doubled
product would give. Alpha, beta and C add a few roundings of their own.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

UNIT = 2.0**-24  # half the distance from 1 to the next float32
LAMBDA = 8.0
TINY = 2.0**-126  # below, float32 loses digits, or is flushed to zero

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]


def gamma(k: int) -> float:
    """The relative error that a sum of `k` products may have."""
    return (min(float(k), LAMBDA * math.sqrt(k)) + 8.0) * UNIT


def product(a: Array, b: Array) -> tuple[Exact, Exact]:
    """`a @ b` in float64, and how far an fp32 result may be from it, element by element."""
    with np.errstate(invalid="ignore"):  # inf * 0 is NaN, as it should be
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        magnitude = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    return exact, gamma(a.shape[-1]) * magnitude + TINY


def gemm(
    a: Array,
    b: Array,
    c: Array | None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool,
    trans_b: bool,
) -> tuple[Exact, Exact]:
    """ONNX Gemm in float64, and how far an fp32 result may be from it."""
    left = (a.T if trans_a else a).astype(np.float64)
    right = (b.T if trans_b else b).astype(np.float64)
    with np.errstate(invalid="ignore"):
        exact = alpha * (left @ right)
        bound = abs(alpha) * gamma(left.shape[1]) * (np.abs(left) @ np.abs(right)) + TINY
        if c is not None and beta != 0.0:
            exact = exact + beta * c.astype(np.float64)
            bound = bound + gamma(1) * (np.abs(beta * c.astype(np.float64)) + np.abs(exact))
    return exact, bound


def assert_close(got: npt.NDArray[np.generic], exact: Exact, bound: Exact, what: str = "") -> None:
    """Shape, type, every finite element within its bound, and NaN and infinity exactly where they belong."""
    assert got.dtype == np.float32
    assert got.shape == exact.shape, f"{what}: shape {got.shape}, expected {exact.shape}"
    found = got.astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(exact)), f"{what}: NaN is not where it belongs"
    infinite = np.isinf(exact)
    assert np.array_equal(found[infinite], exact[infinite]), f"{what}: infinities differ"
    finite = np.isfinite(exact)
    off = np.abs(np.where(finite, found, 0.0) - np.where(finite, exact, 0.0))
    wrong = finite & ~(off <= np.where(finite, bound, 0.0))
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {exact.size} elements are wrong; the first at {index}: "
            f"got {found[index]!r}, expected {exact[index]!r} +- {bound[index]:.3g}"
        )
