"""What a server does to sessions that measure: forks, failing runs, changes of mode, too few resources."""

from __future__ import annotations

import time

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from support.graphs import graph, matmul_model, model, value
from support.process import run_python
from support.sessions import random
from support.waiting import until, until_stats
from test_background import BACKGROUND, ENOUGH, MODEL, A, B, background, run

#: After the preamble of `run_python`: uses of its model that repay a measurement.
SERVE = """
import os, resource, time

A = np.random.default_rng(3).standard_normal((48, 96), dtype=np.float32)
B = np.random.default_rng(4).standard_normal((96, 80), dtype=np.float32)
LARGER = matmul_model(["m", 96], None, constants={"B": B})

def session_of(mode):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return tunableop.InferenceSession(
        LARGER, options, tuning=mode, max_tuning_ms=20.0, background_share=1.0)

def serve(session, a=A, times=4000):
    for _ in range(times):
        session.run(None, {"A": a})
    np.testing.assert_allclose(session.run(None, {"A": a})[0], a @ B, rtol=1e-3, atol=1e-3)

def until_tuned(session, count):
    end = time.monotonic() + 20
    while tunableop.stats(session).tuned < count:
        assert time.monotonic() < end, tunableop.stats(session)
        time.sleep(0.02)
"""


@pytest.mark.parametrize("mode", ["online", "background"])
def test_a_forked_child_serves_measures_and_ends(mode: str) -> None:
    """The thread that the parent measures with is not there, though all that it waited on is."""
    done = run_python(
        SERVE
        + f"""
session = session_of("{mode}")
serve(session)
until_tuned(session, 1)
child = os.fork()
if child == 0:
    serve(session, A[:33])
    until_tuned(session, 2)
    del session
    print("the child ended its session", flush=True)
    os._exit(0)
end = time.monotonic() + 30
ended = 0
while ended == 0 and time.monotonic() < end:
    ended, status = os.waitpid(child, os.WNOHANG)
    time.sleep(0.02)
if ended == 0:
    os.kill(child, 9)
    os.waitpid(child, 0)
assert ended and status == 0, "the child did not end"
serve(session, A[:34])
until_tuned(session, 2)
"""
    )
    assert "the child ended its session" in done.stdout


@pytest.mark.parametrize("mode", ["online", "background"])
def test_a_run_does_not_fail_where_the_system_refuses_a_thread(mode: str) -> None:
    run_python(
        SERVE
        + f"""
session = session_of("{mode}")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
now = int(status["VmSize"].split()[0]) << 10
was = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (now + (6 << 20), was[1]))  # less than a thread's stack
serve(session)
resource.setrlimit(resource.RLIMIT_AS, was)
time.sleep(1.1)  # as long as it is put off
serve(session)
until_tuned(session, 1)
"""
    )


def test_runs_that_fail_do_not_count_as_in_flight() -> None:
    """ONNX Runtime tells of the end of a run that failed, too: else nothing would be measured any more."""
    nodes = [
        helper.make_node("MatMul", ["A", "B"], ["product"], name="node"),
        helper.make_node("Reshape", ["product", "shape"], ["Y"], name="reshape"),
    ]
    inputs = [value("A", ["m", 96]), value("shape", [None], TensorProto.INT64)]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    made = model(graph(nodes, inputs, [value("Y")], {"B": B}))
    session = tunableop.InferenceSession(made, options, **BACKGROUND)
    right = {"A": A, "shape": np.array([-1], np.int64)}
    stopping = ort.RunOptions()
    stopping.terminate = True
    for wrong, how in (
        ({**right, "shape": np.array([7, 7], np.int64)}, None),
        ({**right, "A": random((48, 95))}, None),
        (right, stopping),
    ):
        for _ in range(5):
            with pytest.raises(Exception, match="ONNXRuntimeError"):
                session.run(None, wrong, how)
    for _ in range(ENOUGH):
        session.run(None, right)
    until_stats(session, tuned=1)


@pytest.mark.parametrize("mode", ["off", "record"])
def test_a_measurement_under_way_serves_only_in_modes_that_use_it(mode: str) -> None:
    b = random((512, 512), 2)
    session = background(matmul_model(["m", 512], None, constants={"B": b}), max_tuning_ms=2000.0)
    run(session, random((512, 512)), times=400)
    until(lambda: tunableop.stats(session).pending + tunableop.stats(session).tuned > 0, "it is queued")
    time.sleep(0.1)
    tunableop.set_tuning(session, mode)
    until(lambda: tunableop.stats(session).pending == 0, "it is measured")
    before = tunableop.stats(session).hits
    run(session, random((512, 512)), times=5)
    assert tunableop.stats(session).hits == before
    tunableop.set_tuning(session, "cached")
    run(session, random((512, 512)), times=5)
    assert tunableop.stats(session).hits == before + 5 * tunableop.stats(session).tuned


def test_warming_measures_whatever_the_budgets_say() -> None:
    session = tunableop.InferenceSession(MODEL, tuning="online", max_session_ms=0.001)
    run(session)
    run(session, random((33, 96)))
    assert tunableop.stats(session).fallbacks == {"session_budget": 1}
    assert tunableop.warm(session, [{"A": [33, 96]}, {"A": [34, 96]}]).tuned == 2
    run(session, random((35, 96)))
    assert tunableop.stats(session).fallbacks == {"session_budget": 2}
