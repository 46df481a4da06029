"""tuning="background": requests are served at once, and measured on copies when nobody is served."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import gemm_model, matmul_model
from support.process import run_python
from support.sessions import random
from support.tolerance import assert_close, product
from support.waiting import until, until_stats

A, B = random((48, 96), 1), random((96, 80), 2)
MODEL = matmul_model(["m", 96], None, constants={"B": B})
EXPECTED = product(A, B)
#: Uses of a small product that repay a measurement for certain.
ENOUGH = 3000
BACKGROUND: dict[str, Any] = {"tuning": "background", "background_share": 1.0, "max_tuning_ms": 20.0}


def background(model: Any = MODEL, **options: Any) -> tunableop.InferenceSession:
    return tunableop.InferenceSession(model, **(BACKGROUND | options))


def run(session: ort.InferenceSession, a: Any = A, times: int = 1) -> None:
    for _ in range(times):
        session.run(None, {"A": a})


def test_requests_are_served_at_once_and_the_measured_choice_comes_later() -> None:
    session = background()
    assert_close(session.run(None, {"A": A})[0], *EXPECTED)
    first = tunableop.stats(session)
    assert (first.hits, first.misses, first.tuned, first.tuning) == (0, 1, 0, "background")
    assert first.fallbacks == {"not_worth_yet": 1}
    run(session, times=ENOUGH)
    until_stats(session, tuned=1)
    until_stats(session, pending=0)  # the thread has put it away, too
    before = tunableop.stats(session).hits
    assert_close(session.run(None, {"A": A})[0], *EXPECTED)
    after = tunableop.stats(session)
    assert after.hits == before + 1
    assert (after.pending, after.deferred) == (0, 0)
    assert after.tuning_seconds > 0
    (shape,) = tunableop.explain(session).shapes
    assert shape.tuned
    assert shape.milliseconds > 0


def test_a_shape_that_cannot_repay_its_tuning_is_not_measured() -> None:
    session = background()
    run(session, times=5)
    time.sleep(1.5)  # as long as the thread would need to find it
    stats = tunableop.stats(session)
    assert (stats.tuned, stats.pending, stats.deferred) == (0, 0, 1)
    assert stats.fallbacks == {"not_worth_yet": 5}


@pytest.mark.parametrize("kind", ["computed", "gemm", "bias", "addend", "batch"])
def test_every_kind_of_operand_is_copied(kind: str) -> None:
    c = random((48, 80), 5)
    if kind == "computed":
        model, feeds, (exact, bound) = matmul_model(["m", 96], [96, 80]), {"A": A, "B": B}, EXPECTED
    elif kind == "gemm":
        model = gemm_model(["m", 96], None, constants={"B": B}, with_c=False, alpha=1.0)
        feeds, (exact, bound) = {"A": A}, EXPECTED
    elif kind == "bias":
        bias = random((80,), 4)
        model = gemm_model(["m", 96], None, None, constants={"B": B, "C": bias})
        feeds, (exact, bound) = {"A": A}, (EXPECTED[0] + bias, EXPECTED[1])
    elif kind == "addend":
        model = gemm_model(["m", 96], None, ["m", 80], constants={"B": B}, beta=0.5)
        feeds, (exact, bound) = {"A": A, "C": c}, (EXPECTED[0] + 0.5 * c, EXPECTED[1] + abs(0.5 * c))
    else:
        a = random((3, 48, 96), 6)
        model = matmul_model([3, "m", 96], None, constants={"B": B})
        feeds, (exact, bound) = {"A": a}, product(a, B)
    session = background(model)
    for _ in range(ENOUGH):
        session.run(None, feeds)
    until_stats(session, tuned=1)
    for _ in range(2):
        assert_close(session.run(None, feeds)[0], exact, bound * (1 + 1e-5))
    assert tunableop.stats(session).denied == 0


def test_nothing_is_measured_while_a_run_is_in_flight() -> None:
    """On a machine whose cores are all taken: here by a second session that never pauses."""
    session, other = background(), background()
    run(session, times=ENOUGH)
    until_stats(session, tuned=1)
    stop = threading.Event()
    a = random((700, 96), 3)

    def load() -> None:
        while not stop.is_set():
            run(other, a)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        run(session, random((33, 96)), times=ENOUGH)
        assert tunableop.stats(session).tuned + tunableop.stats(session).pending >= 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    until_stats(session, tuned=2)


def test_answers_stay_right_while_choices_are_swapped_in() -> None:
    session = background()
    sizes = [random((m, 96), m) for m in (5, 17, 48, 64)]
    expected = [product(a, B) for a in sizes]
    failures: list[BaseException] = []

    def serve(seed: int) -> None:
        order = np.random.default_rng(seed)
        try:
            for _ in range(1500):
                i = int(order.integers(len(sizes)))
                assert_close(session.run(None, {"A": sizes[i]})[0], *expected[i])
                if order.random() < 0.05:
                    time.sleep(0.005)  # idle moments
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_the_file_holds_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    session = background(cache=path)
    run(session, times=ENOUGH)
    until_stats(session, tuned=1)
    del session
    gc.collect()
    # The file may also say that the stock provider is faster, which is then to be overruled.
    again = background(cache=path, claim="all")
    run(again)
    assert tunableop.stats(again).hits == 1


def until_busy(session: ort.InferenceSession) -> None:
    until(lambda: tunableop.stats(session).pending + tunableop.stats(session).tuned > 0, "it is queued")


def test_a_session_that_ends_does_not_wait_for_its_measurements() -> None:
    session = background(max_tuning_ms=3_600_000.0, background_share=0.5)
    run(session, times=ENOUGH)
    until_busy(session)
    del session
    gc.collect()  # returns: pytest's timeout says otherwise


def test_a_process_that_exits_with_live_sessions_does_not_hang() -> None:
    run_python(
        """
        session = tunableop.InferenceSession(MODEL, tuning="background", background_share=1.0)
        for _ in range(4000):
            session.run(None, {"A": A})
        print("ran")
        """
    )


def test_memory_for_copies_has_a_ceiling() -> None:
    session = background(max_tuning_bytes=4096)
    run(session, times=ENOUGH)
    time.sleep(1.0)
    stats = tunableop.stats(session)
    assert (stats.tuned, stats.pending) == (0, 0)
    assert any("max_tuning_bytes" in note for note in tunableop.explain(session).notes)
    assert stats.fallbacks["out_of_memory"] > 0


def test_a_budget_for_the_session_holds() -> None:
    session = background(max_session_ms=0.001)
    run(session, times=ENOUGH)
    until_stats(session, tuned=1)
    run(session, random((33, 96)), times=ENOUGH)
    time.sleep(0.5)
    stats = tunableop.stats(session)
    assert stats.tuned == 1
    assert stats.fallbacks["session_budget"] > 0


def test_waiting_for_an_idle_moment_costs_none_of_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = os.cpu_count() or 1  # more than there are beside a run
    model = matmul_model(["m", 1024], None, constants={"B": random((1024, 1024), 4)})
    session = background(model, sess_options=settings, cache=path, max_tuning_ms=3_600_000.0)
    other = background(tuning="off")
    run(session, random((1, 1024)), times=ENOUGH)
    until_stats(session, tuned=1)  # there is something to save
    before = tunableop.stats(session).tuning_seconds * 1e3
    run(session, random((512, 1024)), times=300)  # a race of it takes most of a second
    until_stats(session, pending=1)
    begin = time.monotonic()
    time.sleep(0.01)  # it measures, and is not done
    stop = threading.Event()
    a = random((700, 96), 3)

    def load() -> None:
        while not stop.is_set():
            run(other, a)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(4.0)
    del session
    gc.collect()
    seconds = time.monotonic() - begin
    stop.set()
    for thread in threads:
        thread.join()
    (machine,) = json.loads(path.read_text())["machines"]
    assert len(machine["entries"]) == 1  # it was not done
    assert 0.0 < machine["spent"]["ms"] - before < 500.0 * seconds


def test_what_is_measured_while_tuning_is_switched_off_does_not_serve() -> None:
    session = background(max_tuning_ms=1000.0)
    for m in range(30, 50):
        tunableop.set_tuning(session, "background")
        run(session, a := random((m, 96)), times=ENOUGH)
        time.sleep(0.005)
        tunableop.set_tuning(session, "off")
        if tunableop.stats(session).pending == 1:
            break  # under way: the queue is empty
    else:
        raise AssertionError("no measurement was met")
    until_stats(session, pending=0)
    before = tunableop.stats(session)
    run(session, a, times=10)
    assert tunableop.stats(session).hits == before.hits
