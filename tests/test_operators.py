"""Operators beside MatMul and Gemm, on simulated cards: who runs them, what is copied, what comes out."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime_ep_tunableop._control import operators
from support.cards import BOTH, card_session, on_card
from support.graphs import graph, model, value
from support.sessions import EP, assigned, random

INT64 = TensorProto.INT64


def ran(session: ort.InferenceSession, feeds: dict[str, Any]) -> tuple[list[Any], Counter[tuple[str, str]]]:
    """What one run gives, and (provider, operator) of what it ran. For sessions with a profile."""
    outputs = session.run(None, feeds)
    path = Path(session.end_profiling())
    events = json.loads(path.read_text())
    path.unlink()
    return outputs, Counter(
        (event["args"]["provider"], event["args"]["op_name"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )


def profiled() -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = f"/tmp/tunableop-operators-{np.random.default_rng().integers(1 << 60)}"
    return settings


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def on_cpu(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def chain() -> onnx.ModelProto:
    """Two products with a new shape between, which is computed from the input's."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"]),
        helper.make_node("Shape", ["X"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Mul", ["batch", "two"], ["double"]),
        helper.make_node("Unsqueeze", ["double", "first"], ["rows"]),
        helper.make_node("Unsqueeze", ["length", "first"], ["steps"]),
        helper.make_node("Concat", ["steps", "rows", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["a", "to"], ["b"]),
        helper.make_node("MatMul", ["b", "V"], ["Y"]),
    ]
    constants = {
        "W": random((8, 12), 1),
        "V": random((6, 5), 2),
        "zero": np.array(0, np.int64),
        "first": np.array([0], np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
        "rest": np.array([6], np.int64),
    }
    return model(graph(nodes, [value("X", ["n", "m", 8])], [value("Y", None)], constants))


@on_card(*BOTH)
def test_a_reshape_between_two_products_costs_no_copy() -> None:
    proto = chain()
    feeds = {"X": random((4, 3, 8), 3)}
    session = card_session(proto, settings=profiled(), claim="all")
    (got,), nodes = ran(session, feeds)
    np.testing.assert_allclose(got, on_cpu(proto, feeds)[0], rtol=1e-5, atol=1e-5)
    assert not [op for _, op in nodes if op.startswith("Memcpy")], nodes
    assert nodes[EP, "Reshape"] == nodes[EP, "Shape"] == 1
    told = tunableop.explain(session)
    assert told.coverage()["MatMul"] == (2, 2)
    reasons = {node.op_type: node.reason for node in told.operators}
    assert reasons["Reshape"] == "claimed: fp32"
    on_host = {op for op, reason in reasons.items() if "stays on the CPU" in reason}
    assert on_host == {"Concat", "Gather", "Mul", "Unsqueeze"}, str(told)
    assert sorted(node.op_type for node in told.operators if node.claimed) == sorted(
        op for provider, op, _ in assigned(session) if provider == EP and op != "MatMul"
    )


@on_card("cuda13")
def test_what_claim_takes() -> None:
    proto = chain()
    for claim, expected in {"all": {"Reshape", "Shape"}, "auto": {"Reshape", "Shape"}, "gemm": set()}.items():
        session = card_session(proto, claim=claim)
        others = {op for provider, op, _ in assigned(session) if provider == EP} - {"MatMul"}
        assert others == expected, str(tunableop.explain(session))
    told = tunableop.explain(session)
    assert {node.reason for node in told.operators if node.op_type == "Reshape"} == {
        "refused: claim=gemm takes MatMul and Gemm only"
    }


def positions() -> onnx.ModelProto:
    """Places counted and looked up on the card, a mask of its triangle, and a shape made of a constant."""
    nodes = [
        helper.make_node("Shape", ["X"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Unsqueeze", ["places", "first"], ["rows"]),
        helper.make_node("Unsqueeze", ["places", "second"], ["columns"]),
        helper.make_node("Greater", ["rows", "columns"], ["ahead"]),
        helper.make_node("Gather", ["table", "places"], ["told"]),
        helper.make_node("MatMul", ["X", "W"], ["a"]),
        helper.make_node("Add", ["a", "told"], ["b"]),
        helper.make_node("Unsqueeze", ["length", "first"], ["lengths"]),
        helper.make_node("Concat", ["lengths", "lengths"], ["square"], axis=0),
        helper.make_node("ConstantOfShape", ["square"], ["zeros"]),
        helper.make_node("Where", ["ahead", "lowest", "zeros"], ["mask"]),
        helper.make_node("MatMul", ["mask", "b"], ["masked"]),
        # -1, where a shape's entry is to stay: as exporters of Expand write it.
        helper.make_node("Shape", ["masked"], ["whole"]),
        helper.make_node("Shape", ["whole"], ["rank"]),
        helper.make_node("ConstantOfShape", ["rank"], ["ones"], value=numpy_helper.from_array(ints(1))),
        helper.make_node("Mul", ["ones", "minus"], ["stays"]),
        helper.make_node("Equal", ["wanted", "stays"], ["same"]),
        helper.make_node("Where", ["same", "whole", "wanted"], ["to"]),
        helper.make_node("Expand", ["masked", "to"], ["Y"]),
    ]
    constants = {
        "W": random((8, 12), 1),
        "table": random((9, 12), 2),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "first": ints(0),
        "second": ints(1),
        "minus": np.array(-1, np.int64),
        "wanted": ints(2, -1, -1),
        "lowest": np.array(-9.0, np.float32),
    }
    return model(graph(nodes, [value("X", [1, "m", 8])], [value("Y", None)], constants))


@on_card(*BOTH)
def test_what_is_made_of_numbers_on_the_host_is_made_where_it_is_read() -> None:
    proto = positions()
    session = card_session(proto, settings=profiled(), claim="all")
    feeds = {"X": random((1, 5, 8), 3)}
    (got,), nodes = ran(session, feeds)
    np.testing.assert_allclose(got, on_cpu(proto, feeds)[0], rtol=1e-5, atol=1e-5)
    assert not [op for _, op in nodes if op.startswith("Memcpy")], nodes
    assert nodes[EP, "Range"] == 1
    assert nodes[EP, "ConstantOfShape"] == 1, nodes  # the mask's zeros; the shape's are not
    assert nodes["CPUExecutionProvider", "Equal"] <= 1, nodes
    assert nodes[EP, "Equal"] == 0, nodes


@on_card(*BOTH)
def test_positions_that_skip_padding_and_masks_that_expand_stay_on_the_card() -> None:
    """As RoBERTa counts its positions, and DistilBERT fills its scores."""
    nodes = [
        helper.make_node("Equal", ["ids", "pad"], ["is_pad"]),
        helper.make_node("Not", ["is_pad"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["word"], to=TensorProto.INT32),
        helper.make_node("CumSum", ["word", "axis"], ["number"]),
        helper.make_node("Mul", ["number", "word"], ["numbers"]),
        helper.make_node("Cast", ["numbers"], ["wide"], to=INT64),
        helper.make_node("Add", ["wide", "pad"], ["places"]),
        helper.make_node("Gather", ["table", "ids"], ["words"]),
        helper.make_node("Gather", ["positions", "places"], ["where"]),
        helper.make_node("Add", ["words", "where"], ["x"]),
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Shape", ["scores"], ["shape"]),
        helper.make_node("Unsqueeze", ["is_pad", "middle"], ["row"]),
        helper.make_node("Expand", ["row", "shape"], ["padded"]),
        helper.make_node("Where", ["padded", "lowest", "scores"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["chances"], axis=-1),
        helper.make_node("MatMul", ["chances", "x"], ["Y"]),
    ]
    constants = {
        "pad": np.array(1, np.int64),
        "axis": np.array(1, np.int64),
        "middle": ints(1),
        "table": random((20, 8), 1),
        "positions": random((12, 8), 2),
        "lowest": np.array(np.finfo(np.float32).min, np.float32),
    }
    proto = model(graph(nodes, [value("ids", ["n", "m"], INT64)], [value("Y", None)], constants))
    session = card_session(proto, settings=profiled(), claim="all")
    for words in ([[5, 2, 9, 1, 1], [3, 4, 7, 8, 2]], [[6, 1, 1]]):
        feeds = {"ids": np.array(words, np.int64)}
        got = session.run(None, feeds)[0]
        np.testing.assert_allclose(got, on_cpu(proto, feeds)[0], rtol=1e-5, atol=1e-5)
    _, ops = ran(session, feeds)
    assert not [op for provider, op in ops if op.startswith("Memcpy") or provider != EP], ops


@on_card("cuda13")
def test_a_large_image_is_multiplied_band_by_band() -> None:
    """288 rows of 512 x 512 places are more than a matrix may have at once."""
    x, w = random((1, 32, 512, 512), 1), random((1, 32, 3, 3), 2) * np.float32(0.1)
    bias = random((1,), 3)
    node = helper.make_node("Conv", ["X", "W", "B"], ["Y"], pads=[1, 1, 1, 1])
    proto = model(graph([node], [value("X", x.shape)], [value("Y", None)], {"W": w, "B": bias}))
    session = card_session(proto, claim="all")
    got = session.run(None, {"X": x})[0]
    np.testing.assert_allclose(got, on_cpu(proto, {"X": x})[0], rtol=1e-4, atol=1e-4)


def one_node(
    op: str, inputs: dict[str, np.ndarray[Any, Any]], outputs: list[str], **attributes: Any
) -> onnx.ModelProto:
    kinds = {name: int(helper.np_dtype_to_tensor_dtype(array.dtype)) for name, array in inputs.items()}
    declared = [value(name, array.shape, kinds[name]) for name, array in inputs.items()]
    node = helper.make_node(op, list(inputs), outputs, domain="com.microsoft", **attributes)
    proto = model(graph([node], declared, [helper.make_empty_tensor_value_info(name) for name in outputs]))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


@on_card(*BOTH)
def test_packed_heads_are_what_they_are_apart() -> None:
    heads, size = 3, 8
    packed = random((2, 5, heads, 3, size), 1)
    pairs = random((2, 7, heads, 2, size), 2)
    parts = [packed[:, :, :, i].reshape(2, 5, -1) for i in range(3)]
    others = [pairs[:, :, :, i].reshape(2, 7, -1) for i in range(2)]
    for together, apart in (
        ({"q": packed}, dict(zip("qkv", parts, strict=True))),
        ({"q": parts[0], "k": pairs}, {"q": parts[0], "k": others[0], "v": others[1]}),
    ):
        proto = one_node("MultiHeadAttention", apart, ["Y"], num_heads=heads)
        (expected,) = on_cpu(proto, apart)
        session = card_session(one_node("MultiHeadAttention", together, ["Y"], num_heads=heads), claim="all")
        np.testing.assert_allclose(session.run(None, together)[0], expected, rtol=1e-5, atol=1e-5)


@on_card("rocm7")
def test_what_a_kernel_does_not_do_is_refused_in_words() -> None:
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    contrib = {"domain": "com.microsoft"}
    heads = {"num_heads": 2, "kv_num_heads": 2} | contrib
    cache = random((4, 2), 1)
    x, flat, images = random((2, 3, 8), 1), random((2, 3), 2), random((1, 2, 3, 3, 3, 3), 3)
    lengths, total = np.array([2, 2], np.int32), np.array(3, np.int32)
    cases: list[tuple[str, list[Any], dict[str, Any], str]] = [
        ("Conv", [images, images], {}, "4 dimensions, and its kernel has one to three"),
        (
            "ScatterND",
            [flat, ints(1).reshape(1, 1), flat[:1]],
            {"reduction": "add"},
            "reduction=add has no kernel",
        ),
        ("RotaryEmbedding", [x, ints(0), cache, cache], {"scale": 2.0} | contrib, "a scale has no kernel"),
        (
            "MultiHeadAttention",
            [x, x, x, None, np.ones((2, 1, 3, 3), np.int32)],
            {"num_heads": 2} | contrib,
            "a key_padding_mask of 4 dimensions has no kernel",
        ),
        ("Add", [np.zeros((1,) * 9, np.float32), flat], {}, "9 dimensions, and its kernel has at most 8"),
        (
            "MultiHeadAttention",
            [x, random((2, 2, 3, 4), 4), random((2, 2, 3, 4), 5), random((24,), 6)],
            {"num_heads": 2} | contrib,
            "a bias of heads that are apart already has no kernel",
        ),
        (
            "GroupQueryAttention",
            [x, x, x, None, None, lengths, total, None, None, None, random((2, 2, 3, 3), 4)],
            {"local_window_size": 2} | heads,
            "a local window beside an attention_bias has no kernel",
        ),
    ]
    nodes, constants = [], {}
    for at, (op, inputs, attributes, _) in enumerate(cases):
        names = [f"c{at}_{i}" if array is not None else "" for i, array in enumerate(inputs)]
        constants |= {name: array for name, array in zip(names, inputs, strict=True) if name}
        outputs = [f"Y{at}"] if op != "GroupQueryAttention" else [f"Y{at}", f"K{at}", f"V{at}"]
        nodes.append(helper.make_node(op, names, outputs, name=f"case{at}", **attributes))
    results = [value(f"Y{at}", None) for at in range(len(cases))]
    proto = model(graph(nodes, [value("X", [1])], results, constants))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    session = card_session(proto, settings=settings, claim="all")
    reasons = {node.name: node.reason for node in tunableop.explain(session).operators}
    for at, (*_, words) in enumerate(cases):
        assert words in reasons[f"case{at}"], reasons


@on_card(*BOTH)
def test_what_onnxruntime_has_no_answer_to_is_an_error_here_too() -> None:
    """Of the same kind, in words; the session goes on."""
    heads = {"num_heads": 2, "domain": "com.microsoft"}
    weight, row = random((6, 24), 1), random((24,), 2)
    x, lengths = random((2, 4, 6), 3), np.ones(5, np.int32)
    cases: list[tuple[str, list[np.ndarray[Any, Any]], dict[str, Any], str]] = [
        ("Conv", [random((1, 2, 3, 9), 4), random((2, 2, 5, 3), 5)], {}, "smaller than a filter of [5,3]"),
        ("Conv", [random((1, 2, 3), 4), random((2, 2, 4), 5)], {"strides": [4]}, "smaller than a filter"),
        ("Conv", [random((1, 2, 0, 4), 4), random((2, 2, 1, 1), 5)], {}, "smaller than a filter"),
        ("Attention", [x, weight, row, lengths], heads, "a mask of [5] is none of [batch]"),
        ("Attention", [x, weight, row, np.ones((2, 4, 3), np.int32)], heads, "a mask of [2,4,3] is none of"),
    ]
    for op, arrays, attributes, words in cases:
        names = [f"i{n}" for n in range(len(arrays))]
        kinds = [int(helper.np_dtype_to_tensor_dtype(array.dtype)) for array in arrays]
        dims: list[list[str]] = [
            [f"{n}_{d}" for d in range(a.ndim)] for n, a in zip(names, arrays, strict=True)
        ]
        inputs = [value(n, d, k) for n, d, k in zip(names, dims, kinds, strict=True)]
        node = helper.make_node(op, names, ["Y"], **attributes)
        proto = model(graph([node], inputs, [helper.make_empty_tensor_value_info("Y")]))
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        session = card_session(proto, claim="all")
        assert [node.claimed for node in tunableop.explain(session).operators] == [True]
        feeds = dict(zip(names, arrays, strict=True))
        for _ in range(2):
            with pytest.raises(Exception, match=f"INVALID_ARGUMENT.*{re.escape(words)}"):
                session.run(None, feeds)
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            on_cpu(proto, feeds)


def coverage_table() -> str:
    """The table of docs/gpu.md, from the provider's own."""
    rows: dict[str, list[str]] = {}
    for row in operators():
        opsets = str(row["first"]) if row["first"] == row["last"] else f"{row['first']}-{row['last']}"
        name = f"{row['domain']}.{row['op']}" if row["domain"] else row["op"]
        rows.setdefault(", ".join(row["types"]), []).append(f"{name} {opsets}")
    lines = ["| types | operators, with their opsets |", "|---|---|"]
    return "\n".join([*lines, *(f"| {types} | {', '.join(sorted(ops))} |" for types, ops in rows.items())])


def test_the_documents_have_the_table_of_operators() -> None:
    text = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert coverage_table() in text, f"\n{coverage_table()}"


def test_every_definition_that_onnx_has_is_known_or_newer() -> None:
    """A table that lags behind is no error, one that names versions which are none is."""
    known = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    for row in operators():
        if row["domain"] or row["op"] == "SimplifiedLayerNormalization":
            continue  # ONNX Runtime's own
        for version in (row["first"], row["last"]):
            assert ("", row["op"], version) in known, row


@on_card("cuda13")
def test_a_range_over_all_of_int64() -> None:
    """ONNX Runtime before 1.32 counts in floating point, and gives two elements."""
    far = np.iinfo(np.int64)
    names = ("start", "limit", "delta")
    node = helper.make_node("Range", list(names), ["Y"])
    proto = model(graph([node], [value(name, [], INT64) for name in names], [value("Y", None, INT64)], {}))
    session = card_session(proto, claim="all")
    feeds = dict(zip(names, (np.array(n, np.int64) for n in (far.min, far.max, far.max)), strict=True))
    assert session.run(None, feeds)[0].tolist() == [far.min, -1, far.max - 1]
    assert [node.claimed for node in tunableop.explain(session).operators] == [True]


@on_card(*BOTH)
def test_a_value_that_one_node_reads_on_the_card_and_on_the_host() -> None:
    """ONNX Runtime has one place for it, and would hand out memory of the card as the host's."""
    nodes = [
        helper.make_node("Squeeze", ["axes", "axes"], ["zero"], name="both"),
        helper.make_node("Cast", ["zero"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["X", "number"], ["Y"]),
    ]
    constants = {"axes": np.array([0], np.int64)}
    proto = model(graph(nodes, [value("X", ["n", 3])], [value("Y", None)], constants))
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = card_session(proto, settings=settings, claim="all")
    (reason,) = (node.reason for node in tunableop.explain(session).operators if node.name == "both")
    assert reason == "refused: one value is read on the card and on the host"
    x = random((2, 3), 1)
    np.testing.assert_array_equal(session.run(None, {"X": x})[0], x)
