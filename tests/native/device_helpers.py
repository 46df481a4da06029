"""What the tests of the kernels of cards share: element types, numbers, comparing.

A bfloat16 array is one of uint16 here, its bits; `storage` and `bits` go there and back.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from support.built import FOLDER

__all__ = ["DTYPES", "FLOATS", "INTEGERS", "bits", "check", "kernels", "numbers", "storage"]

sys.path.insert(0, str(FOLDER))
try:
    import tunableop_device_kernels as kernels
except ImportError as error:
    raise pytest.UsageError(f"tests/native: {error}") from error

FLOATS = ["f32", "f16", "bf16", "f64"]
INTEGERS = ["i32", "i64", "u8"]

DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "f64": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "b": np.bool_,
    "w1": np.uint8,
    "w2": np.uint16,
    "w4": np.uint32,
    "w8": np.uint64,
}
#: Of one rounding, and some for functions of float.
TOLERANCES = {"f32": 2e-6, "f16": 1e-3, "bf16": 8e-3, "f64": 1e-13}


def storage(array: Any, kind: str) -> np.ndarray:
    """The array as the kernel is given it."""
    if kind != "bf16":
        return np.ascontiguousarray(array, dtype=DTYPES[kind]).reshape(np.shape(array))
    single = np.ascontiguousarray(array, dtype=np.float32).reshape(np.shape(array))
    whole = single.view(np.uint32).astype(np.uint64)
    rounded = ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def bits(array: np.ndarray, kind: str) -> np.ndarray:
    """The numbers in what a kernel was given or has written."""
    if kind != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def numbers(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray:
    """Random ones that the type holds exactly."""
    generator = np.random.default_rng(seed + 1000)
    if kind == "b":
        return np.asarray(generator.random(shape) < 0.5)
    if kind in FLOATS:
        return bits(storage(generator.standard_normal(shape) * 2, kind), kind)
    low = 0 if kind[0] in "uw" else -100
    return np.asarray(generator.integers(low, 100, shape)).astype(DTYPES[kind])


def check(out: np.ndarray, expected: np.ndarray, kind: str, tolerance: float = 0.0) -> None:
    """`expected` was calculated in the type or better."""
    given = bits(out, kind).astype(np.float64)
    assert given.shape == np.shape(expected)
    with np.errstate(all="ignore"):
        wanted = bits(storage(expected, kind), kind).astype(np.float64)
    tolerance = tolerance or TOLERANCES.get(kind, 0.0)
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)
