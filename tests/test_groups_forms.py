"""Groups that a card can run in several forms: the one measured faster runs, is kept, and is right."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper
from support.cards import BOTH, backend, card_session, count, faults, on_card, since, value_on_card
from support.graphs import graph, model, value
from support.sessions import random
from test_groups_attention import PATTERNS, SHAPES, built, feeds
from test_groups_attention import check as check_attention
from test_groups_attention_forms import attention as attention_forms
from test_groups_attention_forms import dtypes

K, N = 64, 48
# In a graph, where the time that the host takes to launch does not count: it is real here.
ALL = {"claim": "all", "enable_graph": 1}
ONLINE = {**ALL, "tuning": "online", "max_tuning_ms": 3000}
NUMPY = {"fp32": np.float32, "fp16": np.float16}
TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}


def op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name=output, **attributes)


def layers(depth: int = 1, dtype: str = "fp32", relu: bool = False) -> onnx.ModelProto:
    """So many of X [2, m, K] by [K, K], with biases, one after the other."""
    nodes, constants = [], {}
    for i in range(depth):
        source = "X" if i == 0 else f"Y{i - 1}"
        constants[f"w{i}"] = (random((K, K), i) / 8).astype(NUMPY[dtype])
        constants[f"b{i}"] = random((K,), i + 50).astype(NUMPY[dtype])
        nodes += [
            op("MatMul", f"{source} w{i}", f"m{i}"),
            op("Add", f"m{i} b{i}", f"{'s' if relu else 'Y'}{i}"),
        ]
        nodes += [op("Relu", f"s{i}", f"Y{i}")] if relu else []
    kind = TYPES[dtype]
    return model(
        graph(nodes, [value("X", [2, "m", K], kind)], [value(f"Y{depth - 1}", None, kind)], constants)
    )


def check(session: ort.InferenceSession, proto: onnx.ModelProto, dtype: str = "fp32", rows: int = 12) -> None:
    reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = random((2, rows, K), rows).astype(NUMPY[dtype])
    wanted = reference.run(None, {"X": x})[0]
    tolerance = 1e-5 if dtype == "fp32" else 1e-2
    for _ in range(3):
        np.testing.assert_allclose(session.run(None, {"X": x})[0], wanted, rtol=tolerance, atol=tolerance)


def forms(session: ort.InferenceSession) -> dict[str, str]:
    """By shape what runs there."""
    return {form.shape: form.form for form in tunableop.explain(session).forms}


def apart(session: ort.InferenceSession, proto: onnx.ModelProto) -> int:
    """How many sums of their own three runs launch."""
    before = count("device_kernels:bias_add") + count("device_kernels:bias_relu")
    check(session, proto)
    return count("device_kernels:bias_add") + count("device_kernels:bias_relu") - before


@since(26, "has no graphs of plugins")
@on_card(*BOTH)
def test_the_faster_form_of_a_product_runs() -> None:
    for dtype, relu in (("fp32", False), ("fp16", True)):
        proto = layers(2, dtype, relu)
        # A library's epilogue costs nothing, and another kernel something.
        session = card_session(proto, **ONLINE)
        check(session, proto, dtype)
        assert set(forms(session).values()) == {"epilogue"}, str(tunableop.explain(session))
        faults("slow_bias:20")
        session = card_session(proto, **ONLINE)
        check(session, proto, dtype)
        check(session, proto, dtype, rows=7)
        faults("")
        (first, second) = sorted(tunableop.explain(session).forms, key=lambda form: form.shape)
        kind = f"K=64,{'relu=1,' if relu else ''}{dtype},graph"
        assert [first.shape, second.shape] == [f"M=14,N=64,{kind}", f"M=24,N=64,{kind}"]
        for form in (first, second):
            assert (form.form, form.usual_form, form.measured) == ("two kernels", "epilogue", True)
            assert 0 < form.milliseconds < form.usual_milliseconds
            assert "% faster than the usual form" in form.why
        # Equal layers are measured once.
        assert tunableop.stats(session).forms == 2
        report = str(tunableop.explain(session))
        assert f"MatMul+Add (M=24,N=64,{kind}): two kernels, " in report, report


@since(26, "has no graphs of plugins")
@on_card(*BOTH)
def test_a_choice_is_kept() -> None:
    proto = layers(3)
    path = Path(tempfile.mkdtemp()) / "cache.json"
    faults("slow_bias:20")
    session = card_session(proto, cache=path, **ONLINE)
    check(session, proto)
    results = tunableop.get_tuning_results(session)
    del session
    faults("")
    (saved,) = json.loads(path.read_text())["machines"][0]["forms"]
    assert (saved["group"], saved["form"], saved["usual_form"]) == ("MatMul+Add", "two kernels", "epilogue")
    assert saved == results["machines"][0]["forms"][0]
    session = card_session(proto, cache=path, tuning="cached", **ALL)
    assert apart(session, proto) == 9
    assert forms(session) == {"M=24,N=64,K=64,fp32,graph": "two kernels"}
    assert tunableop.explain(session).forms[0].why == f"loaded from {path}"
    # Another shape is not known, and nothing is measured.
    check(session, proto, rows=5)
    assert forms(session)["M=10,N=64,K=64,fp32,graph"] == "epilogue"
    # While tuning is off, what would run without all this runs.
    tunableop.set_tuning(session, "off")
    assert apart(session, proto) == 0
    tunableop.set_tuning(session, "cached")
    assert apart(session, proto) == 9
    session = card_session(proto, cache=path, tuning="off", **ALL)
    assert apart(session, proto) == 0
    # With tuning on it is not measured again.
    session = card_session(proto, cache=path, **ONLINE)
    assert apart(session, proto) == 9
    assert tunableop.stats(session).forms == 0


@since(26, "has no graphs of plugins")
@on_card("cuda13")
def test_what_cannot_be_used_breaks_nothing() -> None:
    proto = layers()
    faults("slow_bias:20")
    session = card_session(proto, **ONLINE)
    check(session, proto)
    results = tunableop.get_tuning_results(session)
    faults("")
    (good,) = results["machines"][0]["forms"]
    bad: list[tuple[Any, str]] = [
        ({**good, "library_identity": "x"}, "field 'library_identity': expected '"),
        ({**good, "form": 5}, "expected a string that is not empty, found 5; form ignored"),
        ([], "expected an object, found []; form ignored"),
    ]
    for form, words in bad:
        session = card_session(proto, tuning="cached", **ALL)
        results["machines"][0]["forms"] = [form]
        problems = tunableop.set_tuning_results(session, results)
        assert len(problems) == 1, problems
        assert words in problems[0]
        assert apart(session, proto) == 0
    # What the group does not have, and what no group has, is only met when it is wanted.
    for form in ({**good, "form": "five kernels"}, {**good, "group": "?"}, {**good, "shape": "\n" * 4000}):
        session = card_session(proto, tuning="cached", **ALL)
        results["machines"][0]["forms"] = [form]
        assert tunableop.set_tuning_results(session, results) == []
        assert apart(session, proto) == 0
        refused = [note for note in tunableop.explain(session).notes if "expected one that the group" in note]
        assert len(refused) == (form["form"] == "five kernels")


@on_card("cuda13")
def test_budgets_hold() -> None:
    proto = layers()
    session = card_session(proto, max_session_ms=1, **ONLINE)
    check(session, proto)
    check(session, proto, rows=9)
    assert tunableop.stats(session).forms == 0
    assert set(forms(session).values()) == {"epilogue"}


@since(26, "has no graphs of plugins")
@on_card("rocm7")
def test_tuning_on_demand_measures_forms() -> None:
    proto = layers(2)
    faults("slow_bias:20")
    session = tunableop.InferenceSession(
        proto.SerializeToString(), device="hip:0", tuning="background", max_tuning_ms=3000, **ALL
    )
    tunableop.warm(session, {"X": random((2, 12, K), 1)})
    faults("")
    assert forms(session) == {"M=24,N=64,K=64,fp32,graph": "two kernels"}, str(tunableop.explain(session))


@since(26, "has no graphs of plugins")
@on_card(*BOTH)
def test_a_graph_is_captured_again_with_another_form() -> None:
    proto = layers(2)
    faults("slow_bias:20")
    session = card_session(proto, **ONLINE)
    check(session, proto)
    results = tunableop.get_tuning_results(session)
    faults("")
    session = card_session(proto, tuning="cached", **ALL)
    x = random((2, 12, K), 3)
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value_on_card(x))
    out = value_on_card(np.zeros((2, 12, K), np.float32))
    binding.bind_ortvalue_output("Y1", out)
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "1")

    def replayed() -> int:
        before = count("device_kernels:bias_add")
        session.run_with_iobinding(binding, options)
        return count("device_kernels:bias_add") - before

    session.run_with_iobinding(binding, options)
    assert replayed() == 0
    expected = out.numpy().copy()
    tunableop.set_tuning_results(session, {**results, "machines": [
        {**results["machines"][0], "entries": []}]})  # fmt: skip
    counts = [replayed() for _ in range(3)]
    assert counts[1:] == [2, 2], (counts, tunableop.stats(session).graphs, str(tunableop.explain(session)))
    assert tunableop.stats(session).graphs.recaptured == 1
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)


def projections(biased: bool, dtype: str) -> onnx.ModelProto:
    """Three products of X [2, m, K], of 16, 8 and 5 columns."""
    nodes, constants = [], {}
    for i, columns in enumerate((16, 8, 5)):
        constants[f"w{i}"] = (random((K, columns), i) / 8).astype(NUMPY[dtype])
        nodes.append(op("MatMul", f"X w{i}", f"m{i}" if biased else f"Y{i}"))
        if biased:
            constants[f"b{i}"] = random((columns,), i + 50).astype(NUMPY[dtype])
            nodes.append(op("Add", f"m{i} b{i}", f"Y{i}"))
    kind = TYPES[dtype]
    outputs = [value(f"Y{i}", None, kind) for i in range(3)]
    return model(graph(nodes, [value("X", [2, "m", K], kind)], outputs, constants))


@since(26, "has no graphs of plugins")
@on_card(*BOTH)
def test_the_faster_form_of_projections_runs() -> None:
    for dtype, biased in (("fp16", False), ("fp32", True)):
        proto = projections(biased, dtype)
        reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        # A copy takes long, or products do.
        for fault, expected in (("slow_loaded:50", "three products"), ("slow_products:9", "one product")):
            session = card_session(proto, **ONLINE)
            for rows in (12, 150):  # on both sides of what is usual
                x = random((2, rows, K), rows).astype(NUMPY[dtype])
                wanted = reference.run(None, {"X": x})
                for _ in range(2):
                    faults(fault)
                    found = session.run(None, {"X": x})
                    faults("")
                    for got, right in zip(found, wanted, strict=True):
                        near = 1e-5 if dtype == "fp32" else 1e-2
                        np.testing.assert_allclose(got, right, rtol=near, atol=near)
            mine = [form for form in tunableop.explain(session).forms if form.group == "Projections"]
            assert {form.usual_form for form in mine} == {"one product", "three products"}
            assert [form.form for form in mine] == [expected] * 2, str(tunableop.explain(session))
            assert all(form.measured for form in mine)


@since(26, "has no graphs of plugins")
@on_card("cuda13", "rocm7")
def test_the_faster_form_of_attention_runs() -> None:
    pattern = PATTERNS["as BERT is exported"]
    given = [feeds(pattern, (3, 4, 5, 7))]
    for dtype in dtypes():
        tiles = backend() == "cuda" and dtype == "fp16"
        for fault, expected in (("slow_attention:60", "apart"), ("slow_products:60", "one kernel")):
            faults(fault)
            session = card_session(built(pattern, dtype), **ONLINE)
            check_attention(session, pattern, given, dtype)
            faults("")
            (form,) = attention_forms(session)
            assert form.usual_form == ("one kernel" if tiles else "apart")
            assert (form.form, form.measured) == (expected, True), str(tunableop.explain(session))
            assert form.shape.startswith("B=3,H=4,Q=5,K=7,S=32,")
            # And that is what runs from then on.
            check_attention(session, pattern, given, dtype)


@on_card(*BOTH)
def test_products_of_attention_copy_no_more_than_its_nodes() -> None:
    dtype = "fp32" if backend() == "cuda" else "fp16"
    for name, pattern in PATTERNS.items():
        session = card_session(built(pattern, dtype), claim="all")
        turned = sum(node.op_type == "Transpose" for node in pattern.nodes)
        for shape in SHAPES:
            before = {
                kernel: count(f"device_kernels:{kernel}") for kernel in ("attention", "softmax", "copy")
            }
            check_attention(session, pattern, [feeds(pattern, shape)], dtype)
            launched = {kernel: count(f"device_kernels:{kernel}") - before[kernel] for kernel in before}
            batch, heads, queries, _ = shape
            assert launched["attention"] == 0
            assert launched["softmax"] == (queries > 0)
            # Of one batch, or one head, only a result whose heads are inside of its tokens.
            most = turned if batch > 1 and heads > 1 else pattern.nodes[-1].op_type == "Transpose"
            assert launched["copy"] <= most, f"{name} {shape}: {launched}"
