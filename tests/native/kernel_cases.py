"""What the tests of kernels share: a product, its operands in memory, and what the result must be.

Tolerance: a sum of k products, each rounded to relative precision eps, is off by at most about
``k * eps * (|A| |B|)`` and, the roundings being independent, typically by ``sqrt(k)`` of that. The tests
allow ``4 * sqrt(k + 4) * eps * (|alpha| |A| |B| + |beta| |C| + |bias|)``, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tunableop_native_tests as native

EPS = float(np.finfo(np.float32).eps)
CANARY = np.float32(-12345.5)
ISAS = native.native_isas()
WIDTHS = {"avx512": 16, "avx2": 8, "sse42": 4, "neon": 4}
EPILOGUES = ("none", "bias", "relu", "bias_relu", "gelu", "bias_gelu")


@dataclass(frozen=True)
class Case:
    """A product and how its operands lie in memory."""

    m: int
    n: int
    k: int
    batch: int = 1
    trans_a: bool = False
    trans_b: bool = False
    packed: bool = False
    broadcast: str = ""  # which of "a", "b" serve the whole batch
    pad: int = 0  # what each leading dimension exceeds its minimum by
    offset: int = 0  # floats that each operand is moved off its alignment by
    alpha: float = 1.0
    beta: float = 0.0
    epilogue: str = "none"
    threads: int = 1

    def problem(self) -> native.Problem:
        p = native.Problem()
        p.m, p.n, p.k, p.batch = self.m, self.n, self.k, self.batch
        p.trans_a = int(self.trans_a)
        p.lda = max(1, self.m if self.trans_a else self.k) + self.pad
        p.ldc = max(1, self.n) + self.pad
        p.stride_a = 0 if "a" in self.broadcast or self.batch < 2 else self.a_shape[0] * p.lda + self.pad
        p.stride_c = 0 if self.batch < 2 else self.m * p.ldc + self.pad
        if self.packed:
            p.b_layout = native.BLayout.packed
            p.b_constant = 1
            p.stride_b = (
                0 if "b" in self.broadcast or self.batch < 2 else native.packed_floats(self.k, self.n)
            )
        else:
            p.trans_b = int(self.trans_b)
            p.ldb = max(1, self.k if self.trans_b else self.n) + self.pad
            p.stride_b = 0 if "b" in self.broadcast or self.batch < 2 else self.b_shape[0] * p.ldb + self.pad
        p.alpha = scalar_class(self.alpha)
        p.beta = scalar_class(self.beta)
        p.epilogue = getattr(native.Epilogue, self.epilogue)
        p.threads = self.threads
        return p

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.trans_b else (self.k, self.n)


def scalar_class(value: float) -> native.ScalarClass:
    if value == 0.0:
        return native.ScalarClass.zero
    return native.ScalarClass.one if value == 1.0 else native.ScalarClass.other


@lru_cache(maxsize=1)
def erf_table() -> np.ufunc:
    return np.frompyfunc(math.erf, 1, 1)


def activate(x: np.ndarray, epilogue: str) -> np.ndarray:
    if "relu" in epilogue:
        return np.where(x < 0, 0.0, x)
    if "gelu" in epilogue:
        return 0.5 * x * (1.0 + erf_table()(x / math.sqrt(2.0)).astype(np.float64))
    return x


@dataclass
class Data:
    """Operands of a Case: the logical matrices, and the flat memory that they lie in."""

    a: np.ndarray  # [batch, m, k]
    b: np.ndarray  # [batch, k, n]
    c: np.ndarray  # [batch, m, n] before the call
    bias: np.ndarray  # [n]


def make_data(case: Case, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)

    def matrix(shared: bool, rows: int, columns: int) -> np.ndarray:
        one = rng.standard_normal((1 if shared else case.batch, rows, columns)).astype(np.float32)
        return np.broadcast_to(one, (case.batch, rows, columns))

    return Data(
        matrix("a" in case.broadcast, case.m, case.k),
        matrix("b" in case.broadcast, case.k, case.n),
        matrix(False, case.m, case.n),
        rng.standard_normal(case.n).astype(np.float32),
    )


def expected(case: Case, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The result in double precision, and the tolerance of each element."""
    a, b, c = (x.astype(np.float64) for x in (data.a, data.b, data.c))
    value = case.alpha * (a @ b)
    scale = abs(case.alpha) * (np.abs(a) @ np.abs(b))
    if case.beta != 0.0:
        value = value + case.beta * c
        scale = scale + abs(case.beta) * np.abs(c)
    if "bias" in case.epilogue:
        value = value + data.bias.astype(np.float64)
        scale = scale + np.abs(data.bias)
    return activate(value, case.epilogue), 4.0 * math.sqrt(case.k + 4) * EPS * scale + 1e-37


