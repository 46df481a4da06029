"""What the simulated hipBLASLt and rocBLAS alone must do: C++ functions, indices, releases."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint32, c_void_p, create_string_buffer
from typing import Any

from gpu_sim_lt_cases import WORKSPACE, Data
from support.gpu_sim import Runtime
from support.gpu_sim_lt import Lt, Product

RESULTS = "St6vectorI33_hipblasLtMatmulHeuristicResult_tSaIS{}_EE"
GET_ALL = (
    "_ZN13hipblaslt_ext11getAllAlgosEPvNS_8GemmTypeE18hipblasOperation_tS2_11hipDataTypeS3_S3_S3_"
    "20hipblasComputeType_tR" + RESULTS.format(6)
)
FROM_INDEX = (
    "_ZN13hipblaslt_ext17getAlgosFromIndexEPvRSt6vectorIiSaIiEER"
    "S1_I33_hipblasLtMatmulHeuristicResult_tSaIS5_EE"
)
SUPPORTED = (
    "_ZN13hipblaslt_ext21matmulIsAlgoSupportedEPvP27hipblasLtMatmulDescOpaque_tPKv"
    "P29hipblasLtMatrixLayoutOpaque_tS6_S4_S6_S6_R22_hipblasLtMatmulAlgo_tRm"
)
NAME_OF = "_ZN13hipblaslt_ext23getSolutionNameFromAlgoB5cxx11EPvR22_hipblasLtMatmulAlgo_t"
INDEX_OF = "_ZN13hipblaslt_ext16getIndexFromAlgoER22_hipblasLtMatmulAlgo_t"


def contents(vector: Any) -> list[bytes]:
    """Of a std::vector of 56-byte results: its three pointers are begin, end and end of storage."""
    raw = ctypes.string_at(vector[0], vector[1] - vector[0]) if vector[0] else b""
    return [raw[i : i + 56] for i in range(0, len(raw), 56)]


def all_algos(lt: Lt) -> list[bytes]:
    vector = (c_size_t * 3)()
    assert lt.runtime.lt[GET_ALL](lt.handle, 1, 111, 111, 0, 0, 0, 0, 2, vector) == 0
    return contents(vector)


def solution_name(lt: Lt, algo: Any) -> str:
    """The string comes back through a hidden first argument (x86-64)."""
    text = (c_size_t * 4)()
    lt.runtime.lt[NAME_OF](text, lt.handle, algo)
    return ctypes.string_at(text[0], text[1]).decode()


def supported(product: Product, algo: Any) -> tuple[int, int]:
    workspace, scale = c_size_t(), c_float(1)
    status = product.lt.runtime.lt[SUPPORTED](
        product.lt.handle,
        product.descriptor,
        byref(scale),
        product.a.pointer,
        product.b.pointer,
        byref(scale),
        product.d.pointer,
        product.d.pointer,
        algo,
        byref(workspace),
    )
    return status, workspace.value


def solutions(gpu: Runtime, lt: Lt) -> None:
    m, n, k = 40, 24, 64
    data = Data(gpu, m, n, k, "fp32", (False, False))
    workspace = gpu.malloc(WORKSPACE)
    product = Product(lt, m, n, k)
    listed = all_algos(lt)
    assert len(listed) == 40
    names, good = set(), 0
    for result in listed:
        algo = create_string_buffer(result[:24], 24)
        status, needed = supported(product, algo)
        assert status in (0, 3)
        names.add(solution_name(lt, algo))
        if status != 0:
            continue
        assert algo.raw != result[:24], "the problem is baked in"
        product.run(algo.raw[:24], *data.on_card, workspace, needed)
        assert data.close(data.expected(), k)
        good += 1
    assert len(names) == 40
    assert 20 < good < 40
    assert gpu.count("misuse") == 0
    product.run(listed[0][:24], *data.on_card, workspace, WORKSPACE)
    assert gpu.count("misuse:algo_not_prepared") == 1


def moved(gpu: Runtime, lt: Lt) -> None:
    """After an upgrade an index is another kernel; a name is not."""
    index = lt.runtime.lt[INDEX_OF]
    names = {}
    for fault in ("", "moved_indices"):
        gpu.faults(fault)
        held = [create_string_buffer(result[:24], 24) for result in all_algos(lt)]
        names[fault] = {solution_name(lt, algo): index(algo) for algo in held}
    assert set(names[""]) == set(names["moved_indices"])
    assert sorted(names[""].values()) == sorted(names["moved_indices"].values())
    assert names[""] != names["moved_indices"]
    wanted = (c_int * 2)(names["moved_indices"][min(names[""])], 7)
    vector, indices = (c_size_t * 3)(), (c_size_t * 3)()
    indices[0] = ctypes.addressof(wanted)
    indices[1] = indices[2] = indices[0] + 8
    assert lt.runtime.lt[FROM_INDEX](lt.handle, indices, vector) == 0
    assert [solution_name(lt, create_string_buffer(r[:24], 24)) for r in contents(vector)] == [min(names[""])]


def versions(gpu: Runtime, lt: Lt) -> None:
    version, revision = c_int(), create_string_buffer(128)
    lt.call("GetVersion", lt.handle, byref(version))
    lt.call("GetGitRevision", lt.handle, revision)
    assert version.value == {"rocm6": 1200, "rocm7": 100100, "rocm10": 100500}[gpu.flavour]
    assert revision.value
    gpu.faults("old_library")
    lt.call("GetVersion", lt.handle, byref(version))
    assert version.value == 300


def attributes_of_another_release(gpu: Runtime, lt: Lt) -> None:
    """Numbers 102 and 103 are pointers in ROCm 6, and arguments of activations since."""
    product = Product(lt, 8, 8, 8)
    size = 8 if gpu.flavour == "rocm6" else 4
    held = create_string_buffer(size)
    status = lt.status("MatmulDescSetAttribute", product.descriptor, 102, held, c_size_t(size))
    assert status == 0
    assert gpu.count("misuse:attribute_102_103") == (1 if gpu.flavour == "rocm6" else 0)


def handle_of_two_streams(gpu: Runtime, lt: Lt) -> None:
    product = Product(lt, 8, 8, 8)
    algo = product.heuristic()[0]
    blocks = [gpu.malloc(256) for _ in range(3)]
    one, two = gpu.stream(), gpu.stream()
    product.run(algo, *blocks, stream=one)
    gpu.synchronize(one)
    product.run(algo, *blocks, stream=two)
    assert gpu.count("misuse:handle_on_several_streams") == 0
    gpu.synchronize(two)
    gpu.faults("hang")
    product.run(algo, *blocks, stream=one)
    product.run(algo, *blocks, stream=two)
    gpu.release()
    gpu.faults("")
    gpu.call("DeviceSynchronize")
    assert gpu.count("misuse:handle_on_several_streams") == 1


def rocblas(gpu: Runtime, lt: Lt) -> None:
    blas = gpu.blas
    assert blas is not None
    handle = c_void_p()
    assert blas.rocblas_create_handle(byref(handle)) == 0
    m, n, k, batch = 40, 24, 256, 2
    data = Data(gpu, m, n, k, "fp32", (True, False), batch)
    a, b, d = data.on_card
    one, zero, f32 = c_float(1), c_float(0), 151

    def arguments(items: int) -> list[Any]:
        step = (lambda stride: [c_size_t(stride)]) if items > 1 else (lambda stride: [])
        return [
            handle,
            112,
            111,
            m,
            n,
            k,
            byref(one),
            a,
            f32,
            k,
            *step(m * k),
            b,
            f32,
            k,
            *step(k * n),
            byref(zero),
            d,
            f32,
            m,
            *step(m * n),
            d,
            f32,
            m,
            *step(m * n),
            *([items] if items > 1 else []),
            f32,
        ]

    def run(index: int, items: int, flags: int = 0) -> int:
        gemm = blas.rocblas_gemm_strided_batched_ex if items > 1 else blas.rocblas_gemm_ex
        return int(gemm(*arguments(items), 1 if index else 0, index, c_uint32(flags)))

    size = c_int()
    solutions_of = blas.rocblas_gemm_strided_batched_ex_get_solutions
    assert solutions_of(*arguments(batch), 1, 0, None, byref(size)) == 0
    listed = (c_int * size.value)()
    assert solutions_of(*arguments(batch), 1, 0, listed, byref(size)) == 0
    assert size.value > 15
    assert any(index < 0 for index in listed) == (gpu.flavour != "rocm6")
    for index in (0, *listed):
        gpu.call("MemsetAsync", d, 255, c_size_t(batch * m * n * 4), None)
        assert run(index, batch) == 0
        assert data.close(data.expected(), k), index
    kernels = gpu.count("kernels")
    assert run(listed[0], 1, flags=8) == 0, "asks whether the solution is valid"
    assert run(17, 1, flags=8) == 11
    assert gpu.count("kernels") == kernels
    assert run(17, 1) == 11
    split = max(listed, key=abs)
    small = gpu.malloc(256)
    assert blas.rocblas_set_workspace(handle, small, c_size_t(256)) == 0
    assert {run(index, batch) for index in listed} == {0, 5}
    assert run(split, batch) == 5
    text = create_string_buffer(64)
    assert blas.rocblas_get_version_string(text, c_size_t(64)) == 0
    assert text.value.startswith(b"4." if gpu.flavour == "rocm6" else b"5.")
    assert blas.rocblas_destroy_handle(handle) == 0
    assert run(0, 1) == 1, "no handle any more"


ALL = (solutions, moved, versions, attributes_of_another_release, handle_of_two_streams, rocblas)
