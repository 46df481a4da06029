"""Operands that could mislead the tuner: memory used twice, NaNs like its own, subnormal numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper, numpy_helper


def gemm(m: int, n: int, k: int, c_shape: list[int], b: np.ndarray, beta: float) -> onnx.ModelProto:
    node = helper.make_node("Gemm", ["A", "B", "C"], ["Y"], beta=beta)
    inputs = [
        helper.make_tensor_value_info("A", TensorProto.FLOAT, [m, k]),
        helper.make_tensor_value_info("C", TensorProto.FLOAT, c_shape),
    ]
    outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [m, n])]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(b, "B")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product(w: np.ndarray) -> onnx.ModelProto:
    """Y = A W with the constant W."""
    node = helper.make_node("MatMul", ["A", "W"], ["Y"])
    inputs = [helper.make_tensor_value_info("A", TensorProto.FLOAT, ["m", w.shape[0]])]
    outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["m", w.shape[1]])]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(w, "W")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("tuning", ["off", "online"])
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize(
    ("m", "n", "k", "c_shape"),
    [(1, 64, 1000, [1, 64]), (1, 64, 1000, [64]), (8, 512, 2048, [512]), (5, 48, 700, [5, 48])],
)
def test_c_may_be_the_memory_of_the_result(
    tuning: str, beta: float, m: int, n: int, k: int, c_shape: list[int]
) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32)
    session = tunableop.InferenceSession(gemm(m, n, k, c_shape, b, beta), tuning=tuning, candidates="all")
    for _ in range(3):
        c = rng.standard_normal(c_shape, dtype=np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("A", a)
        buffer = np.zeros((m, n), np.float32)  # C lies at the start of the result's memory
        buffer.reshape(-1)[: c.size] = c.reshape(-1)
        pointer = buffer.ctypes.data
        binding.bind_input("C", "cpu", 0, np.float32, c_shape, pointer)
        binding.bind_output("Y", "cpu", 0, np.float32, [m, n], pointer)
        session.run_with_iobinding(binding)
        expected = a.astype(np.float64) @ b + beta * c.astype(np.float64)
        assert np.abs(buffer - expected).max() < 1e-3


def test_leftovers_of_a_measurement_are_harmless_operands() -> None:
    w = np.random.default_rng(0).standard_normal((32, 32), dtype=np.float32)
    model = product(w)
    session = tunableop.InferenceSession(model)
    session.run(None, {"A": np.ones((64, 32), np.float32)})
    for extra in range(1, 16):
        a = np.empty((64 + extra, 32), np.float32)  # a padded batch: the rest is whatever memory held
        a[:10] = 1
        (y,) = session.run(None, {"A": a})
        np.testing.assert_allclose(y[:10], a[:10].astype(np.float64) @ w, atol=1e-4)
    assert tunableop.stats(session).denied == 0


def test_infinity_beside_sums_that_overflow() -> None:
    rng = np.random.default_rng(0)
    model = product(rng.standard_normal((32, 32), dtype=np.float32))
    session = tunableop.InferenceSession(model, candidates="all")
    for m in (20, 70, 71):
        a = rng.standard_normal((m, 32), dtype=np.float32)
        a[7] = 3e38 * np.sign(a[7])
        a[7, 3] = np.inf
        (y,) = session.run(None, {"A": a})
        assert not np.isfinite(y[7]).any()
        assert np.isfinite(np.delete(y, 7, 0)).all()
    assert tunableop.stats(session).denied == 0


@pytest.mark.parametrize("payload", [0x7FDEADA5, 0x7FC00001, 0xFFC00000, 0x7F800001])
def test_nan_payloads_pass_through(payload: int) -> None:
    w = np.random.default_rng(0).standard_normal((48, 80), dtype=np.float32)
    w[3, 5] = np.nan
    model = product(w)
    session = tunableop.InferenceSession(model, candidates="all")
    a = np.ones((20, 48), np.float32)
    a.view(np.uint32)[7] = payload
    (y,) = session.run(None, {"A": a})
    assert np.isnan(y[7]).all()
    assert np.isnan(y[:, 5]).all()
    good = np.delete(np.delete(y, 7, 0), 5, 1)
    assert np.isfinite(good).all()
    assert tunableop.stats(session).denied == 0


def test_threads_that_flush_subnormals_beside_threads_that_do_not() -> None:
    node = helper.make_node("MatMul", ["A", "B"], ["Y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in ("A", "B")],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None, None])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    before = tunableop.InferenceSession(model)  # its thread keeps subnormal numbers
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = tunableop.InferenceSession(model, options, max_tuning_ms=100, candidates="all")
    for m, n, k in [(64, 64, 64), (200, 70, 80), (256, 256, 256), (300, 300, 400)]:
        a = np.full((m, k), 1e-40, np.float32)
        b = np.full((k, n), 1e36, np.float32)
        (y,) = session.run(None, {"A": a, "B": b})
        whole = k * float(a[0, 0]) * float(b[0, 0])
        assert ((y == 0) | (np.abs(y - whole) < 1e-3 * whole)).all()
    assert tunableop.stats(session).denied == tunableop.stats(before).denied == 0
