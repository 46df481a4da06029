"""Attention as one on a card: the ways exporters write it, masks, shapes that broadcast, near misses."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from support.cards import backend, card_session, on_card
from support.graphs import graph, model, value
from support.sessions import random

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `models` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from models import bert  # noqa: E402
from models.encoder import EncoderConfig  # noqa: E402

TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
TOLERANCE = {"fp32": 3e-5, "fp16": 4e-3, "bf16": 3e-2}
SIZE = 32

#: batch, heads, queries, keys
SHAPES = [(1, 2, 4, 4), (3, 4, 5, 7), (2, 1, 1, 70), (3, 4, 5, 7), (1, 2, 0, 3)]
Feeds = dict[str, npt.NDArray[Any]]


@dataclass
class Pattern:
    """Nodes from q, k and v to Y, and how a [batch, head, token, size] tensor comes as an input."""

    nodes: list[onnx.NodeProto]
    inputs: Sequence[int] = (0, 1, 2, 3)  # the order in which q and v come
    keys: Sequence[int] = (0, 1, 2, 3)
    mask: Sequence[int] | None = None  # its dimensions: at d, d is that of the shape
    flags: bool = False
    keeps: bool = True  # what flag a score is kept for
    constants: Feeds = field(default_factory=dict)


def op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name=output, **attributes)


def number(number: float, *dims: int) -> npt.NDArray[Any]:
    return np.full(dims, number, np.float32)


TURN = [0, 2, 1, 3]
EXPORTED = [
    op("Transpose", "q", "q1", perm=TURN),
    op("Transpose", "k", "k1", perm=[0, 2, 3, 1]),
    op("Transpose", "v", "v1", perm=TURN),
    op("MatMul", "q1 k1", "s0"),
    op("Div", "s0 c", "s1"),
    op("Add", "s1 mask", "s2"),
    op("Softmax", "s2", "p", axis=-1),
    op("MatMul", "p v1", "o"),
    op("Transpose", "o", "Y", perm=TURN),
]
INSIDE = (0, 2, 1, 3)  # [batch, token, head, size]
COLUMNS = op("Transpose", "k", "kt", perm=[0, 1, 3, 2])
BARE = [COLUMNS, op("MatMul", "q kt", "s"), op("Softmax", "s", "p", axis=3), op("MatMul", "p v", "Y")]

PATTERNS = {
    "as BERT is exported": Pattern(EXPORTED, INSIDE, INSIDE, (0, 1, 1, 3), constants={"c": number(8.0)}),
    "scaled before the product": Pattern(
        [
            op("Transpose", "q", "q1", perm=TURN),
            op("Transpose", "k", "k1", perm=TURN),
            op("Mul", "q1 c", "q2"),
            op("Transpose", "k1", "k2", perm=[0, 1, 3, 2]),
            op("Mul", "c k2", "k3"),
            op("MatMul", "q2 k3", "s"),
            op("Add", "mask s", "s2"),
            op("Softmax", "s2", "p", axis=-1),
            op("MatMul", "p v", "Y"),
        ],
        INSIDE,
        INSIDE,
        (0, 1, 2, 3),
        constants={"c": number(math.sqrt(0.3), 1)},
    ),
    "masked by flags": Pattern(
        [
            COLUMNS,
            op("MatMul", "q kt", "s0"),
            op("Mul", "s0 c", "s1"),
            op("Where", "mask s1 low", "s2"),
            op("Softmax", "s2", "p", axis=-1),
            op("MatMul", "p v", "o"),
            op("Transpose", "o", "Y", perm=TURN),
        ],
        mask=(1, 1, 2, 3),
        flags=True,
        constants={"c": number(0.5, 1, 1), "low": number(-60000.0)},
    ),
    "masked by flags of what does not count": Pattern(
        [
            COLUMNS,
            op("MatMul", "q kt", "s1"),
            op("Where", "mask low s1", "s2"),
            op("Softmax", "s2", "p", axis=-1),
            op("MatMul", "p v", "Y"),
        ],
        mask=(0, 1, 1, 3),
        flags=True,
        keeps=False,
        constants={"low": number(-np.inf, 1)},
    ),
    "bare": Pattern(BARE),
}
PATTERNS["scaled before the product"].nodes[-1] = op("MatMul", "p v1", "Y")
PATTERNS["scaled before the product"].nodes.insert(0, op("Transpose", "v", "v1", perm=TURN))


def built(
    pattern: Pattern, dtype: str, size: int | str = SIZE, outputs: Sequence[str] = ("Y",)
) -> onnx.ModelProto:
    """All sizes but a vector's are free. Inputs and outputs are of floats, where the type is bf16."""
    kind = TYPES[dtype]
    cast = dtype == "bf16"
    outer = TensorProto.FLOAT if cast else kind

    def dims(name: str, order: Sequence[int]) -> onnx.ValueInfoProto:
        names = [f"{name}{d}" for d in range(3)] + [size]
        return value(name, [names[d] for d in order], outer)

    inputs = [dims("q", pattern.inputs), dims("k", pattern.keys), dims("v", pattern.inputs)]
    if pattern.mask is not None:
        free = [f"mask{d}" for d in range(len(pattern.mask))]
        inputs.append(value("mask", free, TensorProto.BOOL if pattern.flags else outer))
    nodes = [*pattern.nodes]
    if cast:
        narrowed = [name.name for name in inputs if not (name.name == "mask" and pattern.flags)]
        names = {name: f"{name}_narrow" for name in narrowed} | {name: f"{name}_narrow" for name in outputs}
        nodes = [renamed(node, names) for node in nodes]
        nodes = [op("Cast", name, f"{name}_narrow", to=kind) for name in narrowed] + nodes
        nodes += [op("Cast", f"{name}_narrow", name, to=outer) for name in outputs]
    results = [value(name, None, outer) for name in outputs]
    made = model(graph(nodes, inputs, results))
    for name, x in pattern.constants.items():
        made.graph.initializer.append(helper.make_tensor(name, kind, x.shape, x.flatten().tolist()))
    return made


def renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    copy.name = copy.output[0]
    return copy


def feeds(pattern: Pattern, shape: tuple[int, ...], kv_heads: int = 0) -> Feeds:
    """Numbers that every type has."""
    batch, heads, queries, keys = shape
    given = {
        "q": random((batch, heads, queries, SIZE), 1).transpose(pattern.inputs),
        "k": random((batch, kv_heads or heads, keys, SIZE), 2).transpose(pattern.keys),
        "v": random((batch, kv_heads or heads, keys, SIZE), 3).transpose(pattern.inputs),
    }
    if pattern.mask is not None:
        given["mask"] = random(tuple(shape[d] if at == d else d for at, d in enumerate(pattern.mask)), 4)
    # Six bits and a sign.
    given = {name: (np.round(np.ascontiguousarray(x) * 16) / 16).clip(-3, 3) for name, x in given.items()}
    if pattern.flags:
        given["mask"] = given["mask"] > 0
        given["mask"][..., 0] = pattern.keeps
    return given


def of_type(given: Feeds, dtype: str) -> Feeds:
    narrow = np.float16 if dtype == "fp16" else np.float32
    return {name: x if x.dtype == np.bool_ else x.astype(narrow) for name, x in given.items()}


def apart(session: ort.InferenceSession) -> list[str]:
    """The kinds of nodes that do not run as one, sorted; but for Casts."""
    told = tunableop.explain(session)
    every = [*told.nodes, *told.operators]
    alone = (node.op_type for node in every if "fused as Attention" not in node.reason)
    return sorted(kind for kind in alone if kind != "Cast")


