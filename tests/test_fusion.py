"""Which nodes are claimed, and which fusions ONNX Runtime still makes, on the usual patterns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import graph, model, value
from support.sessions import EP, QUICK, Feeds, assigned, needs_names, quick_session, random

M, K, N = 6, 12, 20
DISABLED = "optimization.disable_specified_optimizers"


def chain(
    *steps: tuple[str, list[str], dict[str, Any]], constants: dict[str, Any], x: list[Any]
) -> onnx.ModelProto:
    """Nodes one after the other; '_' among a step's inputs is the output of the one before."""
    nodes, last = [], "X"
    for number, (op, inputs, attributes) in enumerate(steps):
        output = "Y" if number == len(steps) - 1 else f"t{number}"
        names = [last if name == "_" else name for name in inputs]
        nodes.append(onnx.helper.make_node(op, names, [output], name=f"{op.lower()}{number}", **attributes))
        last = output
    return model(graph(nodes, [value("X", x)], [value("Y")], constants), 20)


W, BIAS = random((K, N), 1), random((N,), 2)
WEIGHTS = {"W": W, "bias": BIAS}
PATTERNS: dict[str, onnx.ModelProto] = {
    "matmul_add": chain(("MatMul", ["_", "W"], {}), ("Add", ["_", "bias"], {}), constants=WEIGHTS, x=[M, K]),
    "matmul_add_3d": chain(
        ("MatMul", ["_", "W"], {}), ("Add", ["_", "bias"], {}), constants=WEIGHTS, x=[2, M, K]
    ),
    "matmul_add_relu": chain(
        ("MatMul", ["_", "W"], {}),
        ("Add", ["_", "bias"], {}),
        ("Relu", ["_"], {}),
        constants=WEIGHTS,
        x=[M, K],
    ),
    "matmul_add_gelu": chain(
        ("MatMul", ["_", "W"], {}),
        ("Add", ["_", "bias"], {}),
        ("Gelu", ["_"], {}),
        constants=WEIGHTS,
        x=[M, K],
    ),
    "transpose_matmul": chain(
        ("Transpose", ["_"], {"perm": [1, 0]}), ("MatMul", ["_", "W"], {}), constants=WEIGHTS, x=[K, M]
    ),
    "transpose_gemm": chain(
        ("Transpose", ["_"], {"perm": [1, 0]}), ("Gemm", ["_", "W", "bias"], {}), constants=WEIGHTS, x=[K, M]
    ),
    "gemm_relu": chain(("Gemm", ["_", "W", "bias"], {}), ("Relu", ["_"], {}), constants=WEIGHTS, x=[M, K]),
    "gemm_sum": chain(("Gemm", ["_", "W"], {}), ("Sum", ["_", "bias"], {}), constants=WEIGHTS, x=[M, K]),
    "matmul_scale": chain(
        ("MatMul", ["_", "W"], {}),
        ("Mul", ["_", "half"], {}),
        constants=WEIGHTS | {"half": np.array(0.5, np.float32)},
        x=[M, K],
    ),
    "computed_b": chain(
        ("Transpose", ["_"], {"perm": [1, 0]}), ("MatMul", ["X", "_"], {}), constants={}, x=[M, K]
    ),
}


def feeds_of(pattern: onnx.ModelProto) -> Feeds:
    shape = tuple(dim.dim_value for dim in pattern.graph.input[0].type.tensor_type.shape.dim)
    return {"X": random(shape, 7)}


def stock(pattern: onnx.ModelProto) -> ort.InferenceSession:
    return ort.InferenceSession(pattern.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("claim", "fusion"), list(itertools.product(("auto", "all", "weights"), ("auto", "off", "keep")))
)
@pytest.mark.parametrize("name", PATTERNS)
def test_the_answer_is_that_of_stock(name: str, claim: str, fusion: str) -> None:
    pattern = PATTERNS[name]
    feeds = feeds_of(pattern)
    expected = stock(pattern).run(None, feeds)[0]
    session = quick_session(pattern, claim=claim, fusion=fusion)
    for _ in range(2):
        np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, atol=1e-5)
    gemms = [node for node in tunableop.explain(session).nodes if node.op_type in ("MatMul", "Gemm")]
    assert gemms
    for node in gemms:
        assert node.claimed == (claim != "weights" or node.weight), node
    claimed = {name for provider, _, name in assigned(session) if provider == EP}
    assert claimed == {node.name for node in gemms if node.claimed}


@pytest.mark.parametrize("fusion", ["auto", "off"])
@pytest.mark.parametrize("name", PATTERNS)
def test_with_fusions_off_every_node_keeps_its_name_and_operator(name: str, fusion: str) -> None:
    pattern = PATTERNS[name]
    session = quick_session(pattern, fusion=fusion)
    theirs = {(node.op_type, node.name) for node in pattern.graph.node}
    found = {(op, node) for _, op, node in assigned(session)}
    gemms = {pair for pair in theirs if pair[0] in ("MatMul", "Gemm")}
    assert gemms <= found
    assert not {op for op, _ in found} & {"FusedMatMul", "FusedGemm", "BiasGelu"}
    assert {op for op, _ in found if op in ("MatMul", "Gemm")} == {op for op, _ in gemms}


def test_with_fusions_kept_matmul_and_add_become_a_gemm_of_ours() -> None:
    """The other half of the check above: it can fail."""
    session = quick_session(PATTERNS["matmul_add"], fusion="keep")
    assert [(provider, op) for provider, op, _ in assigned(session)] == [(EP, "Gemm")]


