"""A decoder of com.microsoft's operators on a card: a prompt, then tokens one by one, with what is kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper, numpy_helper
from support.captured import captures
from support.cards import BOTH, card_session, count, empty_on_card, on_card, value_on_card

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `models` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from models.weights import RandomWeights  # noqa: E402

Array = npt.NDArray[Any]
LAYERS, HIDDEN, HEADS, KV_HEADS, SIZE, PLACES = 2, 32, 4, 2, 16, 24


def decoder(*, room: int | str, dtype: Any = np.float32, packed: bool = False) -> onnx.ModelProto:
    """Layers of one norm, one attention and one product each, as exporters of decoders write them.

    How long each batch is comes of its mask; the longest one of the mask's shape.
    """
    rng = RandomWeights(5)
    kind = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    weights: dict[str, Array] = {
        "one": np.array([1], np.int64),
        "last": np.array([1], np.int64),
        "place": np.array(1, np.int64),
    }
    angles = np.outer(np.arange(PLACES), 100.0 ** -(np.arange(0, SIZE, 2) / SIZE))
    weights["cos"], weights["sin"] = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    nodes = [
        helper.make_node("ReduceSum", ["mask", "last"], ["seen"], keepdims=0),
        helper.make_node("Sub", ["seen", "one"], ["before"]),
        helper.make_node("Cast", ["before"], ["lengths"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "place"], ["longest"]),
        helper.make_node("Cast", ["longest"], ["total"], to=TensorProto.INT32),
    ]
    inputs = [
        helper.make_tensor_value_info("x", kind, ["batch", "sequence", HIDDEN]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"]),
    ]
    outputs = [helper.make_tensor_value_info("y", kind, ["batch", "sequence", HIDDEN])]
    state = "x"
    for i in range(LAYERS):
        weights[f"gain{i}"] = rng.near_one(HIDDEN).astype(dtype)
        weights[f"o{i}"] = rng.normal(HEADS * SIZE, HIDDEN, scale=0.2).astype(dtype)
        nodes.append(
            helper.make_node("SimplifiedLayerNormalization", [state, f"gain{i}"], [f"n{i}"], axis=-1)
        )
        widths = {"qkv": HEADS + 2 * KV_HEADS} if packed else {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
        for part, heads in widths.items():
            weights[f"w{part}{i}"] = rng.normal(HIDDEN, heads * SIZE, scale=0.3).astype(dtype)
            nodes.append(helper.make_node("MatMul", [f"n{i}", f"w{part}{i}"], [f"{part}{i}"]))
        given = [f"qkv{i}", "", ""] if packed else [f"q{i}", f"k{i}", f"v{i}"]
        past = [f"past_key_{i}", f"past_value_{i}"]
        present = [f"present_key_{i}", f"present_value_{i}"]
        nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*given, *past, "lengths", "total", "cos", "sin"],
                [f"a{i}", *present],
                domain="com.microsoft",
                num_heads=HEADS,
                kv_num_heads=KV_HEADS,
                do_rotary=1,
            )
        )
        nodes.append(helper.make_node("MatMul", [f"a{i}", f"o{i}"], [f"m{i}"]))
        after = "y" if i == LAYERS - 1 else f"s{i}"
        nodes.append(helper.make_node("Add", [state, f"m{i}"], [after]))
        state = after
        for name in past:
            inputs.append(helper.make_tensor_value_info(name, kind, ["batch", KV_HEADS, room, SIZE]))
        for name in present:
            outputs.append(helper.make_tensor_value_info(name, kind, ["batch", KV_HEADS, "kept", SIZE]))
    graph = helper.make_graph(
        nodes,
        "decoder",
        inputs,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def step(lengths: Sequence[int], fresh: int, dtype: Any, seed: int) -> dict[str, Array]:
    """`fresh` tokens of each batch, the last of so many."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    return {"x": rng.standard_normal((len(lengths), fresh, HIDDEN)).astype(dtype), "mask": mask}


def pasts() -> list[str]:
    return [f"past_{kind}_{i}" for i in range(LAYERS) for kind in ("key", "value")]


@on_card(*BOTH)
def test_a_prompt_and_what_follows() -> None:
    for dtype, packed in ((np.float32, False), (np.float32, True), (np.float16, False)):
        proto = decoder(room="room", dtype=dtype, packed=packed)
        ours = card_session(proto, claim="all")
        stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        tolerance = 2e-5 if dtype == np.float32 else 6e-3
        kept = {name: np.zeros((2, KV_HEADS, 0, SIZE), dtype) for name in pasts()}
        for turn, (lengths, fresh) in enumerate((((6, 6), 6), ((7, 7), 1), ((8, 8), 1))):
            feeds = step(lengths, fresh, dtype, turn) | kept
            got, expected = ours.run(None, feeds), stock.run(None, feeds)
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * 4)
            kept = dict(zip(pasts(), expected[1:], strict=True))
        told = tunableop.explain(ours)
        reasons = {node.reason for node in told.operators if not node.claimed}
        assert all("stays on the CPU" in reason for reason in reasons), str(told)


@captures
@on_card(*BOTH)
def test_a_step_of_one_size_is_replayed() -> None:
    proto = decoder(room="room")
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    session = tunableop.InferenceSession(proto, claim="all", enable_graph=True, tuning="off")
    for turn in range(8):
        # As many tokens in all, of which each batch has its own number.
        lengths = ((8, 8), (8, 5), (8, 3))[turn % 3]
        feeds = step(lengths, 1, np.float32, turn)
        rng = np.random.default_rng(turn)
        for name in pasts():
            feeds[name] = rng.standard_normal((2, KV_HEADS, 7, SIZE)).astype(np.float32)
        got, expected = session.run(None, feeds), stock.run(None, feeds)
        np.testing.assert_allclose(got[0], expected[0], rtol=2e-5, atol=1e-4)
    graphs = tunableop.stats(session).graphs
    assert graphs.replayed > 3, graphs


@on_card(*BOTH)
def test_what_is_kept_stays_in_one_buffer_on_the_card() -> None:
    room = 12
    proto = decoder(room=room)
    ours = card_session(proto, claim="all")
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    kept = {name: np.zeros((2, KV_HEADS, room, SIZE), np.float32) for name in pasts()}
    buffers = {name: value_on_card(array) for name, array in kept.items()}
    copies = 0
    for turn, (lengths, fresh) in enumerate((((5, 3), 5), ((6, 4), 1), ((7, 5), 1), ((8, 6), 1))):
        feeds = step(lengths, fresh, np.float32, turn)
        expected = stock.run(None, feeds | kept)
        binding = ours.io_binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, value_on_card(array))
        for name, buffer in buffers.items():
            binding.bind_ortvalue_input(name, buffer)
            binding.bind_ortvalue_output(name.replace("past", "present"), buffer)
        out = empty_on_card((2, fresh, HIDDEN), np.float32)
        binding.bind_ortvalue_output("y", out)
        before = count("copies")
        ours.run_with_iobinding(binding)
        copies = count("copies") - before
        got = out.numpy()
        for batch, length in enumerate(lengths):  # what is behind a batch's end is nothing
            tokens = min(fresh, length)
            np.testing.assert_allclose(got[batch, :tokens], expected[0][batch, :tokens], rtol=2e-5, atol=1e-4)
            for name, present in zip(pasts(), expected[1:], strict=True):
                mine = buffers[name].numpy()[batch, :, :length]
                np.testing.assert_allclose(mine, present[batch, :, :length], rtol=2e-5, atol=1e-4)
        kept = dict(zip(pasts(), expected[1:], strict=True))
    assert copies == 0
