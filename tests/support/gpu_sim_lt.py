"""cublasLt and hipBLASLt of tests/gpu_sim, through ctypes, with one face."""

from __future__ import annotations

import ctypes
from ctypes import (
    byref,
    c_char,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from typing import Any

from support.gpu_sim import GpuError, Runtime

TYPES = {"fp32": 0, "fp64": 1, "fp16": 2, "bf16": 14}
EPILOGUES = {"none": 1, "relu": 2, "bias": 4, "bias_relu": 6, "gelu": 32, "bias_gelu": 36}


@dataclass(frozen=True)
class Numbers:
    """What one vendor calls things by."""

    prefix: str
    operations: tuple[int, int]
    compute: dict[str, int]
    result_bytes: int
    workspace_at: int
    trans: tuple[int, int]
    epilogue: int
    bias: int
    pointer_mode: int
    batch: tuple[int, int]
    order: int
    not_supported: int
    invalid_value: int
    execution_failed: int


CUDA = Numbers(
    "cublasLt", (0, 1), {"fp32": 68, "tf32": 77, "fp64": 70}, 96, 64, (3, 4), 7, 8, 2, (5, 6), 1, 15, 7, 13
)
HIP = Numbers(
    "hipblasLt", (111, 112), {"fp32": 2, "tf32": 6, "fp64": 7}, 56, 24, (0, 1), 2, 3, 13, (0, 1), 3, 7, 3, 5
)


class Layout:
    """Of a column-major matrix as it is stored."""

    def __init__(
        self, lt: Lt, dtype: str, rows: int, columns: int, batch: int = 1, stride: int = 0, ld: int = 0
    ) -> None:
        self.pointer = c_void_p()
        lt.call(
            "MatrixLayoutCreate",
            byref(self.pointer),
            TYPES[dtype],
            c_uint64(rows),
            c_uint64(columns),
            c_int64(ld or rows),
        )
        if batch != 1:
            lt.set("MatrixLayout", self.pointer, lt.numbers.batch[0], c_int32(batch))
            lt.set("MatrixLayout", self.pointer, lt.numbers.batch[1], c_int64(stride))


class Product:
    """A described product: descriptor and layouts; m x n = op(m x k) op(k x n), column-major."""

    def __init__(
        self,
        lt: Lt,
        m: int,
        n: int,
        k: int,
        dtype: str = "fp32",
        trans: tuple[bool, bool] = (False, False),
        compute: str = "",
        batch: int = 1,
        strides: tuple[int, int, int] | None = None,
        epilogue: str = "none",
        bias: c_void_p | None = None,
        out: str = "",
    ) -> None:
        self.lt, self.m, self.n, self.k, self.dtype = lt, m, n, k, dtype
        numbers = lt.numbers
        self.compute = compute or ("fp64" if dtype == "fp64" else "fp32")
        self.scale = c_double if dtype == "fp64" else c_float
        self.descriptor = c_void_p()
        scale_type = TYPES["fp64" if dtype == "fp64" else "fp32"]
        lt.call("MatmulDescCreate", byref(self.descriptor), numbers.compute[self.compute], scale_type)
        for attribute, transposed in zip(numbers.trans, trans, strict=True):
            lt.set("MatmulDesc", self.descriptor, attribute, c_int32(numbers.operations[int(transposed)]))
        lt.set("MatmulDesc", self.descriptor, numbers.epilogue, c_uint32(EPILOGUES[epilogue]))
        if bias is not None:
            lt.set("MatmulDesc", self.descriptor, numbers.bias, bias)
        steps = strides or (m * k, k * n, m * n)
        self.a = Layout(lt, dtype, *((k, m) if trans[0] else (m, k)), batch, steps[0])
        self.b = Layout(lt, dtype, *((n, k) if trans[1] else (k, n)), batch, steps[1])
        self.d = Layout(lt, out or dtype, m, n, batch, steps[2])

    @property
    def layouts(self) -> tuple[c_void_p, c_void_p, c_void_p, c_void_p]:
        return self.a.pointer, self.b.pointer, self.d.pointer, self.d.pointer

    def heuristic(self, count: int = 8, workspace: int = 32 << 20, **attributes: Any) -> list[bytes]:
        """The results' bytes; the algo comes first in each."""
        preference = c_void_p()
        self.lt.call("MatmulPreferenceCreate", byref(preference))
        self.lt.set("MatmulPreference", preference, 1, c_uint64(workspace))
        for number, value in attributes.items():
            self.lt.set("MatmulPreference", preference, int(number.removeprefix("attribute_")), value)
        size = self.lt.numbers.result_bytes
        results, found = (c_char * (size * count))(), c_int()
        self.lt.call(
            "MatmulAlgoGetHeuristic",
            self.lt.handle,
            self.descriptor,
            *self.layouts,
            preference,
            count,
            results,
            byref(found),
        )
        raw = bytes(results)
        return [raw[i * size : (i + 1) * size] for i in range(found.value)]

    def workspace_of(self, result: bytes) -> int:
        at = self.lt.numbers.workspace_at
        return int.from_bytes(result[at : at + 8], "little")

    def status(
        self,
        algo: bytes | None,
        a: c_void_p,
        b: c_void_p,
        d: c_void_p,
        workspace: c_void_p | None = None,
        workspace_bytes: int = 0,
        stream: c_void_p | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: c_void_p | None = None,
    ) -> int:
        lt = self.lt
        scales = byref(self.scale(alpha)), byref(self.scale(beta))
        held = None if algo is None else ctypes.create_string_buffer(algo, len(algo))
        return lt.status(
            "Matmul",
            lt.handle,
            self.descriptor,
            scales[0],
            a,
            self.a.pointer,
            b,
            self.b.pointer,
            scales[1],
            c or d,
            self.d.pointer,
            d,
            self.d.pointer,
            held,
            workspace,
            c_size_t(workspace_bytes),
            stream,
        )

    def run(self, *arguments: Any, **keywords: Any) -> None:
        status = self.status(*arguments, **keywords)
        if status != 0:
            raise GpuError("Matmul", status)


class Lt:
    """A handle of the flavour's Lt library, on the current card."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.numbers = HIP if runtime.amd else CUDA
        self.handle = c_void_p()
        self.call("Create", byref(self.handle))

    def status(self, name: str, *arguments: Any) -> int:
        return int(self.runtime.lt[self.numbers.prefix + name](*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        status = self.status(name, *arguments)
        if status != 0:
            raise GpuError(name, status)

    def set(self, kind: str, item: c_void_p, attribute: int, value: Any) -> None:
        self.call(kind + "SetAttribute", item, attribute, byref(value), c_size_t(ctypes.sizeof(value)))