def check(
    session: ort.InferenceSession,
    pattern: Pattern,
    given: Sequence[Feeds],
    dtype: str,
    tolerance: float = 0.0,
    **how: Any,
) -> None:
    """Answers as the CPU provider's, in floats."""
    proto = built(pattern, "fp32", **how)
    reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed in given:
        expected = reference.run(None, feed)
        for got, wanted in zip(session.run(None, of_type(feed, dtype)), expected, strict=True):
            assert got.shape == wanted.shape
            most = tolerance or TOLERANCE[dtype]
            np.testing.assert_allclose(got, wanted, rtol=most, atol=most)


@on_card("cuda13", "rocm7", only_simulated=True)
def test_cards_without_these_kernels_run_products() -> None:
    """As one group."""
    dtype = "fp16" if backend() == "hip" else "fp32"
    for name, pattern in PATTERNS.items():
        session = card_session(built(pattern, dtype), claim="all")
        assert not apart(session), f"{name} {tunableop.explain(session)}"
        check(session, pattern, [feeds(pattern, shape) for shape in SHAPES], dtype)
        reasons = {node.reason.split(", ")[-1] for node in tunableop.explain(session).nodes}
        assert reasons == {"fused as AttentionApart"}


@on_card("cuda12", "cuda13")
def test_attention_is_one() -> None:
    for name, pattern in PATTERNS.items():
        for dtype in ("fp16", "bf16"):
            session = card_session(built(pattern, dtype), claim="all")
            assert not apart(session), f"{name} {tunableop.explain(session)}"
            check(session, pattern, [feeds(pattern, shape) for shape in SHAPES], dtype)


@on_card("cuda13")
def test_floats_are_one_where_they_may_be_rounded() -> None:
    for name, pattern in PATTERNS.items():
        given = [feeds(pattern, shape) for shape in SHAPES]
        exact = card_session(built(pattern, "fp32"), claim="all")
        assert not apart(exact), name
        check(exact, pattern, given, "fp32")
        session = card_session(built(pattern, "fp32"), claim="all", precision="tf32")
        assert not apart(session), f"{name} {tunableop.explain(session)}"
        check(session, pattern, given, "fp32", tolerance=6e-3)


@on_card("cuda13")
def test_operands_broadcast() -> None:
    """One head of keys for all queries, one batch of all, and masks that have more than the scores."""
    pattern = PATTERNS["as BERT is exported"]
    cases = [feeds(pattern, (2, 4, 5, 6), kv_heads=1)]
    for names in (["q"], ["k", "v"], ["q", "k", "v"]):
        cases.append(feeds(pattern, (3, 2, 5, 6)))
        cases[-1] |= {name: cases[-1][name][:1] for name in names}
    for dims in ((6,), (1, 6), (2, 1, 1), (3, 2, 5, 6), (1, 1, 5, 1)):
        cases.append(feeds(pattern, (3, 2, 5, 6)) | {"mask": random(dims, 4)})
    cases.append(feeds(pattern, (1, 1, 1, 6)) | {"mask": random((3, 2, 5, 6), 4)})
    cases.append(feeds(pattern, (2, 2, 5, 1)) | {"mask": random((1, 1, 1, 6), 4)})
    cases[-1]["v"] = feeds(pattern, (2, 2, 5, 6))["v"]
    for case in cases:
        ranked = replace(pattern, mask=case["mask"].shape)
        case["mask"] = of_type({"mask": case["mask"]}, "fp16")["mask"].astype(np.float32)
        for dtype in ("fp16", "fp32"):  # in one kernel, and in products
            session = card_session(built(ranked, dtype), claim="all")
            assert not apart(session)
            check(session, ranked, [case], dtype)