def store(
    flat: np.ndarray, matrices: np.ndarray, transposed: bool, ld: int, stride: int, offset: int
) -> None:
    """Write [batch, rows, columns] into flat memory as the Problem describes it."""
    for i in range(matrices.shape[0]):
        matrix = matrices[i].T if transposed else matrices[i]
        for r in range(matrix.shape[0]):
            start = offset + i * stride + r * ld
            flat[start : start + matrix.shape[1]] = matrix[r]


def extent(batch: int, stride: int, rows: int, ld: int, columns: int) -> int:
    """Floats from the first to the last element of an operand."""
    if batch == 0 or rows == 0 or columns == 0:
        return 0
    return (batch - 1) * stride + (rows - 1) * ld + columns


def address(array: np.ndarray, offset: int = 0) -> int:
    return array.ctypes.data + 4 * offset


class Memory:
    """Operands of a Case laid out with poison (NaN) between and around what may be read."""

    def __init__(self, case: Case, data: Data, allocate: Callable[[int], np.ndarray] | None = None) -> None:
        p = case.problem()
        self.case, self.problem = case, p
        front = 0 if allocate else 16 + case.offset
        tail = 0 if allocate else 16

        def region(floats: int, fill: np.float32) -> np.ndarray:
            array = allocate(floats) if allocate else np.empty(front + floats + tail, np.float32)
            array[:] = fill
            return array

        nan = np.float32(np.nan)
        self.a = region(extent(case.batch, p.stride_a, case.a_shape[0], p.lda, case.a_shape[1]), nan)
        store(self.a, data.a, case.trans_a, p.lda, p.stride_a, front)
        if case.packed:
            shared = p.stride_b == 0
            self.b = native.pack_b(np.ascontiguousarray(data.b[:1] if shared else data.b))
        else:
            self.b = region(extent(case.batch, p.stride_b, case.b_shape[0], p.ldb, case.b_shape[1]), nan)
            store(self.b, data.b, case.trans_b, p.ldb, p.stride_b, front)
        self.c = region(extent(case.batch, p.stride_c, case.m, p.ldc, case.n), CANARY)
        self.bias = region(case.n, nan)
        self.bias[front : front + case.n] = data.bias
        self.front = front
        self.c_start = data.c

    def reset(self) -> None:
        """C: what beta multiplies, or poison when it must not be read; canaries everywhere else."""
        self.c[:] = CANARY
        poison = np.full_like(self.c_start, np.nan)
        store(
            self.c,
            poison if self.case.beta == 0.0 else self.c_start,
            False,
            self.problem.ldc,
            self.problem.stride_c,
            self.front,
        )

    def run(self, kernel: native.Candidate) -> np.ndarray:
        """Run the kernel; return the flat C."""
        self.reset()
        case = self.case
        native.run_kernel(
            self.problem,
            kernel,
            address(self.a, self.front),
            self.b if case.packed else address(self.b, self.front),
            address(self.c, self.front),
            address(self.bias, self.front) if "bias" in case.epilogue else None,
            alpha=case.alpha,
            beta=case.beta,
            threads=case.threads,
        )
        return self.c

    def result(self) -> np.ndarray:
        case, p = self.case, self.problem
        rows = [
            self.c[self.front + i * p.stride_c + r * p.ldc :][: case.n]
            for i in range(case.batch)
            for r in range(case.m)
        ]
        return np.array(rows, np.float32).reshape(case.batch, case.m, case.n)

    def untouched(self) -> bool:
        """Were all floats that are not elements of C left alone?"""
        rest = self.c.copy()
        canaries = np.full_like(self.c_start, CANARY)
        store(rest, canaries, False, self.problem.ldc, self.problem.stride_c, self.front)
        return bool(np.all(rest == CANARY))


def kernels(isa: str, problem: native.Problem) -> list[native.Candidate]:
    found = native.native_kernels(isa, problem)
    assert found, f"{isa} has no kernel for {problem}"
    return found


def check(case: Case, names: list[native.Candidate], seed: int = 0) -> None:
    data = make_data(case, seed)
    want, tolerance = expected(case, data)
    memory = Memory(case, data)
    for kernel in names:
        memory.run(kernel)
        got = memory.result()
        error = np.abs(got - want)
        assert np.all(error <= tolerance), (
            f"{kernel.full_name} {case}: {np.count_nonzero(~(error <= tolerance))} wrong, first at "
            f"{np.argwhere(~(error <= tolerance))[0]}, worst {np.nanmax(error / tolerance):.3g} x tolerance"
        )
        assert memory.untouched(), f"{kernel.full_name} {case}: wrote beside C"


def check_all(case: Case, isa: str, seed: int = 0) -> None:
    check(case, kernels(isa, case.problem()), seed)
