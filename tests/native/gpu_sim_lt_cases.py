"""What the simulated cublasLt and hipBLASLt must do alike. Each case runs in a process of its flavour."""

from __future__ import annotations

import itertools
from ctypes import c_void_p
from typing import Any

import numpy as np
import pytest
from support.gpu_sim import GpuError, Runtime
from support.gpu_sim_lt import Lt, Product

WORKSPACE = 32 << 20
Array = np.ndarray[Any, Any]

#: Type, of numpy's that holds it, and how far off a result may be for each of sqrt(k).
STORED: dict[str, tuple[Any, float]] = {
    "fp32": (np.float32, 1e-6),
    "fp64": (np.float64, 2e-15),
    "fp16": (np.float16, 1e-3),
    "bf16": (np.uint16, 8e-3),
}


def narrow(values: Array, dtype: str) -> Array:
    """As it lies in memory; to the nearest, ties to even."""
    if dtype != "bf16":
        return values.astype(STORED[dtype][0])
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def wide(stored: Array, dtype: str) -> Array:
    if dtype != "bf16":
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def activated(values: Array, epilogue: str) -> Array:
    if "relu" in epilogue:
        return np.maximum(values, 0)
    if "gelu" in epilogue:
        return 0.5 * values * (1 + np.tanh(0.7978845608028654 * (values + 0.044715 * values**3)))
    return values


class Data:
    """Column-major operands of a product, on the card and as numpy sees them (batch, rows, columns)."""

    def __init__(
        self,
        gpu: Runtime,
        m: int,
        n: int,
        k: int,
        dtype: str,
        trans: tuple[bool, bool],
        batch: int = 1,
        one_b: bool = False,
    ) -> None:
        rng = np.random.default_rng(m * 10007 + n * 101 + k)
        self.gpu, self.dtype, self.shape = gpu, dtype, (batch, m, n)
        stored = STORED[dtype][0]
        self.a = narrow(rng.standard_normal((batch, m, k)), dtype)
        self.b = narrow(rng.standard_normal((1 if one_b else batch, k, n)), dtype)
        self.c = narrow(rng.standard_normal((batch, m, n)), dtype)
        self.bias = narrow(rng.standard_normal(m), dtype)
        # In memory: columns one after the other; a transposed operand is stored transposed.
        self.on_card = (
            gpu.upload(np.ascontiguousarray(self.a if trans[0] else self.a.swapaxes(1, 2))),
            gpu.upload(np.ascontiguousarray(self.b if trans[1] else self.b.swapaxes(1, 2))),
            gpu.malloc(batch * m * n * np.dtype(stored).itemsize),
        )
        self.bias_on_card = gpu.upload(self.bias)

    def reset(self) -> None:
        self.gpu.copy_in(self.on_card[2], np.ascontiguousarray(self.c.swapaxes(1, 2)))

    def result(self) -> Array:
        batch, m, n = self.shape
        raw = self.gpu.download(self.on_card[2], (batch, n, m), STORED[self.dtype][0])
        return wide(raw, self.dtype).swapaxes(1, 2)

    def expected(self, alpha: float = 1, beta: float = 0, epilogue: str = "none") -> Array:
        values = alpha * (wide(self.a, self.dtype) @ wide(self.b, self.dtype))
        values = values + beta * wide(self.c, self.dtype)
        if "bias" in epilogue:
            values = values + wide(self.bias, self.dtype)[:, None]
        return activated(values, epilogue)

    def close(self, expected: Array, k: int) -> bool:
        limit = STORED[self.dtype][1] * np.sqrt(k) * (1 + np.abs(expected))
        return bool(np.all(np.abs(self.result() - expected) <= limit))


