"""Operators beside MatMul and Gemm on a card: every generated case; small models without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import test_operators_cases as cases
import test_operators_images as images
import test_operators_models as models
from support.operators import check

from models import bert, gpt2, llama, t5, vit, whisper


@pytest.fixture(autouse=True)
def _flavour(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the helpers of simulated cards go by."""
    monkeypatch.setenv("SIM_FLAVOUR", card.backend)


FAMILIES = cases.FAMILIES | images.FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_right(family: str) -> None:
    some = list(FAMILIES[family]())
    assert check(some).total() == len(some)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bert_stays_on_the_card(dtype: Any) -> None:
    feeds = [models.encoder_feeds(2, 12), models.encoder_feeds(1, 16), models.encoder_feeds(3, 5)]
    models.check(
        bert.build(models.ENCODER, seed=3, dtype=dtype), feeds, 1e-5 if dtype == np.float32 else 4e-3
    )


def test_minilm_stays_on_the_card() -> None:
    models.check(models.small_minilm(), [models.encoder_feeds(2, 12), models.encoder_feeds(4, 3)], 1e-5)


def test_a_decoder_stays_on_the_card() -> None:
    proto = llama.build(models.LLAMA, batch=None, sequence=None, past=None, seed=1)
    models.check(proto, [llama.decode_feed(models.LLAMA, batch=2, sequence=3, past=4)], 2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_models_with_convolutions_counted_positions_and_two_stacks_stay_on_the_card(dtype: Any) -> None:
    tolerance = 2e-5 if dtype == np.float32 else models.HALVES
    pixels, sound = models.noise("pixel_values", 3, 3, 16, 16), models.noise("input_features", 2, 8, 24)
    for build, config, feeds in (
        (vit.build, models.VIT, {k: v.astype(dtype) for k, v in pixels.items()}),
        (whisper.build, models.WHISPER, {k: v.astype(dtype) for k, v in sound.items()}),
        (gpt2.build, models.GPT2, models.token_feeds(2, 12)),
        (t5.build, models.T5, models.t5_feeds(2, 12, 7)),
    ):
        models.check(build(config, seed=3, dtype=dtype), [feeds], tolerance)


def test_bert_with_graphs_is_right_for_any_sequence_of_shapes() -> None:
    import onnxruntime_ep_tunableop as tunableop

    proto = bert.build(models.ENCODER, seed=3).SerializeToString()
    stock = ort.InferenceSession(proto, providers=["CPUExecutionProvider"])
    session = tunableop.InferenceSession(
        proto, claim="all", enable_graph=True, providers=["CPUExecutionProvider"]
    )
    shapes = [(2, 12), (1, 16), (3, 5)]
    for turn in np.random.default_rng(1).integers(0, len(shapes), 60):
        feeds = models.encoder_feeds(*shapes[turn])
        feeds["input_ids"] = np.random.default_rng().integers(0, 50, shapes[turn])
        np.testing.assert_allclose(
            session.run(None, feeds)[0], stock.run(None, feeds)[0], rtol=1e-5, atol=2e-5
        )