@on_card("cuda13")
def test_shapes_that_do_not_fit_are_told() -> None:
    pattern = PATTERNS["as BERT is exported"]
    session = card_session(built(pattern, "fp16"), claim="all")
    given = of_type(feeds(pattern, (2, 2, 5, 6)), "fp16")
    for name, dims in (("v", (2, 7, 2, SIZE)), ("mask", (2, 1, 1, 4)), ("k", (3, 6, 2, SIZE))):
        wrong = given | {name: np.zeros(dims, np.float16)}
        with pytest.raises(Exception, match="Attention: its operands' shapes do not fit"):
            session.run(None, wrong)
    check(session, pattern, [feeds(pattern, (2, 2, 5, 6))], "fp16")


@on_card("cuda13")
def test_what_is_no_attention_stays_apart() -> None:
    exported = PATTERNS["as BERT is exported"]
    bare = PATTERNS["bare"]
    near: dict[str, tuple[list[onnx.NodeProto], Pattern, dict[str, Any]]] = {
        "the scores are an output": (bare.nodes, bare, {"outputs": ("Y", "s")}),
        "the probabilities are an output": (bare.nodes, bare, {"outputs": ("Y", "p")}),
        "the probabilities have two readers": (
            [*bare.nodes, op("Neg", "p", "n")],
            bare,
            {"outputs": ("Y", "n")},
        ),
        "over another dimension": (
            [*bare.nodes[:2], op("Softmax", "s", "p", axis=2), bare.nodes[3]],
            bare,
            {},
        ),
        "a divisor that is no number": (
            [*exported.nodes[:4], op("Div", "s0 mask", "s1"), *exported.nodes[5:]],
            exported,
            {},
        ),
        "a number that is divided": (
            [*exported.nodes[:4], op("Div", "c s0", "s1"), *exported.nodes[5:]],
            exported,
            {},
        ),
        "keys in columns": (
            [op("MatMul", "q k", "s"), *bare.nodes[2:]],
            replace(bare, keys=(0, 1, 3, 2)),
            {},
        ),
        "a fifth dimension": (
            [*bare.nodes[:2], op("Where", "mask s low", "w"), op("Softmax", "w", "p"), bare.nodes[3]],
            replace(bare, mask=(1, 1, 2, 3), flags=True, constants={"low": number(-9.0, 1, 1, 1, 1, 1)}),
            {},
        ),
        "vectors of a size that is not known": (bare.nodes, bare, {"size": "n"}),
    }
    for what, (nodes, base, how) in near.items():
        pattern = replace(base, nodes=nodes)
        session = card_session(built(pattern, "fp16", **how), claim="all")
        assert {"MatMul", "Softmax"} <= set(apart(session)), f"{what}: {tunableop.explain(session)}"
        given = [feeds(pattern, shape) for shape in SHAPES[:2]]
        for feed in given:
            if "mask" in feed and not pattern.flags:
                feed["mask"] = np.abs(feed["mask"]) + 1
            if what == "a number that is divided":
                feed["q"] = np.abs(feed["q"]) + 0.5
                feed["k"] = np.abs(feed["k"]) + 0.5
        check(session, pattern, given, "fp16", **how)


@on_card("cuda13")
def test_what_others_read_is_left_outside() -> None:
    """A transposition that somebody else reads, too, is no part of the group, but the rest is one."""
    exported = PATTERNS["as BERT is exported"]
    pattern = replace(exported, nodes=[*exported.nodes, op("Neg", "q1", "n"), op("Neg", "v1", "m")])
    how = {"outputs": ("Y", "n", "m")}
    session = card_session(built(pattern, "fp16", **how), claim="all", settings=unoptimised())
    assert apart(session) == ["Neg", "Neg", "Transpose", "Transpose"], str(tunableop.explain(session))
    check(session, pattern, [feeds(pattern, shape) for shape in SHAPES], "fp16", **how)


@on_card("cuda13")
def test_long_keys_are_divided() -> None:
    pattern = PATTERNS["bare"]
    session = card_session(built(pattern, "fp16"), claim="all")
    check(session, pattern, [feeds(pattern, (2, 2, 1, 700)), feeds(pattern, (1, 3, 2, 1500))], "fp16")