def numerics(gpu: Runtime, lt: Lt) -> None:
    """Every kernel of the heuristic, all types, transposes and epilogues."""
    m, n, k = 40, 24, 64
    workspace = gpu.malloc(WORKSPACE)
    epilogues = ("none", "relu", "bias", "bias_relu", "gelu", "bias_gelu")
    tried = 0
    for dtype, trans in itertools.product(STORED, itertools.product((False, True), repeat=2)):
        data = Data(gpu, m, n, k, dtype, trans)
        for epilogue in epilogues:
            bias = data.bias_on_card if "bias" in epilogue else None
            product = Product(lt, m, n, k, dtype, trans, epilogue=epilogue, bias=bias)
            if dtype == "fp64" and epilogue != "none" and not gpu.amd:
                continue
            for result in product.heuristic():
                for alpha, beta in ((1, 0), (0.5, 2)):
                    data.reset()
                    product.run(result, *data.on_card, workspace, WORKSPACE, alpha=alpha, beta=beta)
                    assert data.close(data.expected(alpha, beta, epilogue), k), (dtype, trans, epilogue)
                    tried += 1
    assert tried > 500


def batches(gpu: Runtime, lt: Lt) -> None:
    m, n, k, batch = 17, 9, 33, 3
    workspace = gpu.malloc(WORKSPACE)
    for one_b in (False, True):
        data = Data(gpu, m, n, k, "fp32", (False, True), batch, one_b)
        strides = (m * k, 0 if one_b else k * n, m * n)
        product = Product(lt, m, n, k, trans=(False, True), batch=batch, strides=strides)
        for result in product.heuristic():
            product.run(result, *data.on_card, workspace, WORKSPACE)
            assert data.close(data.expected(), k)


def tf32(gpu: Runtime, lt: Lt) -> None:
    """Faster arithmetic is less exact, as the real one."""
    m = n = k = 64
    data = Data(gpu, m, n, k, "fp32", (False, False))
    workspace = gpu.malloc(WORKSPACE)
    product = Product(lt, m, n, k, compute="tf32")

    def rounded(values: Array) -> Array:
        bits = values.view(np.uint32)
        return ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)

    product.run(product.heuristic()[0], *data.on_card, workspace, WORKSPACE)
    expected = rounded(data.a).astype(np.float64) @ rounded(data.b).astype(np.float64)
    assert np.abs(data.result() - expected).max() < 1e-5
    assert np.abs(data.result() - data.expected()).max() > 1e-4


def list_times(gpu: Runtime, lt: Lt, m: int, n: int, k: int) -> list[float]:
    """Simulated times of the heuristic's kernels, from a cold cache."""
    product = Product(lt, m, n, k)
    data = [gpu.malloc(size * 4) for size in (m * k, k * n, m * n)]
    workspace, flushed = gpu.malloc(WORKSPACE), gpu.malloc(8 << 20)
    times = []
    for result in product.heuristic():
        gpu.call("MemsetAsync", flushed, 0, 8 << 20, None)
        times.append(gpu.time(lambda r=result: product.run(r, *data, workspace, WORKSPACE)))  # type: ignore[misc]
    for block in (*data, workspace, flushed):
        gpu.free(block)
    return times


def classes(gpu: Runtime, lt: Lt) -> None:
    """What tuning finds depends on the class of the shape: the first, one of the list, or a search."""
    for m, n, k in ((128, 96, 256), (64, 512, 128), (16, 80, 1024)):
        kinds = {}
        for step in range(3):
            kind = gpu.library.sim_gpu_shape_class(*map(c_void_p, (m, n, k + step * 8)))
            kinds[kind] = list_times(gpu, lt, m, n, k + step * 8)
        assert sorted(kinds) == [0, 1, 2]
        assert kinds[0][0] == min(kinds[0])
        assert kinds[1][3] == min(kinds[1])
        assert kinds[1][0] >= 1.19 * kinds[1][3]
        assert kinds[2] == sorted(kinds[2])


