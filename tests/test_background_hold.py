"""`background_hold_share`: what waits is measured although runs never end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model
from support.sessions import random
from support.tolerance import assert_close, product
from support.waiting import until, until_stats

#: A run takes some milliseconds: beside three callers none is free for the two that a pause has to last.
A, B = random((2048, 512), 1), random((512, 256), 2)
MODEL = matmul_model(["m", 512], None, constants={"B": B})
EXPECTED = product(A, B)
CALLERS = 3


def session_of(hold_share: float) -> tunableop.InferenceSession:
    """Measures on as many threads as there are cores: none is ever idle enough beside a run."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = os.cpu_count() or 1
    return tunableop.InferenceSession(
        MODEL,
        settings,
        tuning="background",
        background_share=1.0,
        background_hold_share=hold_share,
        max_tuning_ms=20.0,
    )


@contextmanager
def callers(session: ort.InferenceSession) -> Iterator[list[float]]:
    """Several threads that ask without a pause, so that runs overlap always. Seconds of every run."""
    stop, times, failed = threading.Event(), list[float](), list[BaseException]()

    def ask() -> None:
        try:
            while not stop.is_set():
                begin = time.perf_counter()
                answer = session.run(None, {"A": A})[0]
                times.append(time.perf_counter() - begin)
                if len(times) % 50 == 0:
                    assert_close(answer, *EXPECTED)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        yield times
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed


def test_a_session_that_is_never_idle_is_measured() -> None:
    session = session_of(0.5)
    with callers(session):
        until_stats(session, tuned=1)
        until_stats(session, pending=0)
        before = tunableop.stats(session).hits
        until(lambda: tunableop.stats(session).hits > before + 10 * CALLERS, "it serves")
    (shape,) = tunableop.explain(session).shapes
    assert shape.tuned
    assert shape.milliseconds > 0


@pytest.mark.parametrize("value", ["-0.1", "0.6", "a lot"])
def test_the_share_is_checked(value: str) -> None:
    with pytest.raises(tunableop.OptionError, match=r"background_hold_share.*0 to 0\.5"):
        tunableop.InferenceSession(MODEL, background_hold_share=value)
