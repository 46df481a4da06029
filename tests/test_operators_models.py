"""Whole models on a card: right answers, every node there, nothing copied but what goes in and comes out."""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from support.captured import captures
from support.cards import BOTH, card_session, count, empty_on_card, on_card, value_on_card

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `models` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from models import bert, gpt2, llama, minilm, t5, vit, whisper  # noqa: E402
from models.encoder import EncoderConfig  # noqa: E402
from models.weights import RandomWeights  # noqa: E402

ENCODER = EncoderConfig(layers=2, hidden=32, heads=4, intermediate=64, vocabulary=50, positions=16)
LLAMA = llama.LlamaConfig(layers=2, hidden=32, heads=4, kv_heads=2, intermediate=48, positions=16)
GPT2 = gpt2.Gpt2Config(layers=2, hidden=32, heads=4, vocabulary=50, positions=16)
T5 = t5.T5Config(
    layers=2, hidden=32, heads=4, head_size=8, intermediate=64, vocabulary=50, buckets=8, distance=16
)
VIT = vit.VitConfig(layers=2, hidden=32, heads=4, intermediate=64, image=16, patch=4, classes=10)
WHISPER = whisper.WhisperConfig(layers=2, hidden=32, heads=4, intermediate=64, mels=8, positions=20)

Feeds = dict[str, npt.NDArray[Any]]


class SmallTensors(dict[str, Any]):
    """Random weights of whatever shape an encoder of ENCODER asks for."""

    def __init__(self) -> None:
        super().__init__()
        self._random = RandomWeights(1)

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        hidden, wide = ENCODER.hidden, ENCODER.intermediate
        shapes = {
            "word_embeddings.weight": (ENCODER.vocabulary, hidden),
            "token_type_embeddings.weight": (ENCODER.types, hidden),
            "position_embeddings.weight": (ENCODER.positions, hidden),
            "intermediate.dense.weight": (wide, hidden),
            "intermediate.dense.bias": (wide,),
        }
        shape = next((shape for end, shape in shapes.items() if name.endswith(end)), None)
        if shape is None and name.endswith("weight") and "LayerNorm" not in name:
            inside = wide if name.endswith("output.dense.weight") and "attention" not in name else hidden
            shape = (hidden, inside)
        self[name] = self._random.normal(*(shape or (hidden,)), scale=0.2)
        return self[name]


def small_minilm() -> onnx.ModelProto:
    minilm.CONFIG = ENCODER
    minilm.files = lambda: ROOT
    minilm.read_safetensors = lambda path: SmallTensors()  # type: ignore[assignment]
    return minilm.build()


def encoder_feeds(batch: int, length: int) -> Feeds:
    rng = np.random.default_rng(batch)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 :] = 0
    return {
        "input_ids": rng.integers(0, ENCODER.vocabulary, (batch, length)),
        "attention_mask": mask,
        "token_type_ids": rng.integers(0, ENCODER.types, (batch, length)),
    }


def profiled() -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = f"/tmp/tunableop-models-{np.random.default_rng().integers(1 << 60)}"
    return settings


def copies(session: ort.InferenceSession) -> Counter[str]:
    """Memcpy nodes of all runs, by a session that was made with `profiled`."""
    path = Path(session.end_profiling())
    events = json.loads(path.read_text())
    path.unlink()
    names = [
        e["args"]["op_name"] for e in events if e.get("cat") == "Node" and "op_name" in e.get("args", {})
    ]
    assert len(names) > 20
    return Counter(name for name in names if name.startswith("Memcpy"))


def check(
    proto: onnx.ModelProto, some: list[Feeds], tolerance: float, **options: Any
) -> ort.InferenceSession:
    """The card's answers are the CPU provider's, with no copies inside."""
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    session = card_session(proto, settings=profiled(), claim="all", **options)
    for feeds in some:
        for got, expected in zip(session.run(None, feeds), stock.run(None, feeds), strict=True):
            assert got.dtype == expected.dtype
            largest = max(1.0, float(np.abs(expected.astype(np.float64)).max()))
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest)
    told = tunableop.explain(session)
    assert not copies(session), str(told)
    kernels = {node.reason for node in told.operators if not node.claimed}
    assert all("stays on the CPU" in reason for reason in kernels), str(told)
    return session


@on_card(*BOTH)
def test_bert_stays_on_the_card() -> None:
    for sizes in ({}, {"batch": 2, "sequence": 12}):
        feeds = [encoder_feeds(2, 12)] + ([encoder_feeds(1, 16), encoder_feeds(3, 5)] if not sizes else [])
        check(bert.build(ENCODER, seed=3, **sizes), feeds, 1e-5)
    check(bert.build(ENCODER, seed=3, dtype=np.float16), [encoder_feeds(2, 12)], 4e-3)


@on_card(*BOTH)
def test_minilm_stays_on_the_card() -> None:
    check(small_minilm(), [encoder_feeds(2, 12), encoder_feeds(1, 16), encoder_feeds(4, 3)], 1e-5)


