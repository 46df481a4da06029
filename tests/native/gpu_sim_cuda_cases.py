"""What the simulated cublasLt alone must do: the search beyond the list, and transforms."""

from __future__ import annotations

from ctypes import (
    byref,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint16,
    c_uint32,
    c_void_p,
    create_string_buffer,
)
from typing import Any

import numpy as np
from gpu_sim_lt_cases import WORKSPACE, Data, list_times
from support.gpu_sim import Runtime
from support.gpu_sim_lt import Lt, Product

TILE, SPLITS, REDUCTION, CUSTOM, STAGES, CLUSTER = 1, 2, 3, 5, 6, 8
COMPUTE_TYPE, OUTPUT_TYPE = 2, 4


def ids(lt: Lt, kind: tuple[int, int, int, int, int, int]) -> list[int]:
    out, found = (c_int * 64)(), c_int()
    lt.call("MatmulAlgoGetIds", lt.handle, *kind, 64, out, byref(found))
    return list(out[: found.value])


def capability(lt: Lt, algo: Any, number: int) -> list[int]:
    size = c_size_t()
    lt.call("MatmulAlgoCapGetAttribute", algo, number, None, c_size_t(0), byref(size))
    out = (c_uint32 * (size.value // 4))()
    lt.call("MatmulAlgoCapGetAttribute", algo, number, out, size, byref(size))
    return list(out)


def configured(lt: Lt, algo: Any, **attributes: Any) -> bytes:
    copy = create_string_buffer(algo.raw[:64], 64)
    names = {"tile": TILE, "splits": SPLITS, "reduction": REDUCTION, "custom": CUSTOM, "stages": STAGES}
    for name, value in attributes.items():
        held = c_uint32(value)
        lt.call("MatmulAlgoConfigSetAttribute", copy, names[name], byref(held), c_size_t(4))
    return copy.raw[:64]


def check(product: Product, algo: bytes) -> tuple[int, int]:
    """Status and workspace."""
    result = create_string_buffer(96)
    status = product.lt.status(
        "MatmulAlgoCheck",
        product.lt.handle,
        product.descriptor,
        *product.layouts,
        create_string_buffer(algo, 64),
        result,
    )
    return status, product.workspace_of(result.raw)


def candidates(product: Product, kind: tuple[int, int, int, int, int, int]) -> list[tuple[bytes, int]]:
    """All that a search over tiles, stages, splits and reductions finds, with their workspace."""
    lt, found = product.lt, []
    for each in ids(lt, kind):
        algo = create_string_buffer(64)
        lt.call("MatmulAlgoInit", lt.handle, *kind, each, algo)
        mask = capability(lt, algo, 1)[0]
        for tile in capability(lt, algo, 6):
            for stages in capability(lt, algo, 13):
                for splits in (1, 2, 3, 4, 8, 16) if capability(lt, algo, 0)[0] else (1,):
                    for reduction in (0,) if splits == 1 else (r for r in (1, 2, 4) if r & mask):
                        config = configured(
                            lt, algo, tile=tile, stages=stages, splits=splits, reduction=reduction
                        )
                        status, workspace = check(product, config)
                        assert status in (0, lt.numbers.not_supported)
                        if status == 0:
                            found.append((config, workspace))
    return found


def search(gpu: Runtime, lt: Lt) -> None:
    """Every configuration that passes the check runs and is right; some beat the list where they should."""
    m, n, k = 64, 48, 260
    assert gpu.library.sim_gpu_shape_class(*map(c_void_p, (m, n, k))) == 0
    product, kind = Product(lt, m, n, k), (68, 0, 0, 0, 0, 0)
    data = Data(gpu, m, n, k, "fp32", (False, False))
    workspace = gpu.malloc(WORKSPACE)
    found = candidates(product, kind)
    assert len(found) > 60
    assert any(needed for _, needed in found)
    for config, needed in found:
        product.run(config, *data.on_card, workspace, needed)
        assert data.close(data.expected(), k)
        if needed:
            assert product.status(config, *data.on_card, workspace, needed - 1) == lt.numbers.invalid_value

    m, n, k = 64, 48, 259
    assert gpu.library.sim_gpu_shape_class(*map(c_void_p, (m, n, k))) == 2
    product = Product(lt, m, n, k)
    data = Data(gpu, m, n, k, "fp32", (False, False))
    flushed, best = gpu.malloc(8 << 20), 1e9
    for config, needed in candidates(product, kind):
        gpu.call("MemsetAsync", flushed, 0, c_size_t(8 << 20), None)
        run = lambda c=config, w=needed: product.run(c, *data.on_card, workspace, w)  # noqa: E731
        best = min(best, gpu.time(run))  # type: ignore[arg-type]
    assert min(list_times(gpu, lt, m, n, k)) > 1.15 * best


def configurations(gpu: Runtime, lt: Lt) -> None:
    """What the capabilities rule out does not pass the check."""
    product = Product(lt, 64, 64, 256)
    kind = (68, 0, 0, 0, 0, 0)
    algo = create_string_buffer(64)
    lt.call("MatmulAlgoInit", lt.handle, *kind, 6, algo)
    bad = lt.numbers.not_supported
    good = {"tile": 15, "stages": 7}
    assert check(product, configured(lt, algo, **good)) == (0, 0)
    assert check(product, configured(lt, algo, **good, splits=4, reduction=COMPUTE_TYPE)) == (
        0,
        4 * 64 * 64 * 4,
    )
    assert check(product, algo.raw[:64])[0] == bad, "no tile yet"
    for wrong in (
        {"tile": 5},
        {"stages": 1},
        {"custom": 2},
        {"splits": 4},
        {"reduction": 2},
        {"splits": 0},
        {"splits": 32, "reduction": 2},
    ):
        assert check(product, configured(lt, algo, **{**good, **wrong}))[0] == bad, wrong
    held = c_uint16(3)
    assert lt.status("MatmulAlgoConfigSetAttribute", algo, CLUSTER, byref(held), c_size_t(2)) == 0
    assert lt.status("MatmulAlgoConfigSetAttribute", algo, CLUSTER, byref(held), c_size_t(4)) == 7
    assert check(product, configured(lt, algo, **good))[0] == bad, "no clusters in this family"
    assert lt.status("MatmulAlgoInit", lt.handle, *kind, 66, algo) == bad, "not for exact fp32"
    assert 66 in ids(lt, (77, 0, 0, 0, 0, 0))
    assert ids(lt, (70, 1, 1, 1, 1, 1)) == [0, 10]


def alignments(gpu: Runtime, lt: Lt) -> None:
    """A kernel for 16 bytes is not offered for less, and refuses less."""
    kind = (68, 0, 2, 2, 2, 2)
    product = Product(lt, 64, 64, 64, "fp16")
    algo = create_string_buffer(64)
    lt.call("MatmulAlgoInit", lt.handle, *kind, 21, algo)
    assert capability(lt, algo, 16) == [16]
    config = configured(lt, algo, tile=15, stages=15)
    a, b, d = (gpu.malloc(64 * 64 * 2 + 256) for _ in range(3))
    assert product.status(config, a, b, d) == 0
    assert a.value is not None
    assert product.status(config, c_void_p(a.value + 4), b, d) == lt.numbers.not_supported
    odd = Product(lt, 63, 64, 64, "fp16")
    assert check(odd, config)[0] == lt.numbers.not_supported
    aligned = {int.from_bytes(r[4:8], "little") for r in product.heuristic()}
    less = {int.from_bytes(r[4:8], "little") for r in product.heuristic(attribute_5=c_uint32(4))}
    assert less <= {1, 6} < aligned | {1, 6}


def output_type_rounds(gpu: Runtime, lt: Lt) -> None:
    """Splits that are summed in the output's type lose what fp32 keeps."""
    m = n = 32
    k = 512
    kind = (68, 0, 2, 2, 2, 2)
    product = Product(lt, m, n, k, "fp16")
    data = Data(gpu, m, n, k, "fp16", (False, False))
    workspace = gpu.malloc(WORKSPACE)
    algo = create_string_buffer(64)
    lt.call("MatmulAlgoInit", lt.handle, *kind, 31, algo)
    errors = {}
    for reduction in (COMPUTE_TYPE, OUTPUT_TYPE):
        config = configured(lt, algo, tile=15, stages=15, splits=16, reduction=reduction)
        status, needed = check(product, config)
        assert (status, needed) == (0, 16 * m * n * (4 if reduction == COMPUTE_TYPE else 2))
        product.run(config, *data.on_card, workspace, needed)
        errors[reduction] = np.abs(data.result() - data.expected()).mean()
    assert errors[OUTPUT_TYPE] > 1.5 * errors[COMPUTE_TYPE]


def transformed(gpu: Runtime, lt: Lt) -> None:
    values = np.arange(35, dtype=np.float32).reshape(5, 7)
    source, target = gpu.upload(values), gpu.malloc(35 * 4)
    descriptor, rows, columns = c_void_p(), c_void_p(), c_void_p()
    lt.call("MatrixTransformDescCreate", byref(descriptor), 0)
    lt.set("MatrixTransformDesc", descriptor, 2, c_int32(1))
    for layout, shape in ((rows, (7, 5)), (columns, (5, 7))):
        lt.call(
            "MatrixLayoutCreate", byref(layout), 0, c_size_t(shape[0]), c_size_t(shape[1]), c_size_t(shape[0])
        )
    one, zero = c_float(2), c_float(0)
    lt.call(
        "MatrixTransform",
        lt.handle,
        descriptor,
        byref(one),
        source,
        rows,
        byref(zero),
        None,
        None,
        target,
        columns,
        None,
    )
    np.testing.assert_array_equal(gpu.download(target, (7, 5), np.float32), 2 * values.T)


ALL = (search, configurations, alignments, output_type_rounds, transformed)
