"""Problems, operands and records for the tests of tuner and cache."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tunableop_native_tests as native

FloatArray = npt.NDArray[np.float32]


def make_problem(m: int, n: int, k: int, **fields: Any) -> native.Problem:
    """A plain fp32 problem; `fields` overrides. Leading dimensions and strides follow unless given."""
    problem = native.Problem()
    problem.m, problem.n, problem.k = m, n, k
    for name, value in fields.items():
        setattr(problem, name, value)
    if "lda" not in fields:
        problem.lda = max(1, m if problem.trans_a else k)
    if "ldb" not in fields and problem.b_layout == native.BLayout.plain:
        problem.ldb = max(1, k if problem.trans_b else n)
    if "ldc" not in fields:
        problem.ldc = max(1, n)
    if problem.batch > 1:
        if "stride_a" not in fields:
            problem.stride_a = problem.lda * (k if problem.trans_a else m)
        if "stride_c" not in fields:
            problem.stride_c = problem.ldc * m
    problem.align_a = problem.align_b = problem.align_c = 4
    return problem


def extent(rows: int, columns: int, leading: int, batch: int, stride: int) -> int:
    """Elements from the first to the last of `batch` matrices."""
    return (batch - 1) * stride + (rows - 1) * leading + columns


def make_operands(problem: native.Problem, seed: int = 0) -> dict[str, FloatArray]:
    """Random operands that fit `problem` (B plain), as keywords of the tune functions."""
    random = np.random.default_rng(seed)
    p = problem
    rows_a, columns_a = (p.k, p.m) if p.trans_a else (p.m, p.k)
    rows_b, columns_b = (p.n, p.k) if p.trans_b else (p.k, p.n)
    sizes = {
        "a": extent(rows_a, columns_a, p.lda, p.batch, p.stride_a),
        "b": extent(rows_b, columns_b, p.ldb, p.batch, p.stride_b),
        "c": extent(p.m, p.n, p.ldc, p.batch, p.stride_c),
        "bias": p.n,
    }
    return {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}


def kernel(name: str, ms: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A simulated kernel that takes `ms`; `fields` are those of SimulatedKernel."""
    return {"name": name, "ms": ms, **fields}


SMALL = make_problem(6, 20, 10, ldc=23)


def tune(
    *kernels: dict[str, Any],
    problem: native.Problem = SMALL,
    operands: dict[str, Any] | None = None,
    libraries: list[list[dict[str, Any]]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Tunes with simulated kernels (the first is the default) on a virtual clock."""
    result: dict[str, Any] = native.tune_simulated(
        problem,
        **(operands if operands is not None else make_operands(problem)),
        libraries=libraries if libraries is not None else [list(kernels)],
        **options,
    )
    return result


def tune_on_card(
    *kernels: dict[str, Any],
    problem: native.Problem = SMALL,
    operands: dict[str, Any] | None = None,
    libraries: list[list[dict[str, Any]]] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Tunes on a fake card (the first kernel is the default). An error is in it: status and message."""
    result: dict[str, Any] = native.tune_on_card(
        problem,
        **(operands if operands is not None else make_operands(problem)),
        libraries=libraries if libraries is not None else [list(kernels)],
        **options,
    )
    return result


US = 1e-3  # kernels of a card take microseconds


def found(name: str, ms: float, **fields: Any) -> dict[str, Any]:
    """A kernel that no list has."""
    return kernel(name, ms, listed=False, **fields)


def gave_everything_back(result: dict[str, Any]) -> bool:
    names = ("allocated", "pinned", "streams", "events")
    return all(result["after"][name] == result["before"][name] for name in names)


# A valley with the best in its middle, of which a list has seen the upper edge.
VALLEY = [found(f"x{i}", (8.0 + 0.2 * abs(i - 60)) * US) for i in range(120)]
LISTED = [kernel("default", 22 * US), kernel("listed", 21 * US)]


def switches(
    elections: int,
    times: list[float],
    noise: float,
    budget: float = 3000.0,
    tuner: Callable[..., dict[str, Any]] = tune,
    **fields: Any,
) -> int:
    """How often of `elections` the default lost."""
    count = 0
    for election in range(elections):
        kernels = [
            kernel(f"k{i}", ms, noise=noise, seed=1000 * election + i, **fields) for i, ms in enumerate(times)
        ]
        count += tuner(*kernels, max_tuning_ms=budget)["winner"].kernel != "k0"
    return count


def pack_b(b: FloatArray) -> FloatArray:
    """The packed layout of gemm/packed_b.h for a k x n matrix."""
    n = b.shape[1]
    groups = []
    for begin in range(0, n, 64):
        group = b[:, begin : begin + 64]
        width = group.shape[1]
        padded = width if n == 1 else -(-width // 16) * 16
        groups.append(np.pad(group, ((0, 0), (0, padded - width))).ravel())
    return np.concatenate(groups).astype(np.float32)


FINGERPRINT = {"device": "cpu", "model": "Test CPU", "features": "avx avx2 fma", "cores": 4}
OTHER_MACHINE = {"device": "cpu", "model": "Test CPU", "features": "avx avx2 fma", "cores": 64}

_RECORD: dict[str, Any] = {
    "m": 128, "n": 1536, "k": 384, "batch": 1, "lda": 384, "ldb": 0, "ldc": 1536,
    "stride_a": 0, "stride_b": 0, "stride_c": 0,
    "a_type": "fp32", "b_type": "fp32", "c_type": "fp32",
    "trans_a": False, "trans_b": False, "b_layout": "packed", "b_constant": True,
    "alpha": "1", "beta": "0", "epilogue": "bias_gelu", "precision": "exact",
    "align_a": 4, "align_b": 4, "align_c": 4, "threads": 2,
    "winner": {
        "library": "native", "kernel": "avx512:6x64/kc384/rows", "opaque_id": -1, "workspace_bytes": 0,
    },
    "library_identity": "0.1.0+avx512", "winner_ms": 1.25, "default_ms": 1.5,
    "default_kernel": "native:avx512:8x48/kc256/rows", "error": 0.125, "tried": 5, "budget_ms": 0,
    "measured_at": 1_750_000_000,
}  # fmt: skip


def make_record(**fields: Any) -> dict[str, Any]:
    """A valid record; `fields` overrides."""
    return {**copy.deepcopy(_RECORD), **fields}


def document(*entries: Any, fingerprint: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A results document with one section; `fields` adds to or overrides its members."""
    section = {"fingerprint": fingerprint or FINGERPRINT, "entries": list(entries)}
    return {"schema": 2, "producer": "test", "machines": [section], **fields}
