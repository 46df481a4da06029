"""Kernels of a card that do not end: sessions go on without them, and nothing waits for them."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from support import narrow
from support.cards import card_session, control, count, faults, memory_used, on_card
from support.graphs import matmul_model

W = narrow.random((8, 8), "fp32", 2)
MODEL = matmul_model(["m", 8], None, constants={"B": W})
QUICK: dict[str, Any] = {"tuning": "online", "max_tuning_ms": 10}


def run(session: ort.InferenceSession, rows: int) -> None:
    x = narrow.random((rows, 8), "fp32", rows)
    np.testing.assert_allclose(session.run(None, {"A": x})[0], x @ W, rtol=1e-4, atol=1e-4)


def runs_until_none_hangs(session: ort.InferenceSession, rows: int) -> int:
    """How many calls failed because a kernel was tried that did not end."""
    said = []
    while len(said) < 40:
        try:
            run(session, rows)
        except ort.capi.onnxruntime_pybind11_state.Fail as error:
            said.append(str(error))
            continue
        assert all("did not end within 2 s: abandoned" in text for text in said), said
        return len(said)
    raise AssertionError("every call meets a kernel that hangs")


@on_card("cuda13")
def test_after_a_kernel_that_hangs_everything_goes_on() -> None:
    session, other = card_session(MODEL, **QUICK), card_session(MODEL, **QUICK)
    for rows in (1, 2, 3):
        run(other, rows)
    faults("hang:20")
    assert sum(runs_until_none_hangs(session, rows) for rows in (1, 2)) > 0
    assert count("hanging") > 0
    # What was measured before and is now, memory that goes back to the card, the end of sessions.
    run(other, 3)
    runs_until_none_hangs(other, 5)
    large = narrow.random((100_000, 8), "fp32", 1)
    other.run(None, {"A": large})
    del other
    gc.collect()
    runs_until_none_hangs(session, 7)
    assert tunableop.stats(session).denied > 0
    before = memory_used()
    control().sim_gpu_release()
    faults("")
    # Once it has ended, what was kept goes back with the next piece that is freed.
    deadline = time.monotonic() + 60.0
    while memory_used() >= before and time.monotonic() < deadline:
        with_memory = card_session(MODEL, **QUICK)
        run(with_memory, 9)
        del with_memory
        gc.collect()
    assert memory_used() < before