def test_claim_weights_leaves_computed_b_with_a_reason() -> None:
    session = quick_session(PATTERNS["computed_b"], claim="weights")
    (node,) = tunableop.explain(session).nodes
    assert (node.claimed, node.weight) == (False, False)
    assert "claim=weights" in node.reason


def folded(session: ort.InferenceSession) -> bool:
    return "Neg" not in {op for _, op, _ in assigned(session)}


def with_something_to_fold() -> onnx.ModelProto:
    """A node on a constant, which ConstantFolding takes away, and MatMul + Add to fuse."""
    nodes = [
        onnx.helper.make_node("Neg", ["bias"], ["minus"], name="neg"),
        onnx.helper.make_node("MatMul", ["X", "W"], ["P"], name="matmul"),
        onnx.helper.make_node("Add", ["P", "minus"], ["Y"], name="add"),
    ]
    return model(graph(nodes, [value("X", [M, K])], [value("Y")], WEIGHTS))


def operators(session: ort.InferenceSession) -> set[str]:
    return {op for _, op, _ in assigned(session)}


@pytest.mark.parametrize("way", ["keyword", "config_entry", "both"])
@pytest.mark.parametrize("fusion", ["off", "keep"])
def test_the_users_own_disabled_optimizers_stay_disabled(way: str, fusion: str) -> None:
    pattern = with_something_to_fold()
    assert folded(quick_session(pattern, fusion=fusion))
    options = ort.SessionOptions()
    keywords: dict[str, Any] = {}
    if way in ("config_entry", "both"):
        options.add_session_config_entry(DISABLED, "ConstantFolding")
    if way == "keyword":
        keywords["disabled_optimizers"] = ["ConstantFolding"]
    if way == "both":
        keywords["disabled_optimizers"] = ["CommonSubexpressionElimination"]
    session = quick_session(pattern, sess_options=options, fusion=fusion, **keywords)
    assert not folded(session)
    assert ("MatMul" in operators(session)) == (fusion == "off")
    if way != "keyword":
        assert options.get_session_config_entry(DISABLED) == "ConstantFolding"


def test_session_options_merge_the_list_of_disabled_optimizers() -> None:
    base = ort.SessionOptions()
    base.add_session_config_entry(DISABLED, "ConstantFolding;MatMulAddFusion")
    options = tunableop.session_options(base, max_tuning_ms=1.0)
    assert options is base
    names = options.get_session_config_entry(DISABLED).split(";")
    assert names[0] == "ConstantFolding"
    assert len(names) == len(set(names))
    assert "TransposeOptimizer" in names
    session = ort.InferenceSession(with_something_to_fold().SerializeToString(), options)
    assert operators(session) == {"Neg", "MatMul", "Add"}
    assert not folded(session)


def test_session_options_with_fusions_kept_touch_no_list() -> None:
    options = tunableop.session_options(fusion="keep")
    session = ort.InferenceSession(PATTERNS["matmul_add"].SerializeToString(), options)
    assert operators(session) == {"Gemm"}


def test_the_weight_of_a_tied_layer_is_seen_in_both_nodes() -> None:
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "W"], ["P"], name="up"),
        onnx.helper.make_node("Gemm", ["P", "W"], ["Y"], name="down", transB=1),
    ]
    tied = model(graph(nodes, [value("X", ["m", K])], [value("Y")], {"W": W}))
    session = quick_session(tied)
    x = random((5, K), 3)
    np.testing.assert_allclose(session.run(None, {"X": x})[0], x @ W @ W.T, rtol=1e-4, atol=1e-4)
    assert [node.weight for node in tunableop.explain(session).nodes] == [True, True]


@pytest.mark.parametrize("fusion", ["off", "keep"])
@pytest.mark.parametrize(
    "way", ["session_options", "providers", "provider_options", "config_entry", "base_config_entry"]
)
@needs_names
def test_fusion_means_the_same_whatever_way_it_came(way: str, fusion: str) -> None:
    options = ort.SessionOptions()
    arguments: dict[str, Any] = {"sess_options": options}
    if way == "session_options":
        tunableop.session_options(options, **QUICK, fusion=fusion)
    elif way == "providers":
        arguments["providers"] = [(EP, {"fusion": fusion}), "CPUExecutionProvider"]
    elif way == "provider_options":
        arguments["providers"] = [EP, "CPUExecutionProvider"]
        arguments["provider_options"] = [{"fusion": fusion}, {}]
    else:
        options.add_session_config_entry(f"ep.{EP.lower()}.fusion", fusion)
    if way == "base_config_entry":
        tunableop.session_options(options)
    session = tunableop.InferenceSession(PATTERNS["matmul_add"], **arguments)
    assert operators(session) == ({"Gemm"} if fusion == "keep" else {"MatMul", "Add"})


@needs_names
def test_of_several_ways_to_give_fusion_the_nearest_wins() -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry(f"ep.{EP.lower()}.fusion", "off")
    providers = [(EP, {"fusion": "keep"}), "CPUExecutionProvider"]
    beside = tunableop.InferenceSession(PATTERNS["matmul_add"], options, providers=providers)
    assert operators(beside) == {"Gemm"}
    keyword = tunableop.InferenceSession(PATTERNS["matmul_add"], options, providers=providers, fusion="auto")
    assert operators(keyword) == {"MatMul", "Add"}
