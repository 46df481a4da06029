"""The ONNX project's own node tests of MatMul and Gemm on our provider, and the types it leaves alone."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import gemm_model, matmul_model
from support.sessions import EP, assigned, calls, ours, quick_session


def backend_cases() -> list[Any]:
    """Only the two operators' modules: collecting every operator's cases takes many seconds."""
    cases = importlib.import_module("onnx.backend.test.case.node")
    for operator in ("matmul", "gemm"):
        importlib.import_module(f"onnx.backend.test.case.node.{operator}")
    names = ("test_matmul_", "test_gemm_")
    return [case for case in cases._NodeTestCases if case.name.startswith(names)]


CASES = backend_cases()


def test_both_operators_have_cases() -> None:
    operators = [case.name.split("_")[1] for case in CASES]
    assert operators.count("matmul") >= 4
    assert operators.count("gemm") >= 10


@pytest.mark.parametrize("tuning", ["online", "off"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_backend_case_runs_on_our_provider(case: Any, tuning: str) -> None:
    assert {i.type.tensor_type.elem_type for i in case.model.graph.input} == {onnx.TensorProto.FLOAT}
    session = quick_session(case.model, tuning=tuning)
    assert len(ours(session)) == len(case.model.graph.node) == 1
    assert case.data_sets
    for inputs, outputs in case.data_sets:
        feeds = {info.name: array for info, array in zip(session.get_inputs(), inputs, strict=True)}
        for _ in range(2):
            for got, expected in zip(session.run(None, feeds), outputs, strict=True):
                assert got.dtype == expected.dtype
                np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
    counters = tunableop.stats(session)
    runs = 2 * len(case.data_sets)  # a batch may take more than one GEMM call
    if tuning == "online":
        assert counters.misses > 0
        assert counters.hits >= counters.misses
        assert counters.hits + counters.misses >= runs
    else:
        assert (counters.hits, counters.misses) == (0, 0)
        assert counters.fallbacks.get("tuning_off", 0) >= runs


OTHER_TYPES = {
    "int32": np.int32,
    "int64": np.int64,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "fp64": np.float64,
    "fp16": np.float16,
}


def stock_supports(model: Any) -> bool:
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def no_kernel(operator: str) -> str:
    """What ONNX Runtime says of a node that no provider takes; the second, in a session on a card."""
    return f"Could not find an implementation for {operator}|Provider type for {operator} node"


@pytest.mark.parametrize("constant_b", [False, True], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
@pytest.mark.parametrize("name", OTHER_TYPES)
def test_other_types_are_left_to_the_cpu_provider_and_explained(
    name: str, operator: str, constant_b: bool
) -> None:
    dtype = OTHER_TYPES[name]
    rng = np.random.default_rng(5)
    arrays: dict[str, npt.NDArray[Any]] = {"A": rng.integers(0, 8, (3, 4)).astype(dtype)}
    arrays["B"] = rng.integers(0, 8, (4, 5)).astype(dtype)
    constants = {"B": arrays["B"]} if constant_b else {}
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if operator == "MatMul":
        model = matmul_model([3, 4], [4, 5], constants=constants, dtype=kind)
    else:
        model = gemm_model([3, 4], [4, 5], with_c=False, constants=constants, dtype=kind)
    if not stock_supports(model):
        with pytest.raises(Exception, match=no_kernel(operator)):
            quick_session(model, device="cpu")
        return
    session = quick_session(model, device="cpu")  # cards have more types
    assert ours(session) == []
    assert EP not in {provider for provider, _, _ in assigned(session)}
    (node,) = tunableop.explain(session).nodes
    assert not node.claimed
    assert node.op_type == operator
    assert node.reason.startswith("refused: ")
    assert name in node.reason
    feeds = {key: array for key, array in arrays.items() if key not in constants}
    got = session.run(None, feeds)[0]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, arrays["A"] @ arrays["B"])  # small integers: exact in every type
    assert calls(session) == 0


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_types_without_a_stock_kernel_fail_as_they_do_without_us(operator: str) -> None:
    kind = onnx.TensorProto.BFLOAT16
    model = (matmul_model if operator == "MatMul" else gemm_model)([3, 4], [4, 5], dtype=kind)
    if stock_supports(model):
        pytest.skip(f"onnxruntime {ort.__version__} has {operator} of bf16 on the CPU")
    with pytest.raises(Exception, match=no_kernel(operator)):
        quick_session(model, device="cpu")  # cards have more types
