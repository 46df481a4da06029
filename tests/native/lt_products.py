"""Products for the GEMM libraries of cards: their operands as numpy arrays, and what must come out.

bfloat16 is not a type of numpy's: it is kept as the upper halves of float32, in uint16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import tunableop_native_tests as native

Stored = npt.NDArray[np.generic]
Exact = npt.NDArray[np.float64]

#: Half the distance between 1 and the next number.
UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
CANARY = 77.0


def to_stored(values: Exact, dtype: str) -> Stored:
    """As a card has them, rounded to nearest."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_exact(stored: Stored, dtype: str) -> Exact:
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


def scalar_class(value: float) -> native.ScalarClass:
    if value == 0.0:
        return native.ScalarClass.zero
    return native.ScalarClass.one if value == 1.0 else native.ScalarClass.other


@dataclass(frozen=True)
class Product:
    """A GEMM and how its operands lie in memory."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    batch: int = 1
    trans_a: bool = False
    trans_b: bool = False
    shared: str = ""  # which of "a", "b" serve the whole batch
    pad: int = 0  # what leading dimensions and strides exceed their minimum by
    alpha: float = 1.0
    beta: float = 0.0
    epilogue: str = "none"
    precision: str = "exact"
    b_constant: bool = False
    align: int = 4  # classes: log2 of bytes

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.trans_b else (self.k, self.n)

    def problem(self) -> native.Problem:
        p = native.Problem()
        p.m, p.n, p.k, p.batch = self.m, self.n, self.k, self.batch
        p.lda = self.a_shape[1] + self.pad
        p.ldb = self.b_shape[1] + self.pad
        p.ldc = self.n + self.pad
        if self.batch > 1:
            p.stride_a = 0 if "a" in self.shared else self.a_shape[0] * p.lda + self.pad
            p.stride_b = 0 if "b" in self.shared else self.b_shape[0] * p.ldb + self.pad
            p.stride_c = self.m * p.ldc + self.pad
        p.trans_a, p.trans_b = int(self.trans_a), int(self.trans_b)
        p.a_type = p.b_type = p.c_type = getattr(native.DataType, self.dtype)
        p.alpha, p.beta = scalar_class(self.alpha), scalar_class(self.beta)
        p.epilogue = getattr(native.Epilogue, self.epilogue)
        p.precision = getattr(native.Precision, self.precision)
        p.b_constant = int(self.b_constant)
        p.align_a = p.align_b = p.align_c = self.align
        p.threads = 0
        p.validate()
        return p


def laid_out(matrices: Exact, ld: int, stride: int, dtype: str) -> Stored:
    """[items, rows, columns] in flat memory, with poison between."""
    items, rows, columns = matrices.shape
    size = (items - 1) * stride + rows * ld
    flat = np.full(size, CANARY)
    for i in range(items):
        for r in range(rows):
            start = i * stride + r * ld
            flat[start : start + columns] = matrices[i, r]
    return to_stored(flat, dtype)


@dataclass
class Trial:
    """A product's operands on a card, the result expected, and how far off it may be."""

    product: Product
    library: native.CardLibrary
    lane: native.Lane
    seed: int = 0
    problem: native.Problem = field(init=False)

    def __post_init__(self) -> None:
        p = self.problem = self.product.problem()
        product = self.product
        rng = np.random.default_rng(self.seed)

        def matrices(shared: bool, shape: tuple[int, int]) -> Exact:
            raw = rng.uniform(-1.0, 1.0, (1 if shared else product.batch, *shape))
            return to_exact(to_stored(raw, product.dtype), product.dtype)

        self.a = matrices("a" in product.shared, product.a_shape)
        self.b = matrices("b" in product.shared, product.b_shape)
        self.c = matrices(False, (product.m, product.n))
        self.bias = matrices(True, (1, product.n))[0, 0]
        self.device_a = self.upload(laid_out(self.a, p.lda, p.stride_a, product.dtype))
        self.device_b = self.upload(laid_out(self.b, p.ldb, p.stride_b, product.dtype))
        self.device_bias = self.upload(to_stored(self.bias, product.dtype))
        dense = np.ascontiguousarray(self.b if product.trans_b else self.b.transpose(0, 2, 1))
        self.device_turned = self.upload(to_stored(dense, product.dtype))

    def upload(self, array: Stored) -> native.CardArray:
        return native.CardArray(self.lane, np.ascontiguousarray(array))

    @cached_property
    def expected(self) -> tuple[Exact, Exact]:
        """In double precision, and the tolerance of each element."""
        product = self.product
        a = self.a.transpose(0, 2, 1) if product.trans_a else self.a
        b = self.b.transpose(0, 2, 1) if product.trans_b else self.b
        shape = (product.batch, product.m, product.n)
        value = product.alpha * np.broadcast_to(a @ b, shape)
        scale = abs(product.alpha) * np.broadcast_to(np.abs(a) @ np.abs(b), shape)
        if product.beta != 0.0:
            value = value + product.beta * self.c
            scale = scale + np.abs(product.beta * self.c)
        if "bias" in product.epilogue:
            value = value + self.bias
            scale = scale + np.abs(self.bias)
        if "relu" in product.epilogue:
            value = np.maximum(value, 0.0)
        unit = UNITS[product.dtype]
        inside = {"exact": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-8}[product.precision]
        summing = unit if product.dtype in ("float32", "float64") else UNITS["float32"]
        bound = 4.0 * (summing * math.sqrt(product.k + 8) + inside) * scale + unit * np.abs(value) + 2.0**-26
        return value, bound

    def start(self) -> Stored:
        """What C holds before the call: what beta multiplies, or what nobody may read."""
        p = self.problem
        c = self.c if self.product.beta != 0.0 else np.full_like(self.c, np.nan)
        return laid_out(c, p.ldc, p.stride_c, self.product.dtype)

    def run(self, kernel: native.CardKernel, lane: native.Lane | None = None) -> Stored:
        """C as it lies in memory afterwards."""
        flat = self.start()
        device_c = self.upload(flat)
        product = self.product
        kernel.run(
            lane or self.lane,
            self.device_a,
            None if kernel.needs_transposed_b else self.device_b,
            device_c,
            bias=self.device_bias if "bias" in product.epilogue else None,
            b_transposed=self.device_turned if kernel.needs_transposed_b else None,
            alpha=product.alpha,
            beta=product.beta,
        )
        device_c.read(flat)
        return flat

    def judge(self, flat: Stored, what: str) -> None:
        """C is as expected, and nothing beside it was written."""
        p, product = self.problem, self.product
        values = to_exact(flat, product.dtype)
        value, bound = self.expected
        got = np.empty_like(value)
        rest = np.ones(values.shape, dtype=bool)
        for i in range(product.batch):
            for r in range(product.m):
                start = i * p.stride_c + r * p.ldc
                got[i, r] = values[start : start + product.n]
                rest[start : start + product.n] = False
        off = np.abs(got - value)
        wrong = ~(off <= bound)
        assert not wrong.any(), (
            f"{what}: {product}: {int(wrong.sum())} wrong, first at {np.argwhere(wrong)[0]}, "
            f"worst {np.nanmax(off / bound):.3g} of the tolerance"
        )
        assert np.all(values[rest] == CANARY), f"{what}: {product}: wrote beside C"

    def check(self, candidate: native.Candidate, lane: native.Lane | None = None) -> None:
        kernel = self.library.prepare(self.problem, candidate)
        self.judge(self.run(kernel, lane), candidate.full_name)


def checked(
    library: native.CardLibrary, lane: native.Lane, product: Product, most: int = 1000
) -> list[native.Candidate]:
    """Every kernel that is proposed gives the right answer. Returns them."""
    trial = Trial(product, library, lane)
    found: list[native.Candidate] = library.candidates(trial.problem, scope_all=True)
    for candidate in found[:most]:
        trial.check(candidate)
    return found


def variants(product: Product, **changes: list[object]) -> list[Product]:
    """`product` with each of the values, one change at a time."""
    return [replace(product, **{name: value}) for name, values in changes.items() for value in values]  # type: ignore[arg-type]
