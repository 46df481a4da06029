"""Whole models with and without groups; the documents' table of patterns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from onnxruntime_ep_tunableop._control import fusions
from support.cards import BOTH, on_card
from support.groups import fused
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
            # One more norm behind the embeddings.
            assert found[pattern] == ENCODER.layers * nodes + (2 if pattern == "Add+Norm" else 0), found
        assert found["Mask+Softmax"] + found["Attention"] >= ENCODER.layers * 3, found
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


def test_the_documents_have_every_pattern() -> None:
    text = (Path(__file__).parent.parent / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = text.split("## Fusions", 1)[1].split("\n## ", 1)[0]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == fusions()
