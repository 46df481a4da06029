"""GEMM calls in ONNX Runtime's own profile."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model
from support.sessions import QUICK, random

pytestmark = pytest.mark.skipif(
    tuple(int(part) for part in ort.__version__.split(".")[:2]) < (1, 25),
    reason="a plugin provider has a part in the profile from onnxruntime 1.25 on",
)

B = random((16, 24), 1)
MODEL = matmul_model(["m", 16], None, constants={"B": B})
Event = dict[str, Any]


def profiled(folder: Path, **options: Any) -> tunableop.InferenceSession:
    settings = ort.SessionOptions()
    settings.enable_profiling = True
    settings.profile_file_prefix = str(folder / "profile")
    return tunableop.InferenceSession(MODEL, sess_options=settings, **(QUICK | options))


def events(session: ort.InferenceSession) -> tuple[list[Event], list[Event]]:
    """(of our kernels, all) in the profile, which ends."""
    everything = json.loads(Path(session.end_profiling()).read_text())
    return [e for e in everything if "library" in e.get("args", {})], everything


def test_every_call_that_the_cache_serves_is_in_the_profile(tmp_path: Path) -> None:
    session = profiled(tmp_path)
    sizes = (1, 5, 40)
    for m in sizes:
        for _ in range(4):
            session.run(None, {"A": random((m, 16), m)})
    kernels = {shape.m: shape.kernel for shape in tunableop.explain(session).shapes}
    ours, everything = events(session)
    ends = max(e["ts"] + e["dur"] for e in everything)
    for m in sizes:
        hits = [e for e in ours if e["args"]["m"] == str(m) and e["args"]["hit"] == "1"]
        assert len(hits) == 3  # the first one was measured
        for event in hits:
            assert event["name"] == kernels[m]
            assert event["cat"] == "Kernel"
            assert event["args"]["library"] == kernels[m].split(":")[0]
            assert (event["args"]["n"], event["args"]["k"], event["args"]["batch"]) == ("24", "16", "1")
            assert f"M={m}," in event["args"]["problem"]
            assert event["dur"] >= 0
            assert 0 <= event["ts"] <= ends
    starts = [e["ts"] for e in ours]
    assert len(starts) == len(ours) >= 9


def test_events_lie_between_the_runs_around_them(tmp_path: Path) -> None:
    """Our clock is not ONNX Runtime's: what one calls earlier the other must too."""
    session = profiled(tmp_path, tuning="off")
    for _ in range(20):
        session.run(None, {"A": random((300, 16), 3)})
    ours, everything = events(session)
    nodes = [e for e in everything if e["cat"] == "Node" and e["args"].get("op_name") == "MatMul"]
    assert len(nodes) == 20
    first = min(e["ts"] for e in nodes)
    last = max(e["ts"] + e["dur"] for e in nodes)
    slack = last - first + 10_000  # us: two clocks are read one after the other, with a pause perhaps
    assert ours
    for event in ours:
        assert first - slack <= event["ts"] <= last + slack
        assert event["args"]["hit"] == "0"  # nothing was measured


def test_threads_share_a_profile(tmp_path: Path) -> None:
    session = profiled(tmp_path)
    session.run(None, {"A": random((4, 16), 4)})

    def work() -> None:
        for _ in range(50):
            session.run(None, {"A": random((4, 16), 4)})

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ours, _ = events(session)
    assert len(ours) == 151
    assert len({e["tid"] for e in ours}) == 4


def test_without_a_profile_nothing_is_kept(tmp_path: Path) -> None:
    session = profiled(tmp_path)
    for _ in range(3):
        session.run(None, {"A": random((4, 16), 4)})
    ours, _ = events(session)
    assert [e["args"]["hit"] for e in ours] == ["0", "1", "1"]
    for _ in range(3):
        session.run(None, {"A": random((4, 16), 4)})
    del session
    assert len(list(tmp_path.iterdir())) == 1


def test_a_session_may_end_before_its_profile(tmp_path: Path) -> None:
    session = profiled(tmp_path)
    session.run(None, {"A": random((4, 16), 4)})
    session.run(None, {"A": random((4, 16), 4)})
    del session
    written = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert len(written) == 1
    assert any("library" in e.get("args", {}) for e in written[0])
