"""`tunableop doctor --model`: models that it works on, and others, each with the one remedy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.doctor import Asked, Report, clocks, examine, products
from onnxruntime_ep_tunableop.doctor import model as doctor_model
from support.doctor import Document, check_whole, named, only_problem, problems
from support.graphs import branch, gemm_model, graph, if_model, matmul_model, model, relu_model, value
from support.sessions import random

W = random((8, 8), 1)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(clocks, "WARM_SECONDS", 0.0)


def look(folder: Path, proto: onnx.ModelProto | bytes, **asked: Any) -> Document:
    """What the doctor says of a model."""
    path = folder / "model.onnx"
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    report: Report = examine(Asked(model=path, device="cpu", **asked))
    document = report.document()
    check_whole(document)
    return document


def two_products(**attributes: Any) -> onnx.ModelProto:
    """X W + b, transposed, times W: fusions take the sum, and the transposition for Gemm."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"], name="first"),
        helper.make_node("Add", ["a", "b"], ["c"], name="sum"),
        helper.make_node("Transpose", ["c"], ["d"], name="turn"),
        helper.make_node("MatMul", ["d", "W"], ["Y"], name="second"),
    ]
    constants = {"W": W, "b": np.zeros(8, np.float32)}
    return model(graph(nodes, [value("X", ["rows", 8])], [value("Y")], constants))


def quantised() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["X"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "W", "zero"], ["product"], name="product"),
        helper.make_node("Cast", ["product"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["cast", "scale"], ["Y"]),
    ]
    weights = {"W": np.arange(64, dtype=np.uint8).reshape(8, 8)}
    return model(graph(nodes, [value("X", [4, 8])], [value("Y")], weights))


def fused() -> onnx.ModelProto:
    """As onnxruntime saves what it has optimised."""
    node = helper.make_node("FusedMatMul", ["X", "W"], ["Y"], name="fused", domain="com.microsoft", transB=1)
    made = model(graph([node], [value("X", [4, 8])], [value("Y")], {"W": W}))
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def with_dequantised_weight() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["Q", "s"], ["W"]),
        helper.make_node("Relu", ["X"], ["x"]),
        helper.make_node("MatMul", ["x", "W"], ["Y"], name="product"),
    ]
    constants = {"Q": np.ones((8, 8), np.int8), "s": np.float32(0.5).reshape(())}
    return model(graph(nodes, [value("X", [4, 8])], [value("Y")], constants))


def test_a_model_that_it_is_on_for(tmp_path: Path) -> None:
    document = look(tmp_path, two_products(), dims={"rows": 8})
    assert problems(document) == []
    nodes = named(document, "model.nodes")
    assert nodes["verdict"] == "ok"
    assert nodes["evidence"] == [
        "2 of 2 MatMul and Gemm nodes are claimed",
        "2 claimed: fp32, B is a weight: MatMul 'first', MatMul 'second'",
    ]
    assert named(document, "model.others")["evidence"] == ["CPUExecutionProvider: 1 Add, 1 Transpose"]
    run = named(document, "model.run")
    assert run["evidence"] == ["2 calls of 1 problem ran on cpu", "it runs with X:8x8"]
    told = document["model"]
    assert [node["name"] for node in told["nodes"]] == ["first", "second"]
    assert {node["op"] for node in told["placed"]} == {"MatMul", "Add", "Transpose"}
    assert (told["stats"]["hits"], told["stats"]["misses"], told["stats"]["tuned"]) == (0, 2, 0)


def test_nothing_is_measured_and_nothing_is_written(tmp_path: Path) -> None:
    options = {"tuning": "online", "cache": str(tmp_path / "c.json"), "trace": str(tmp_path / "t.csv")}
    document = look(tmp_path, two_products(), dims={"rows": 8}, options=options)
    assert problems(document) == []
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_products_in_branches(tmp_path: Path) -> None:
    both = if_model(branch("then", "V", "a"), branch("else", "W", "b"), [value("X", [2, 8])])
    both.graph.input.extend([value("V", [8, 4]), value("W", [8, 4])])
    document = look(tmp_path, both)
    assert problems(document) == []
    assert named(document, "model.nodes")["evidence"][0] == "2 of 2 MatMul and Gemm nodes are claimed"
    assert named(document, "model.run")["evidence"][0].startswith("1 call of 1 problem")