def workspaces(gpu: Runtime, lt: Lt) -> None:
    """One workspace for two streams gives wrong answers; too small a one is refused."""
    product = Product(lt, 64, 64, 2048)
    split = [result for result in product.heuristic() if product.workspace_of(result) > 0]
    assert split, "no kernel with splits is fast here"
    needed = product.workspace_of(split[0])
    assert not product.heuristic(workspace=0) or product.workspace_of(product.heuristic(workspace=0)[0]) == 0
    sets = [Data(gpu, 64, 64, 2048, "fp32", (False, False)) for _ in range(2)]
    gpu.call("MemsetAsync", sets[1].on_card[0], 0, 64 * 2048 * 4, None)
    workspace = gpu.malloc(needed)
    if gpu.flavour != "rocm6":  # it crashes, which is another test
        assert product.status(split[0], *sets[0].on_card, workspace, needed - 1) != 0
    streams = [gpu.stream(), gpu.stream()]
    gpu.synchronize()
    gpu.faults("hang_sum")
    product.run(split[0], *sets[0].on_card, workspace, needed, stream=streams[0])
    while gpu.count("hanging") < 1:
        pass
    product.run(split[0], *sets[1].on_card, workspace, needed, stream=streams[1])
    while gpu.count("hanging") < 2:
        pass
    gpu.release()
    for stream in streams:
        gpu.synchronize(stream)
    assert not sets[0].close(sets[0].expected(), 2048)


def faulty(gpu: Runtime, lt: Lt) -> None:
    m, n, k = 32, 16, 64
    data = Data(gpu, m, n, k, "fp32", (False, False))
    workspace = gpu.malloc(WORKSPACE)
    product = Product(lt, m, n, k)
    results = product.heuristic()

    def good(result: bytes, beta: float = 0) -> bool:
        product.run(result, *data.on_card, workspace, WORKSPACE, beta=beta)
        return data.close(data.expected(), k)

    assert all(good(result) for result in results)
    gpu.faults("wrong")
    assert not any(good(result) for result in results)
    gpu.faults("wrong_but_first")
    assert [good(result) for result in results] == [True] + [False] * (len(results) - 1)
    gpu.faults("tail")
    data.reset()
    assert not good(results[0])
    assert np.array_equal(data.result()[0, -1], wide(data.c, "fp32")[0, -1])
    gpu.faults("reads_c")
    gpu.copy_in(data.on_card[2], np.full(m * n, np.nan, np.float32))
    assert not good(results[0])
    assert np.isnan(data.result()).all()
    gpu.faults("")
    assert good(results[0]), "beta 0 does not read C"
    for fault, status in (
        ("not_supported", lt.numbers.not_supported),
        ("execution_failed", lt.numbers.execution_failed),
    ):
        gpu.faults(fault)
        assert product.status(results[0], *data.on_card, workspace, WORKSPACE) == status
    gpu.faults("heuristic_fails")
    with pytest.raises(GpuError):
        product.heuristic()


def overrun(gpu: Runtime, lt: Lt) -> None:
    """Sixteen elements after C: seen when C is a part of a larger block."""
    product = Product(lt, 8, 8, 8)
    blocks = [gpu.upload(np.zeros(256, np.float32)) for _ in range(3)]
    gpu.faults("overrun")
    product.run(product.heuristic()[0], *blocks)
    assert np.flatnonzero(gpu.download(blocks[2], 256, np.float32)).tolist() == list(range(64, 80))


def refused(gpu: Runtime, lt: Lt) -> None:
    """What contradicts itself is an invalid value; what no kernel can do is not supported."""
    blocks = [gpu.malloc(4096) for _ in range(3)]
    product = Product(lt, 8, 8, 8)
    result = product.heuristic()[0]
    other = Product(lt, 8, 8, 16)
    product.b = other.b
    assert product.status(result, *blocks) == lt.numbers.invalid_value
    gpu.faults("lt_unsupported")
    with pytest.raises(GpuError, match=f": {lt.numbers.not_supported}$"):
        other.heuristic()


ALL = (numerics, batches, tf32, classes, workspaces, faulty, overrun, refused)