@on_card("cuda13")
def test_layers_of_bert() -> None:
    config = EncoderConfig(layers=2, hidden=64, heads=2, intermediate=32, vocabulary=50, positions=64)
    fixed = {"batch": 2, "sequence": 9}
    for sizes, products in (({}, 4), (fixed, 10)):  # with those that make queries, keys and values
        proto = bert.build(config, dtype=np.float16, **sizes)
        session = card_session(proto, claim="all")
        nodes = tunableop.explain(session).nodes
        fused = [node for node in nodes if "fused as Attention" in node.reason]
        assert len(fused) == products, str(tunableop.explain(session))
        whole = bert.build(config, **sizes)
        reference = ort.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
        mask = np.ones((2, 9), np.int64)
        mask[1, 5:] = 0
        ids = np.arange(18).reshape(2, 9)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 2}
        (got,), (wanted,) = session.run(None, given), reference.run(None, given)
        np.testing.assert_allclose(got[0], wanted[0], rtol=3e-2, atol=3e-2)
        np.testing.assert_allclose(got[1, :5], wanted[1, :5], rtol=3e-2, atol=3e-2)


SPLIT = (2, 9, 2, SIZE)
PROJECTIONS = [
    node
    for part in "qkv"
    for node in (
        op("MatMul", f"x w{part}", f"m{part}"),
        op("Add", f"b{part} m{part}", f"a{part}"),
        op("Reshape", f"a{part} split", part),
    )
]


def projected(nodes: list[onnx.NodeProto], dtype: str, outputs: Sequence[str] = ("Y",)) -> onnx.ModelProto:
    """Queries, keys and values are made of x and z, [2, 9, 24]."""
    kind = TYPES[dtype]
    sizes = {"wq": (24, 64), "wk": (24, 64), "wv": (24, 64), "bq": (64,), "bk": (64,), "bv": (64,)}
    inputs = [value(name, [2, 9, 24], kind) for name in ("x", "z")]
    inputs.append(value("mask", [2, 1, 1, 9], kind))
    made = model(graph([*nodes, *EXPORTED], inputs, [value(name, None, kind) for name in outputs]))
    for seed, (name, dims) in enumerate(sizes.items()):
        numbers = random(dims, seed) / 4
        made.graph.initializer.append(helper.make_tensor(name, kind, dims, numbers.flatten().tolist()))
    made.graph.initializer.append(helper.make_tensor("c", kind, (), [8.0]))
    for name, dims in (("split", SPLIT), ("open", (0, -1, 2, SIZE))):
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, (4,), dims))
    return made


def swapped(change: dict[str, onnx.NodeProto | None]) -> list[onnx.NodeProto]:
    """PROJECTIONS with other nodes, or none, in places of those names."""
    changed = [change.get(node.name, node) for node in PROJECTIONS]
    return [node for node in changed if node is not None]


@on_card("cuda13")
def test_queries_keys_and_values_are_one_product() -> None:
    unbiased = [op("MatMul", f"x w{part}", f"m{part}") for part in "qkv"]
    unbiased += [op("Reshape", f"m{part} open", part) for part in "qkv"]
    one: dict[str, list[onnx.NodeProto]] = {
        "with biases": PROJECTIONS,
        "without": unbiased,
        "of sizes that follow": swapped({part: op("Reshape", f"a{part} open", part) for part in "qkv"}),
    }
    apart_from: dict[str, tuple[list[onnx.NodeProto], Sequence[str]]] = {
        "of another tensor": (swapped({"mk": op("MatMul", "z wk", "mk")}), ("Y",)),
        "one without a bias": (
            swapped({"av": None, "v": op("Reshape", "mv split", "v")}),
            ("Y",),
        ),
        "read by others": (PROJECTIONS, ("Y", "ak")),
    }
    for dtype in ("fp16", "fp32"):
        for what, nodes in one.items():
            check_projected(nodes, dtype, ("Y",), what, 5)
        for what, (nodes, names) in apart_from.items():
            check_projected(nodes, dtype, names, what, 2)