@on_card("cuda13")
def test_with_bound_inputs_and_outputs_nothing_is_copied_at_all() -> None:
    proto = bert.build(ENCODER, seed=3)
    feeds = encoder_feeds(2, 12)
    session = card_session(proto, claim="all")
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, value_on_card(array))
    out = empty_on_card((2, 12, ENCODER.hidden), np.float32)
    binding.bind_ortvalue_output("last_hidden_state", out)
    session.run_with_iobinding(binding)
    before = count("copies")
    session.run_with_iobinding(binding)
    assert count("copies") == before
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(out.numpy(), stock.run(None, feeds)[0], rtol=1e-5, atol=1e-5)


@on_card(*BOTH)
def test_a_decoder_stays_on_the_card() -> None:
    proto = llama.build(LLAMA, batch=None, sequence=None, past=None, seed=1)
    feeds: Feeds = llama.decode_feed(LLAMA, batch=2, sequence=3, past=4)
    check(proto, [feeds], 2e-5)


def token_feeds(batch: int, length: int) -> Feeds:
    feeds = encoder_feeds(batch, length)
    return {name: feeds[name] for name in ("input_ids", "attention_mask")}


def t5_feeds(batch: int, length: int, target: int) -> Feeds:
    targets = np.random.default_rng(target).integers(0, T5.vocabulary, (batch, target))
    return token_feeds(batch, length) | {"decoder_input_ids": targets}


def noise(name: str, *shape: int) -> Feeds:
    return {name: np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)}


HALVES = 6e-3  # what the CPU provider calculates in float between the roundings


def check_both(build: Any, some: list[Feeds], fixed: dict[str, int]) -> None:
    """fp32 with free sizes and with those of the first feeds, and fp16."""
    check(build(seed=3), some, 2e-5)
    check(build(seed=3, **fixed), some[:1], 2e-5)
    halves = [
        {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in feeds.items()} for feeds in some
    ]
    check(build(seed=3, dtype=np.float16), halves, HALVES)


@on_card(*BOTH)
def test_a_vision_transformer_stays_on_the_card() -> None:
    some = [noise("pixel_values", batch, 3, 16, 16) for batch in (3, 1)]
    check_both(functools.partial(vit.build, VIT), some, {"batch": 3})


@on_card(*BOTH)
def test_an_encoder_of_sound_stays_on_the_card() -> None:
    some = [noise("input_features", 2, 8, 24), noise("input_features", 3, 8, 7)]
    check_both(functools.partial(whisper.build, WHISPER), some, {"batch": 2, "frames": 24})


@on_card(*BOTH)
def test_a_decoder_that_counts_its_positions_stays_on_the_card() -> None:
    check_both(
        functools.partial(gpt2.build, GPT2),
        [token_feeds(2, 12), token_feeds(3, 5), token_feeds(1, 16)],
        {"batch": 2, "sequence": 12},
    )


@on_card(*BOTH)
def test_an_encoder_and_a_decoder_stay_on_the_card() -> None:
    check_both(
        functools.partial(t5.build, T5),
        [t5_feeds(2, 12, 7), t5_feeds(3, 5, 9), t5_feeds(1, 30, 1)],
        {"batch": 2, "sequence": 12, "target": 7},
    )


@on_card("cuda13")
def test_products_inside_of_a_convolution_are_measured_and_kept() -> None:
    session = card_session(vit.build(VIT, seed=3), claim="all", tuning="online", max_tuning_ms=5)
    feeds = noise("pixel_values", 3, 3, 16, 16)
    first = session.run(None, feeds)
    entries = [entry for one in tunableop.get_tuning_results(session)["machines"] for entry in one["entries"]]
    assert (32, 16, 48, 3) in [tuple(entry[key] for key in ("m", "n", "k", "batch")) for entry in entries]
    misses = tunableop.stats(session).misses
    for got, expected in zip(session.run(None, feeds), first, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert tunableop.stats(session).misses == misses


@captures
@on_card(*BOTH)
def test_models_with_graphs_are_right_for_any_sequence_of_shapes() -> None:
    for proto, some in (
        (vit.build(VIT, seed=3), [noise("pixel_values", batch, 3, 16, 16) for batch in (3, 1)]),
        (
            whisper.build(WHISPER, seed=3),
            [noise("input_features", 2, 8, 24), noise("input_features", 3, 8, 7)],
        ),
        (gpt2.build(GPT2, seed=3), [token_feeds(2, 12), token_feeds(3, 5)]),
        (t5.build(T5, seed=3), [t5_feeds(2, 12, 7), t5_feeds(3, 5, 9)]),
    ):
        stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        session = tunableop.InferenceSession(proto, claim="all", enable_graph=True, tuning="off")
        expected = [stock.run(None, feeds) for feeds in some]
        for turn in np.random.default_rng(1).integers(0, len(some), 14):
            for got, wanted in zip(session.run(None, some[turn]), expected[turn], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-4)
        graphs = tunableop.stats(session).graphs
        assert graphs.refused == {} or not graphs.refused, graphs
        assert graphs.replayed > 5, graphs
