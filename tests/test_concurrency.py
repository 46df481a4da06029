"""Many threads, many sessions: right answers while kernels are measured, nothing shared that must not be."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import graph, matmul_model, model, value
from support.sessions import Feeds, calls, ours, quick_session, random
from support.tolerance import Array, Exact, assert_close, gemm, product

THREADS = 8
RUNS = 200
K, N = 72, 50
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 40, 48, 63, 64, 65)


def two_node_model() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """P = X @ W, and Q = Gemm(X, V, c) with V transposed."""
    weights = {"W": random((K, N), 1), "V": random((N, K), 2), "c": random((N,), 3)}
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "W"], ["P"], name="matmul"),
        onnx.helper.make_node("Gemm", ["X", "V", "c"], ["Q"], name="gemm", transB=1, alpha=0.5),
    ]
    return model(graph(nodes, [value("X", ["m", K])], [value("P"), value("Q")], weights)), weights


class Work:
    """Inputs of every size with what must come out."""

    def __init__(self, seed: int = 0) -> None:
        self.model, weights = two_node_model()
        self.cases: list[tuple[Array, list[tuple[Exact, Exact]]]] = []
        for m in SIZES:
            x = random((m, K), seed + m)
            p = product(x, weights["W"])
            q = gemm(x, weights["V"], weights["c"], alpha=0.5, trans_a=False, trans_b=True)
            self.cases.append((x, [p, q]))

    def check(self, session: ort.InferenceSession, indices: Iterable[int]) -> None:
        """One run for each index, which picks a size."""
        for index in indices:
            self.compare(index, session.run(None, {"X": self.cases[index % len(self.cases)][0]}))

    def compare(self, index: int, outputs: list[Array]) -> None:
        x, expected = self.cases[index % len(self.cases)]
        for got, (exact, bound) in zip(outputs, expected, strict=True):
            assert_close(got, exact, bound, f"m = {len(x)}")


def in_threads(work: Callable[[int], Any], threads: int = THREADS) -> None:
    """Runs `work(thread)` in that many threads, all let go at once; the first error is raised."""
    barrier = threading.Barrier(threads)

    def start(thread: int) -> None:
        barrier.wait()
        work(thread)

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(start, thread) for thread in range(threads)]:
            done.result()


@pytest.mark.parametrize("candidates", ["default", "all"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_runs_are_right_while_other_threads_measure(seed: int, candidates: str) -> None:
    work = Work(seed)
    session = quick_session(work.model, candidates=candidates, max_tuning_ms=5.0)
    order = np.random.default_rng(seed)
    picks = order.integers(0, len(SIZES), (THREADS, RUNS))
    in_threads(lambda thread: work.check(session, picks[thread]))

    counters = tunableop.stats(session)
    assert counters.hits + counters.misses == 2 * THREADS * RUNS
    assert counters.misses == counters.tuned + counters.fallbacks.get("tuner_busy", 0)
    assert counters.tuned <= counters.entries <= 2 * len(SIZES) * 2  # each output may lie in two ways
    assert counters.denied == 0


@pytest.mark.parametrize("tuning", ["off", "cached"])
def test_runs_are_right_on_the_default_kernels(tuning: str) -> None:
    work = Work()
    session = quick_session(work.model, tuning=tuning)
    in_threads(lambda thread: work.check(session, range(thread, thread + RUNS)))
    counters = tunableop.stats(session)
    assert counters.tuned == 0
    assert sum(counters.fallbacks.values()) == 2 * THREADS * RUNS


def test_runs_are_right_with_more_than_one_library(openblas: str) -> None:
    work = Work()
    session = quick_session(work.model, candidates="all", max_tuning_ms=20.0, min_gain=0.0)
    in_threads(lambda thread: work.check(session, range(thread * 31, thread * 31 + RUNS // 2)))
    assert {shape.kernel.split(":")[0] for shape in tunableop.explain(session).shapes} <= {
        "native",
        "openblas",
    }


def test_runs_are_right_with_a_cache_too_small_for_the_shapes() -> None:
    """Entries are dropped while other threads run them."""
    work = Work()
    session = quick_session(work.model, cache_size=4, max_tuning_ms=0.5)
    in_threads(lambda thread: work.check(session, range(thread * 17, thread * 17 + RUNS)))
    counters = tunableop.stats(session)
    assert counters.evicted > 0
    assert len(tunableop.explain(session).shapes) <= 4


def test_questions_and_saving_during_runs(tmp_path: Path) -> None:
    work = Work()
    session = quick_session(work.model, cache=tmp_path / "own.json")
    stop = threading.Event()
    files = [tmp_path / "a.json", tmp_path / "b.json"]

    def ask(thread: int) -> None:
        while not stop.is_set():
            tunableop.stats(session)
            assert str(tunableop.explain(session))
            tunableop.save_cache(session, files[thread % 2])
            assert tunableop.load_cache(session, files[thread % 2]) == []
            assert tunableop.set_tuning_results(session, tunableop.get_tuning_results(session)) == []

    def both(thread: int) -> None:
        if thread < 2:
            ask(thread)
            return
        try:
            work.check(session, range(thread * 13, thread * 13 + RUNS // 2))
        finally:
            if thread == 2:
                stop.set()

    in_threads(both, 5)
    for file in files:
        assert json.loads(file.read_text())["schema"] == 2


def test_two_sessions_never_mix_what_they_know(tmp_path: Path) -> None:
    """Even places of SIZES go to one session, odd ones to the other."""
    work = Work()
    files = [tmp_path / "even.json", tmp_path / "odd.json"]
    sessions = [quick_session(work.model, cache=file) for file in files]
    indices = [range(parity, len(SIZES), 2) for parity in (0, 1)]
    in_threads(lambda thread: work.check(sessions[thread % 2], indices[thread % 2]), 4)
    for session, own in zip(sessions, indices, strict=True):
        work.check(session, own)  # what was met while another thread measured is measured now
        sizes = {SIZES[i] for i in own}
        assert {shape.m for shape in tunableop.explain(session).shapes} == sizes
        assert calls(session) == 2 * 3 * len(own)
        assert sizes_in(tunableop.get_tuning_results(session)) == sizes
    del session
    sessions.clear()
    gc.collect()
    for file, own in zip(files, indices, strict=True):
        assert sizes_in(json.loads(file.read_text())) == {SIZES[i] for i in own}


def sizes_in(results: dict[str, Any]) -> set[int]:
    return {entry["m"] for machine in results["machines"] for entry in machine["entries"]}


def test_parallel_execution_mode_runs_nodes_side_by_side() -> None:
    branches = 8
    weights = {f"W{i}": random((K, N), i) for i in range(branches)}
    nodes = [onnx.helper.make_node("MatMul", ["X", name], [f"P{name}"], name=name) for name in weights]
    nodes.append(onnx.helper.make_node("Sum", [f"P{name}" for name in weights], ["Y"], name="sum"))
    options = ort.SessionOptions()
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 4
    wide = model(graph(nodes, [value("X", ["m", K])], [value("Y")], weights))
    session = quick_session(wide, sess_options=options)
    assert len(ours(session)) == branches
    total = sum(weights.values())

    def run(thread: int) -> None:
        for m in (thread + 1, thread + 20):
            x = random((m, K), m)
            for _ in range(5):
                got = session.run(None, {"X": x})[0]
                np.testing.assert_allclose(got, x @ total, rtol=1e-3, atol=1e-3)

    in_threads(run, 4)
    assert calls(session) == 4 * 10 * branches


def test_many_short_lived_sessions_on_several_threads() -> None:
    work = Work()

    def live_and_die(thread: int) -> None:
        for run in range(12):
            work.check(quick_session(work.model, max_tuning_ms=0.5), [thread + run])

    in_threads(live_and_die, 4)
    gc.collect()


def test_the_first_sessions_of_a_process_may_be_made_at_once() -> None:
    from support.process import run_python

    run_python("""
    import threading
    barrier = threading.Barrier(8)
    errors = []
    def make():
        barrier.wait()
        try:
            right(tunableop.InferenceSession(MODEL))
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=make) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors, errors
    """)


def test_run_async_gives_every_caller_its_own_answer() -> None:
    work = Work()
    session = quick_session(work.model)
    total = 300
    answers: dict[int, list[Array]] = {}
    errors: list[str] = []
    lock, finished = threading.Lock(), threading.Event()

    def done(outputs: list[Array], index: int, error: str) -> None:
        with lock:
            if error:
                errors.append(error)
            answers[index] = outputs
            if len(answers) == total:
                finished.set()

    for index in range(total):
        x = work.cases[index % len(SIZES)][0]
        session.run_async(None, {"X": x}, done, index)
    assert finished.wait(60), f"{len(answers)} of {total} answers came"
    assert not errors
    for index, outputs in answers.items():
        work.compare(index, outputs)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_any_size_of_the_thread_pool(threads: int) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = quick_session(
        matmul_model([None, 300], None, constants={"B": random((300, 260), 1)}), sess_options=options
    )
    for m in (1, 7, 64, 200):
        x = random((m, 300), m)
        feeds: Feeds = {"A": x}
        for _ in range(2):
            assert_close(session.run(None, feeds)[0], *product(x, random((300, 260), 1)))
    known = tunableop.get_tuning_results(session)["machines"][0]["entries"]
    assert {entry["threads"] for entry in known} == {threads}