def check_projected(
    nodes: list[onnx.NodeProto], dtype: str, outputs: Sequence[str], what: str, products: int
) -> None:
    session = card_session(
        projected(nodes, dtype, outputs), claim="all", precision="tf32", settings=unoptimised()
    )
    told = tunableop.explain(session)
    fused = [node for node in told.nodes if "fused as Attention" in node.reason]
    assert len(fused) == products, f"{what}: {told}"
    given = {name: random((2, 9, 24), seed) for seed, name in enumerate("xz")}
    given["mask"] = np.where(random((2, 1, 1, 9), 3) > 0.7, np.float32(-1000), np.float32(0))
    given = {name: np.round(x * 16) / 16 for name, x in given.items()}
    whole = projected(nodes, "fp32", outputs)
    reference = ort.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = reference.run(None, given)
    for got, wanted in zip(session.run(None, of_type(given, dtype)), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=8e-3, atol=8e-3)  # of tf32, too


def unoptimised() -> ort.SessionOptions:
    """Else readers of a transposition get one each."""
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


@on_card("cuda13")
def test_a_mask_of_unknown_dimensions_may_have_more_than_the_scores() -> None:
    nodes = [COLUMNS, op("MatMul", "q kt", "s"), op("Add", "s mask", "s2"), op("Softmax", "s2", "p", axis=-1)]
    nodes.append(op("MatMul", "p v", "Y"))
    kind = TensorProto.FLOAT16
    sizes = {"q": (1, 2, 4, SIZE), "k": (1, 2, 5, SIZE), "v": (1, 2, 5, SIZE)}
    inputs = [value(name, dims, kind) for name, dims in sizes.items()] + [value("mask", None, kind)]
    proto = model(graph(nodes, inputs, [value("Y", None, kind)], {}), opset=17)
    session = card_session(proto, claim="all")
    assert not any("fused as Attention" in n.reason for n in tunableop.explain(session).operators)
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {name: random(dims, n).astype(np.float16) for n, (name, dims) in enumerate(sizes.items())}
    for dims in ((5,), (1, 1, 4, 5), (3, 1, 2, 4, 5)):
        feeds["mask"] = random(dims, 7).astype(np.float16)
        (got,), (expected,) = session.run(None, feeds), stock.run(None, feeds)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=4e-3, atol=4e-3)


@on_card("cuda13", "rocm7")
def test_a_constant_mask_may_have_more_dimensions_than_the_scores() -> None:
    nodes = [COLUMNS, op("MatMul", "q kt", "s"), op("Add", "s mask", "s2"), op("Softmax", "s2", "p", axis=-1)]
    nodes.append(op("MatMul", "p v", "Y"))
    kind = TensorProto.FLOAT16
    sizes = {"q": (1, 2, 4, SIZE), "k": (1, 2, 5, SIZE), "v": (1, 2, 5, SIZE)}
    feeds = {name: random(dims, n).astype(np.float16) for n, (name, dims) in enumerate(sizes.items())}
    for dims, fused in (((), True), ((1, 1, 4, 5), True), ((1, 1, 1, 1, 5), False), ((2, 1, 1, 4, 1), False)):
        mask = {"mask": random(dims, 7).astype(np.float16)}
        inputs = [value(name, sizes[name], kind) for name in sizes]
        proto = model(graph(nodes, inputs, [value("Y", None, kind)], mask), opset=17)
        session = card_session(proto, claim="all", settings=unoptimised())
        told = [n.reason for n in tunableop.explain(session).operators]
        assert any("fused as Attention" in reason for reason in told) == fused, (dims, told)
        stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        (got,), (expected,) = session.run(None, feeds), stock.run(None, feeds)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=4e-3, atol=4e-3)
