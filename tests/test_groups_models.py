"""Whole models with and without groups; the documents' table of patterns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime_ep_tunableop._control import fusions
from support.cards import BOTH, card_session, on_card
from support.graphs import graph, if_model, value
from support.groups import fused, settings
from support.sessions import random
from test_operators_models import ENCODER, LLAMA, bert, check, encoder_feeds, llama, small_minilm

#: Nodes that a layer of an encoder gives to each pattern, attention aside.
LAYER = {"Add+Norm": 4, "Activation": 5}


@on_card(*BOTH)
def test_an_encoder_is_right_with_and_without_groups() -> None:
    some = [encoder_feeds(2, 12), encoder_feeds(1, 16)]
    for proto, tolerance in (
        (bert.build(ENCODER, seed=3), 1e-5),
        (bert.build(ENCODER, seed=3, dtype=np.float16), 4e-3),
        (small_minilm(), 1e-5),
    ):
        found = fused(check(proto, some, tolerance, fused_groups=1))
        for pattern, nodes in LAYER.items():
            assert found[pattern] == ENCODER.layers * nodes, found
        assert found["Gather+Norm"] == 6, found
        assert found["Cast+Mul"] == 3, found
        assert found["AttentionApart"] + found["Attention"] >= ENCODER.layers * 3, found
        assert not fused(check(proto, some, tolerance, fused_groups=0))


@on_card(*BOTH)
def test_a_decoder_is_right_with_and_without_groups() -> None:
    proto = llama.build(LLAMA, batch=None, sequence=None, past=None, seed=1)
    some = [llama.decode_feed(LLAMA, batch=batch, sequence=3, past=past) for batch, past in ((2, 4), (1, 7))]
    found = fused(check(proto, some, 2e-5, fused_groups=1))
    assert found["Rotary"] == LLAMA.layers * 2 * 7, found
    assert found["Activation+Mul"] == LLAMA.layers * 3, found
    # The first norm has no sum before it; each layer has one sum behind attention, and one at its end.
    assert found["Norm"] == 7, found
    assert found["Add+Norm"] == LLAMA.layers * 2 * 8, found
    assert not fused(check(proto, some, 2e-5, fused_groups=0))


@on_card(*BOTH)
def test_constants_of_the_graph_around_are_read_inside_of_branches() -> None:
    def branch(name: str, root: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node("Div", ["X", root], [f"{name}_a"]),
            helper.make_node("Erf", [f"{name}_a"], [f"{name}_b"]),
            helper.make_node("Add", [f"{name}_b", "one"], [f"{name}_c"]),
            helper.make_node("Mul", ["X", f"{name}_c"], [f"{name}_d"]),
            helper.make_node("Mul", [f"{name}_d", "half"], [f"{name}_e"]),
            helper.make_node("Add", [f"{name}_e", "X"], [f"{name}_f"]),
            helper.make_node("LayerNormalization", [f"{name}_f", "G", "B"], [f"{name}_g"], axis=-1),
        ]
        return graph(nodes, [], [value(f"{name}_g")], {f"{name}_root": np.array(2.0**0.5, np.float32)}, name)

    proto = if_model(branch("own", "own_root"), branch("outer", "root"), [value("X", ["n", 8])])
    constants = {
        "root": np.float32(2.0**0.5),
        "one": np.float32(1.0),
        "half": np.float32(0.5),
        "G": random((8,), 1),
        "B": random((8,), 2),
    }
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    session = card_session(proto, settings=settings(), claim="all")
    assert fused(session) == {"Activation": 10, "Add+Norm": 4}
    for flag in (True, False):
        feeds = {"flag": np.array(flag), "X": random((3, 8), 3)}
        expected = stock.run(None, feeds)[0]
        np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, atol=1e-5)


def test_the_documents_have_every_pattern() -> None:
    text = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = text.split("## Fusions", 1)[1].split("\n## ", 1)[0]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == list(dict.fromkeys(fusions()))
