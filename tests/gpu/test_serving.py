"""Sessions on a card as they are served: many threads, bound inputs, saved results, modes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper
from support.graphs import graph, matmul_model, model, value
from support.process import run_python
from support.sessions import EP, assigned, quick_session, random
from support.tolerance import Exact, assert_close, product

from .conftest import Card

K, N = 96, 80
SHAPES = (1, 3, 8, 17, 64, 130)
THREADS = 6


class Chain:
    """relu(x W1) W2 + v: products of ours with operators of others between them, for any number of rows."""

    def __init__(self) -> None:
        self.w1, self.w2 = random((K, N), 1), random((N, K), 2)
        self.v = random((K,), 3)
        nodes = [
            helper.make_node("MatMul", ["X", "W1"], ["P"]),
            helper.make_node("Relu", ["P"], ["R"]),
            helper.make_node("Gemm", ["R", "W2", "V"], ["Y"]),
        ]
        weights = {"W1": self.w1, "W2": self.w2, "V": self.v}
        self.model = model(graph(nodes, [value("X", ["m", K])], [value("Y", ["m", K])], weights))

    def right(self, x: npt.NDArray[np.float32]) -> tuple[Exact, Exact]:
        first, bound = product(x, self.w1)
        hidden = np.maximum(first, 0.0)
        exact = hidden @ self.w2.astype(np.float64) + self.v
        through = bound @ np.abs(self.w2).astype(np.float64)
        own = product(hidden.astype(np.float32), self.w2)[1]
        return exact, through + own + 1e-6 * np.abs(exact) + 1e-6


@pytest.mark.parametrize("tuning", ["online", "off", "background"])
def test_many_threads_get_their_own_answers(
    card: Card, others: list[Any], tuning: str, request: pytest.FixtureRequest
) -> None:
    chain = Chain()
    session = quick_session(chain.model, device=card.id, providers=others, tuning=tuning)
    rounds = 25 if card.simulated else 150
    inputs = [random((m, K), seed) for seed, m in enumerate(SHAPES)]
    answers = [chain.right(x) for x in inputs]
    wrong: list[str] = []
    barrier = threading.Barrier(THREADS)

    def serve(thread: int) -> None:
        barrier.wait()
        for at in range(rounds):
            which = (thread + at) % len(SHAPES)
            try:
                (got,) = session.run(None, {"X": inputs[which]})
                assert_close(got, *answers[which], f"thread {thread}, run {at}, m={SHAPES[which]}")
            except BaseException as error:
                wrong.append(str(error))

    threads = [threading.Thread(target=serve, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} of {THREADS * rounds} runs: {wrong[0]}"
    for x, (exact, bound) in zip(inputs, answers, strict=True):  # what met a busy tuner every time
        assert_close(session.run(None, {"X": x})[0], exact, bound)
    counters = tunableop.stats(session)
    assert counters.denied == 0, tunableop.explain(session)
    if tuning == "online":
        assert counters.tuned == 2 * len(SHAPES)


def test_sessions_of_many_threads_and_one_card(card: Card) -> None:
    """Each has its stream, its workspace and its memory."""
    chain = Chain()
    wrong: list[str] = []

    def serve(seed: int) -> None:
        try:
            session = quick_session(chain.model, device=card.id)
            for m in SHAPES:
                x = random((m, K), seed)
                assert_close(session.run(None, {"X": x})[0], *chain.right(x), f"session {seed}, m={m}")
        except BaseException as error:
            wrong.append(str(error))

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


SECOND = """
session = tunableop.InferenceSession(sys.argv[1], device=sys.argv[2], cache=sys.argv[3], tuning="online")
x = np.random.default_rng(0).standard_normal((17, int(sys.argv[4])), dtype=np.float32)
np.save(sys.argv[5], session.run(None, {"X": x})[0])
counters = tunableop.stats(session)
assert (counters.tuned, counters.misses) == (0, 0), (counters, str(tunableop.explain(session)))
assert counters.hits == 2, counters
"""


def test_a_second_process_measures_nothing(card: Card, tmp_path: Path) -> None:
    chain = Chain()
    path, cache, out = (tmp_path / name for name in ("model.onnx", "cache.json", "y.npy"))
    onnx.save(chain.model, str(path))
    x = np.random.default_rng(0).standard_normal((17, K), dtype=np.float32)
    session = tunableop.InferenceSession(path, device=card.id, cache=cache)
    first = session.run(None, {"X": x})[0]
    assert tunableop.stats(session).tuned == 2
    kernels = {shape.problem: shape.kernel for shape in tunableop.explain(session).shapes}
    del session
    run_python(SECOND, str(path), card.id, str(cache), str(K), str(out))
    assert_close(np.load(out), *chain.right(x))
    assert_close(first, *chain.right(x))
    again = tunableop.InferenceSession(path, device=card.id, cache=cache, tuning="cached")
    again.run(None, {"X": x})
    assert {shape.problem: shape.kernel for shape in tunableop.explain(again).shapes} == kernels
    assert tunableop.stats(again).hits == 2


def test_results_of_a_card_are_kept_under_the_card_and_not_the_cpu(card: Card, tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    a, b = random((5, 8), 1), random((8, 6), 2)
    built = matmul_model(["m", 8], None, constants={"B": b})
    for device in (card.id, "cpu"):
        session = quick_session(built, device=device, cache=cache)
        assert_close(session.run(None, {"A": a})[0], *product(a, b))
        tunableop.save_cache(session, cache)
        assert tunableop.stats(session).tuned == 1
    for device in (card.id, "cpu"):
        session = tunableop.InferenceSession(built, device=device, cache=cache, tuning="cached")
        assert_close(session.run(None, {"A": a})[0], *product(a, b))
        assert tunableop.stats(session).hits == 1


def test_tuning_before_deployment(card: Card, tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    chain = Chain()
    summary = tunableop.tune(chain.model, shapes={"X": [9, K]}, cache=cache, device=card.id, max_tuning_ms=20)
    assert summary.tuned == 2
    session = tunableop.InferenceSession(chain.model, device=card.id, cache=cache, tuning="cached")
    x = random((9, K), 4)
    assert_close(session.run(None, {"X": x})[0], *chain.right(x))
    assert (tunableop.stats(session).hits, tunableop.stats(session).misses) == (2, 0)


def test_bound_inputs_and_outputs_on_the_card(card: Card, others: list[Any]) -> None:
    a, b = random((33, K), 1), random((K, N), 2)
    built = matmul_model(["m", K], ["k", N])
    session = quick_session(built, device=card.id, providers=others, claim="gemm")
    left, right = (ort.OrtValue.ortvalue_from_numpy(x, *card.memory) for x in (a, b))
    result = ort.OrtValue.ortvalue_from_numpy(np.zeros((33, N), np.float32), *card.memory)
    binding = session.io_binding()
    binding.bind_ortvalue_input("A", left)
    binding.bind_ortvalue_input("B", right)
    binding.bind_ortvalue_output("Y", result)
    for _ in range(3):
        session.run_with_iobinding(binding)
        assert_close(result.numpy(), *product(a, b))
    other = random((33, K), 9)
    left.update_inplace(other)
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    assert_close(result.numpy(), *product(other, b))


def test_every_mode_on_a_live_session(card: Card) -> None:
    chain = Chain()
    session = quick_session(chain.model, device=card.id, tuning="off")
    x = random((17, K), 5)
    for mode in ("off", "record", "cached", "background", "online", "off"):
        tunableop.set_tuning(session, mode)
        for _ in range(2):
            assert_close(session.run(None, {"X": x})[0], *chain.right(x), mode)
    assert tunableop.stats(session).denied == 0


def test_a_model_that_no_node_of_is_ours_runs_on(card: Card, others: list[Any]) -> None:
    built = model(graph([helper.make_node("Relu", ["X"], ["Y"])], [value("X", [4])], [value("Y", [4])]))
    session = tunableop.InferenceSession(built, device=card.id, providers=others, claim="gemm")
    assert EP not in {provider for provider, _, _ in assigned(session)}
    np.testing.assert_array_equal(
        session.run(None, {"X": np.array([-1, 2, -3, 4], np.float32)})[0], [0, 2, 0, 4]
    )
