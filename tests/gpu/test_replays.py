"""Graphs on a card: thousands of runs in random order of shapes, contents, threads, and failures between."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
import test_operators_models as models
from onnx import TensorProto, helper
from support.graphs import graph, model, value

from models import bert

REAL_RUNS = 3000
SHAPES = [(batch, length) for batch in (1, 2, 3) for length in (1, 5, 12, 16)]


@pytest.fixture
def runs(card: Any) -> int:
    """How many: a simulated card is slow."""
    return 400 if card.simulated else REAL_RUNS


def made(proto: onnx.ModelProto, **options: Any) -> tunableop.InferenceSession:
    session = tunableop.InferenceSession(
        proto, claim="all", enable_graph=True, providers=["CPUExecutionProvider"], **options
    )
    if not tunableop.stats(session).graphs.enabled:
        pytest.skip("this onnxruntime captures no graphs of plugin providers: 1.26 does")
    return session


def free_bytes(card: Any) -> int | None:
    """Of the card; None: a simulated one, or HIP's, has no such count here."""
    for name in ("libcudart.so.13", "libcudart.so.12"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if card.backend == "cuda" and not card.simulated:
            assert library.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
            return free.value
    return None


def test_random_shapes_contents_and_threads(card: Any, runs: int) -> None:
    proto = bert.build(models.ENCODER, seed=3)
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    known: list[tuple[models.Feeds, Any]] = []
    for shape in SHAPES:
        for seed in range(3):
            feeds = models.encoder_feeds(*shape)
            feeds["input_ids"] = np.random.default_rng(seed).integers(0, models.ENCODER.vocabulary, shape)
            known.append((feeds, stock.run(None, feeds)[0]))
    session = made(proto, max_graphs=5, tuning="background")
    wrong: list[str] = []
    before: list[int | None] = []

    def work(seed: int, times: int) -> None:
        rng = np.random.default_rng(seed)
        at = 0
        for turn in range(times):
            at = at if rng.random() < 0.6 else int(rng.integers(len(known)))
            feeds, expected = known[at]
            got = session.run(None, feeds)[0]
            close = got.shape == expected.shape and np.allclose(got, expected, rtol=1e-5, atol=2e-5)
            if not close:
                wrong.append(f"thread {seed}, turn {turn}, shape {expected.shape}")

    def all_threads(times: int) -> None:
        threads = [threading.Thread(target=work, args=(seed, times)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    all_threads(runs // 8)
    before.append(free_bytes(card))
    all_threads(runs // 8)
    assert not wrong, wrong[:5]
    stats = tunableop.stats(session).graphs
    assert stats.alive <= 5
    assert stats.bytes <= stats.graph_memory
    assert stats.replayed > runs // 6, stats
    assert stats.evicted > 0, stats
    after = free_bytes(card)
    if before[0] is not None and after is not None:
        assert before[0] - after < 64 << 20, f"{(before[0] - after) / 1e6:.1f} MB more are taken"


def test_a_run_that_fails_in_the_middle_changes_no_other(card: Any, runs: int) -> None:
    """The second product's sizes do not fit for some inputs; what came before it has run by then."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "V"], ["Y"]),
    ]
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((8, 8), dtype=np.float32)
    proto = model(
        graph(
            nodes,
            [value("X", ["n", 8], TensorProto.FLOAT), value("V", ["r", "c"], TensorProto.FLOAT)],
            [value("Y", None, TensorProto.FLOAT)],
            {"W": weight},
        )
    )
    session = made(proto, max_graphs=3)
    failed = 0
    for _ in range(runs // 3):
        x = rng.standard_normal((int(rng.integers(1, 5)), 8), dtype=np.float32)
        rows = int(rng.choice([7, 8, 8, 8]))
        v = rng.standard_normal((rows, 6), dtype=np.float32)
        if rows == 8:
            (y,) = session.run(None, {"X": x, "V": v})
            np.testing.assert_allclose(y, np.tanh(x @ weight) @ v, rtol=1e-4, atol=1e-4)
            continue
        with pytest.raises(Exception, match="must be equal"):
            session.run(None, {"X": x, "V": v})
        failed += 1
    assert failed > 0
    assert tunableop.stats(session).graphs.replayed > runs // 12