def test_a_model_without_products(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path, relu_model()), "model.nodes")
    path = str(tmp_path / "model.onnx")
    assert check["remedy"] == f"use ONNX Runtime alone: ort.InferenceSession({path!r})"
    assert check["evidence"] == ["it has no MatMul or Gemm: there is nothing to be done for it"]


@pytest.mark.parametrize(
    ("dtype", "kind", "remedy"),
    [
        (
            TensorProto.INT32,
            "int32",
            "run these on ONNX Runtime's own provider: there are no kernels for int32",
        ),
        (TensorProto.DOUBLE, "fp64", "convert the model to fp32"),
        (TensorProto.FLOAT16, "fp16", "convert the model to fp32, or run it on a card (--device cuda, hip)"),
    ],
)
def test_types_that_have_no_kernel(tmp_path: Path, dtype: int, kind: str, remedy: str) -> None:
    check = only_problem(look(tmp_path, matmul_model([4, 8], [8, 5], dtype=dtype)), "model.nodes")
    assert check["evidence"][0].startswith("0 of 1 MatMul and Gemm nodes are claimed; most are refused: ")
    assert f"input type {kind} has no kernel on a CPU here" in check["evidence"][0]
    assert check["remedy"] == remedy


def test_one_of_two_types(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["Y"], name="single"),
        helper.make_node("MatMul", ["D", "D"], ["Z"], name="double"),
    ]
    inputs = [value("X", [4, 8]), value("D", [8, 8], TensorProto.DOUBLE)]
    outputs = [value("Y"), value("Z", None, TensorProto.DOUBLE)]
    document = look(tmp_path, model(graph(nodes, inputs, outputs, {"W": W})))
    assert problems(document) == []
    check = named(document, "model.nodes")
    assert (check["verdict"], check["remedy"]) == ("note", "convert the model to fp32")
    assert check["evidence"][0] == "1 of 2 MatMul and Gemm nodes are claimed"


def test_products_that_an_option_refuses(tmp_path: Path) -> None:
    proto = matmul_model([4, 8], [8, 5])
    check = only_problem(look(tmp_path, proto, options={"claim": "weights"}), "model.nodes")
    assert check["remedy"] == "--option claim=all"


def test_an_old_gemm(tmp_path: Path) -> None:
    proto = gemm_model([4, 8], [8, 5], [4, 5], opset=6)
    check = only_problem(look(tmp_path, proto), "model.session")  # not even ONNX Runtime has one
    assert "Gemm(6)" in check["evidence"][0]
    assert check["remedy"].startswith("convert the model to a newer opset")


def test_a_quantised_model(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path, quantised()), "model.nodes")
    assert check["evidence"][0] == (
        "it has no MatMul or Gemm; its products are hidden in 1 MatMulInteger (quantised)"
    )
    assert check["remedy"].startswith("use the model that it was quantised from")


def test_a_model_that_was_saved_with_its_fusions(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path, fused()), "model.nodes")
    assert "1 FusedMatMul (fused)" in check["evidence"][0]
    assert check["remedy"].startswith("export the model again, without onnxruntime's optimizations")


def test_int8_weights_that_are_dequantised(tmp_path: Path) -> None:
    """ONNX Runtime alone may run them in int8, and faster: worth a look."""
    document = look(tmp_path, with_dequantised_weight())
    assert problems(document) == []
    check = named(document, "model.fusions")
    if named(document, "model.nodes")["evidence"][0].startswith("1 of 1"):
        assert check["verdict"] == "note"
        assert check["evidence"][0].startswith("1 DequantizeLinear")


def test_fusions_are_compared(tmp_path: Path) -> None:
    document = look(tmp_path, two_products())
    assert named(document, "model.fusions")["evidence"] == [
        "ONNX Runtime's fusions would change 1 of them: they are off here"
    ]


def test_fusions_that_are_kept(tmp_path: Path) -> None:
    document = look(tmp_path, two_products(), options={"fusion": "keep"}, dims={"rows": 8})
    assert problems(document) == []
    assert named(document, "model.fusions")["verdict"] == "ok"  # a Gemm is no hiding place
    assert [node["op_type"] for node in document["model"]["nodes"]] == ["Gemm", "MatMul"]


def seen(op: str, folded: str | None) -> doctor_model.Seen:
    """A model of one node, into which fusions have folded something."""
    placed = [doctor_model.Placed("CPUExecutionProvider", op, "node")]
    return doctor_model.Seen(
        session=None,  # type: ignore[arg-type]
        placed=placed,
        nodes=[],
        inputs=[],
        path=Path("m.onnx"),
        open=["product"],
        folded=Counter([folded] if folded else []),
    )


def test_fusions_that_hide_products_are_to_be_switched_off() -> None:
    asked = Asked(options={"fusion": "keep"})
    check = doctor_model.fusions(seen("FusedMatMul", "FusedMatMul"), asked)
    assert check is not None
    assert (check.verdict, check.remedy) == ("warning", "--option fusion=auto")
    assert check.evidence == ["fusion=keep hides products in 1 FusedMatMul (fused)"]
    check = doctor_model.nodes(seen("FusedMatMul", "FusedMatMul"), asked)
    assert check is not None
    assert (check.verdict, check.remedy) == ("problem", "--option fusion=auto")


def test_fusions_that_would_hide_products_are_told() -> None:
    check = doctor_model.fusions(seen("MatMul", "FusedMatMul"), Asked())
    assert check is not None
    assert check.verdict == "ok"
    assert check.evidence[0].startswith(
        "ONNX Runtime's fusions would change 1 of them, and hide some in 1 Fused"
    )


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path, b"not a model"), "model.session")
    assert check["remedy"].startswith(f"check-model {tmp_path}/model.onnx")
    assert "INVALID_PROTOBUF" in check["evidence"][0]


def test_inputs_that_cannot_be_made_up(tmp_path: Path) -> None:
    """A and B share a size that the model does not say."""
    proto = matmul_model(["m", None], [3, 4])
    check = only_problem(look(tmp_path, proto), "model.run")
    assert check["evidence"][0].startswith("not with A:1x1, B:3x4: ")
    assert check["remedy"] == "--shape A:1x1,B:3x4 (with the sizes of real use)"
    right = look(tmp_path, proto, shapes=[{"A": [2, 3], "B": [3, 4]}, {"A": [5, 3], "B": [3, 4]}])
    assert problems(right) == []
    assert named(right, "model.run")["evidence"][0] == "2 calls of 2 problems ran on cpu"


@pytest.mark.parametrize(
    "asked", [{"shapes": [{"A": [2, 8, 1]}]}, {"dims": {"batch": 8}}, {"shapes": [{"X": [2, 8]}]}]
)
def test_wrong_shapes(tmp_path: Path, asked: dict[str, Any]) -> None:
    proto = matmul_model(["m", 8], None, constants={"B": random((8, 5), 2)})
    check = only_problem(look(tmp_path, proto, **asked), "model.run")
    assert check["remedy"] == "--dim m=1 (with the sizes of real use)"


def test_a_wrong_option_keeps_the_model_from_being_looked_at(tmp_path: Path) -> None:
    document = look(tmp_path, two_products(), options={"tunning": "online"})
    assert only_problem(document, "options.values")["remedy"] == "--option tuning=online"
    assert set(document["not_asked"]) == {"model"}


def test_operators_that_hide_products() -> None:
    assert products.hidden(["MatMul", "Attention", "Attention", "Relu"]) == {"Attention": 2}
    assert (
        products.words({"Attention": 2, "MatMulNBits": 1}) == "2 Attention (fused), 1 MatMulNBits (quantised)"
    )
    assert not any(products.is_ours(name) for name in ("MatMulNBits", "FusedGemm", "Add"))


def test_inputs_that_cannot_be_made_up_are_a_matter_of_inputs_not_of_sizes():
    """The shapes of a text do not help: who does as told must not read the same again."""
    inputs = [SimpleNamespace(name="text", type="tensor(string)", shape=[2])]
    session = SimpleNamespace(get_inputs=lambda: inputs)
    seen = doctor_model.Seen(session, [], [SimpleNamespace(claimed=True)], inputs, Path("a model.onnx"))
    check = doctor_model.run(seen, Asked())
    assert check.verdict == "warning"
    assert check.remedy == (
        "numpy.savez('inputs.npz', text=...), then: tunableop bench 'a model.onnx' --inputs inputs.npz"
    )
