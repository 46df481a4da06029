"""Tuning before there is traffic: shapes, the loop over problems, workers that die."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop import _control, _isolate, _shapes, tuning
from support.graphs import FLOAT, graph, matmul_model, model, value

WEIGHT = np.random.default_rng(1).standard_normal((8, 5), dtype=np.float32)
MODEL = matmul_model(["m", 8], None, constants={"B": WEIGHT})


def inputs_model(**inputs: tuple[Any, int]) -> onnx.ModelProto:
    """Takes inputs of any kind and uses none of them for more than its shape."""
    nodes = [helper.make_node("Shape", [name], [f"{name}_shape"]) for name in inputs]
    outputs = [value(f"{name}_shape", None, TensorProto.INT64) for name in inputs]
    return model(graph(nodes, [value(name, *rest) for name, rest in inputs.items()], outputs))


@pytest.fixture(scope="module")
def text_session() -> ort.InferenceSession:
    """As of a text model."""
    made = inputs_model(
        ids=(["batch", "seq"], TensorProto.INT64),
        mask=(["batch", "seq"], TensorProto.BOOL),
        state=(["batch", 4], FLOAT),
        scale=([], TensorProto.DOUBLE),
    )
    return ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def sizes(feeds: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in feeds.items()}


# Shapes


def test_symbols_are_shared(text_session: ort.InferenceSession) -> None:
    expected = {"ids": (2, 16), "mask": (2, 16), "state": (2, 4), "scale": ()}
    (feeds,) = _shapes.make_feeds(text_session, {"ids": [2, 16]})
    assert sizes(feeds) == expected
    (feeds,) = _shapes.make_feeds(text_session, None, {"batch": 2, "seq": 16})
    assert sizes(feeds) == expected
    (feeds,) = _shapes.make_feeds(text_session, {"state": (2, 4)}, {"seq": 16})
    assert sizes(feeds) == expected
    several = _shapes.make_feeds(text_session, [{"ids": [1, 3]}, {"mask": [4, 5]}])
    assert [feeds["ids"].shape for feeds in several] == [(1, 3), (4, 5)]
    text_session.run(None, feeds)


def test_made_up_values(text_session: ort.InferenceSession) -> None:
    (feeds,) = _shapes.make_feeds(text_session, {"ids": [50, 50]})
    assert {name: array.dtype.name for name, array in feeds.items()} == {
        "ids": "int64",
        "mask": "bool",
        "state": "float32",
        "scale": "float64",
    }
    assert set(feeds["ids"].ravel()) == {0, 1}
    assert set(feeds["mask"].ravel()) == {False, True}
    assert np.abs(feeds["state"]).max() <= 1
    assert feeds["state"].min() < -0.9
    assert feeds["state"].max() > 0.9
    (again,) = _shapes.make_feeds(text_session, {"ids": [50, 50]})
    assert all(np.array_equal(feeds[name], again[name]) for name in feeds)


def test_arrays_are_fed_as_they_are(text_session: ort.InferenceSession) -> None:
    ids = np.full((3, 7), 42)
    (feeds,) = _shapes.make_feeds(text_session, {"ids": ids})
    assert feeds["ids"] is ids
    assert feeds["mask"].shape == (3, 7)


def test_without_shapes(text_session: ort.InferenceSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tunableop"):
        (feeds,) = _shapes.make_feeds(text_session, None)
    assert sizes(feeds) == {"ids": (1, 1), "mask": (1, 1), "state": (1, 4), "scale": ()}
    assert caplog.messages == ["no shapes were given: 'batch', 'seq' taken as 1"]
    caplog.clear()
    _shapes.make_feeds(text_session, None, {"batch": 1, "seq": 1})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("shapes", "dims", "message"),
    [
        ({"idz": [1, 2]}, None, "no input 'idz'; its inputs are: ids, mask, state, scale"),
        ({"ids": [1, 2, 3]}, None, r"input 'ids': expected 2 dimensions \(batch x seq\), found 3 \(1x2x3\)"),
        ({"ids": np.zeros(3)}, None, r"input 'ids': expected 2 dimensions \(batch x seq\), found 1 \(3\)"),
        ({"ids": [1, 2], "state": [1, 5]}, None, "input 'state': expected batch x 4, found 1x5"),
        ({"state": [1, 4]}, None, "input 'ids' is missing, and 'seq' is open"),
        ({"ids": [1, 0]}, None, "input 'ids': expected a whole number above 0, found 0"),
        ({"ids": [1, 2.5]}, None, "expected a whole number above 0, found 2.5"),
        ({"ids": [True, 2]}, None, "expected a whole number above 0, found True"),
        ({"ids": "1x2"}, None, "expected a list of dimensions or a numpy array, found '1x2'"),
        ({"ids": 5}, None, "expected a list of dimensions or a numpy array, found 5"),
        ([[1, 2]], None, "expected {input: dimensions} or a list of such, found a list with list"),
        ([], None, "at least one set of shapes"),
        ({"ids": [1, 2]}, {"batch": 8}, "input 'ids': 'batch' is 1 there, and 8 in dims"),
        (None, {"batsh": 1}, "no symbolic dimension 'batsh'; it has: batch, seq"),
        (None, {"batch": 0}, "dims: 'batch': expected a whole number above 0, found 0"),
    ],
)
def test_wrong_shapes(text_session: ort.InferenceSession, shapes: Any, dims: Any, message: str) -> None:
    with pytest.raises(tunableop.OptionError, match=message):
        _shapes.make_feeds(text_session, shapes, dims)


def test_unnamed_dimensions_and_odd_inputs() -> None:
    made = inputs_model(x=([None, 3], FLOAT), words=([2], TensorProto.STRING))
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(tunableop.OptionError, match=r"'words' is a tensor.string., which cannot be made up"):
        _shapes.make_feeds(session, {"x": [4, 3]})
    words = np.array(["a", "b"], dtype=object)
    (feeds,) = _shapes.make_feeds(session, {"words": words, "x": [4, 3]})
    assert session.run(None, feeds)[0].tolist() == [4, 3]
    with pytest.raises(tunableop.OptionError, match="'x' is missing, and dimension 0 of 'x' is open"):
        _shapes.make_feeds(session, {"words": words})


# The loop


class FakeNative:
    """The native side's queue: `answers` to tune_pending, then `rest` for ever."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *answers: dict[str, Any],
        seen: int = 0,
        rest: dict[str, Any] | None = None,
    ) -> None:
        self.answers = list(answers)
        self.rest = rest or answer(0, 0)
        self.asked: list[str] = []
        self.seen = seen
        self.real = _control._ask
        self.modes: list[str] = []
        monkeypatch.setattr(_control, "_ask", self.ask)
        monkeypatch.setattr(tuning, "InferenceSession", self.session)

    def session(self, made_of: Any, *, tuning: str, **options: Any) -> ort.InferenceSession:
        self.modes.append(tuning)
        return tunableop.InferenceSession(made_of, tuning="off", **options)

    def ask(self, session: ort.InferenceSession, method: str, **arguments: Any) -> Any:
        self.asked.append(method)
        if method == "collect":
            return {}
        if method == "tune_seen":
            seen, self.seen = self.seen, 0
            return {"pending": seen}
        if method == "tune_pending":
            assert arguments == {"max_problems": 1}
            return self.answers.pop(0) if self.answers else self.rest
        return self.real(session, method, **arguments)


def answer(tuned: int, pending: int, last: str = "") -> dict[str, Any]:
    return {"tuned": tuned, "pending": pending, "last": last}


def test_tune_measures_until_nothing_is_pending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    native = FakeNative(monkeypatch, answer(1, 1, "one"), answer(1, 0, "two"))
    steps: list[tunableop.TuneProgress] = []
    cache = tmp_path / "model.tune.json"
    summary = tunableop.tune(MODEL, shapes={"A": [4, 8]}, cache=cache, progress=steps.append)
    assert summary.lines == ["one", "two"]
    assert [(step.tuned, step.pending, step.line) for step in steps] == [(1, 1, "one"), (2, 0, "two")]
    assert native.modes == ["background"]
    queue = [method for method in native.asked if method in ("tune_seen", "tune_pending", "save_cache")]
    # Nothing measured is ever lost, and the last question finds nothing new.
    assert queue == ["tune_pending", "save_cache"] * 2 + ["tune_pending"]


def test_progress_adds_up_over_sets_of_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNative(monkeypatch, answer(1, 1), answer(1, 0), answer(0, 0), answer(1, 0))
    steps: list[tunableop.TuneProgress] = []
    tunableop.tune(MODEL, shapes=[{"A": [4, 8]}, {"A": [6, 8]}], progress=steps.append)
    assert [(step.tuned, step.pending) for step in steps] == [(1, 1), (2, 0), (3, 0)]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(tunableop.OptionError, match=r"cache: there is no folder '.*none' for 'x.json'"):
        tunableop.tune(MODEL, cache=tmp_path / "none" / "x.json")
    native = FakeNative(monkeypatch, answer(1, 1, "one"), answer(1, 0, "two"))
    (tmp_path / "x.json.lock").mkdir()  # root may write everywhere, but not into a folder
    with pytest.raises(OSError, match=r"x\.json\.lock: cannot open"):
        tunableop.tune(MODEL, shapes={"A": [4, 8]}, cache=tmp_path / "x.json")
    assert native.asked.count("tune_pending") == 1  # it does not measure on for nothing


def test_tune_what_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without shapes, problems from real use come before invented ones."""
    cache = tmp_path / "model.tune.json"
    ran: list[Any] = []
    monkeypatch.setattr(tuning, "_run", lambda session, feeds: ran.append(feeds))
    native = FakeNative(monkeypatch, seen=1)
    tunableop.tune(MODEL, cache=cache)
    runs = len(ran)
    assert runs > 0  # there was no file to have seen anything
    session = tunableop.InferenceSession(MODEL, max_tuning_ms=1)
    session.run(None, {"A": np.zeros((2, 8), np.float32)})
    tunableop.save_cache(session, cache)
    native.answers = [answer(1, 0, "one")]
    assert tunableop.tune(MODEL, cache=cache).lines == ["one"]
    assert len(ran) == runs
    tunableop.tune(MODEL, cache=cache, shapes={"A": [3, 8]})
    assert len(ran) == runs + 1


def test_nothing_is_invented_once_all_that_was_seen_is_measured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "model.tune.json"
    session = tunableop.InferenceSession(MODEL, tuning="record", cache=cache)
    session.run(None, {"A": np.zeros((3, 8), np.float32)})
    tunableop.save_cache(session, cache)
    assert tunableop.tune(MODEL, cache=cache, max_tuning_ms=5).tuned == 1
    assert caplog.messages == []
    assert tunableop.tune(MODEL, cache=cache, max_tuning_ms=5).tuned == 0
    assert caplog.messages == [
        f"nothing that {cache} has seen in use is left to measure; give shapes for more"
    ]


def test_patience_is_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNative(monkeypatch, answer(0, 3), rest=answer(0, 2))
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += 1000 * seconds

    session = tunableop.InferenceSession(MODEL, tuning="off")
    with pytest.raises(tunableop.TunableOpError, match="2 problems are pending, but none was measured in 60"):
        tuning.measure_pending(tuning._Work(session, None, None), clock=lambda: now, sleep=sleep)
    assert now > 60


def test_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    session = tunableop.InferenceSession(MODEL, tuning="online", max_tuning_ms=5)
    FakeNative(monkeypatch, answer(0, 0))
    summary = tunableop.warm(session, [{"A": [4, 8]}, {"A": [6, 8]}])
    assert summary.tuned == 2
    assert summary.seconds > 0
    before = tunableop.stats(session)
    session.run(None, {"A": np.zeros((6, 8), np.float32)})
    assert tunableop.stats(session).hits == before.hits + 1
    assert tunableop.warm(session, {"A": [4, 8]}).tuned == 0


def test_a_model_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNative(monkeypatch, answer(0, 0))
    broken = matmul_model(["m", "k"], None, constants={"B": WEIGHT})
    with pytest.raises(tunableop.TunableOpError, match=r"the model does not run with A:2x3: "):
        tunableop.tune(broken, shapes={"A": [2, 3]})


def test_options() -> None:
    with pytest.raises(tunableop.OptionError, match="no option 'tuning' here"):
        tunableop.tune(MODEL, tuning="online")
    with pytest.raises(tunableop.OptionError, match="no option 'kache'"):
        tunableop.tune(MODEL, kache="x")
    with pytest.raises(tunableop.OptionError, match="isolate: expected a cache file too"):
        tunableop.tune(MODEL, isolate=True)
    with pytest.raises(tunableop.OptionError, match="hang_seconds: expected more than 0"):
        tunableop.tune(MODEL, isolate=True, cache="x", hang_seconds=0)
    with pytest.raises(tunableop.OptionError, match="no option 'sess_options'"):
        tunableop.tune(MODEL, isolate=True, cache="x", sess_options=ort.SessionOptions())


# Workers

Plan = Callable[..., Path]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Plan]:
    """Lays out what the fake workers do, one list of steps each; returns the cache."""
    pytest.importorskip("tunableop_native_tests", reason="the journal's writer is in the tests' module")
    monkeypatch.setattr(_isolate, "WORKER", "support.fake_tune_worker")

    def lay_out(*workers: list[str]) -> Path:
        (tmp_path / "plan").write_text(json.dumps(workers))
        return tmp_path / "model.tune.json"

    yield lay_out
    left = [path for path in tmp_path.iterdir() if ".trying." in path.name]
    assert len(left) <= 1, "only a last worker, which nobody followed, may leave its journal"


def told_deaths(cache: Path) -> list[str]:
    return (cache.parent / "deaths").read_text().split()


def isolated(cache: Path, **options: Any) -> tunableop.TuneSummary:
    return tunableop.tune(MODEL, cache=cache, isolate=True, **options)


def test_a_worker_that_lives(plan: Plan, capfd: pytest.CaptureFixture[str]) -> None:
    cache = plan(["noise", "tune", "enter", "leave", "tune"])
    steps: list[tunableop.TuneProgress] = []
    array = np.arange(16, dtype=np.float32).reshape(2, 8)
    summary = isolated(cache, shapes=[{"A": (4, 8)}, {"A": array}], max_tuning_ms=5, progress=steps.append)
    assert (summary.tuned, summary.restarts, summary.denied) == (2, 0, 0)
    assert summary.seconds == pytest.approx(0.2)
    assert summary.lines == ["tuned problem 1", "tuned problem 2"]
    assert [(step.tuned, step.pending) for step in steps] == [(1, 4), (2, 3)]
    assert capfd.readouterr().out == ""
    job = json.loads((cache.parent / "job.json").read_text())
    assert job["options"] == {"max_tuning_ms": "5"}
    assert job["shapes"][0] == {"dimensions": {"A": [4, 8]}, "arrays": {}}
    assert not Path(job["model"]).exists()  # it was a copy


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("segv", "killed the worker (SIGSEGV)"),
        ("exit", "ended the worker (exit code 3)"),
        ("kill", "was running when somebody killed the worker (the system, for want of memory?)"),
    ],
)
def test_a_worker_that_dies(plan: Plan, end: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = plan(["tune", "enter", end], ["tune", "tune"])
    summary = isolated(cache)
    line = f"native:second {how} (M=1,N=2,K=3,fp32)"
    assert summary.lines == ["tuned problem 1", line, "tuned problem 1", "tuned problem 2"]
    assert (summary.tuned, summary.restarts, summary.denied) == (3, 1, 1)
    assert summary.seconds == pytest.approx(0.3)
    assert caplog.messages == [line]
    assert told_deaths(cache) == ["native:second"]  # to the second worker


def test_a_worker_that_hangs(plan: Plan) -> None:
    cache = plan(["enter", "hang"], ["slow", "tune"])
    summary = isolated(cache, hang_seconds=0.5)
    assert summary.lines == [
        "native:second did not come back for 0.5 seconds, and the worker was killed (M=1,N=2,K=3,fp32)",
        "tuned problem 1",
    ]
    assert summary.restarts == 1
    assert told_deaths(cache) == ["native:second"]


def test_hang_watch() -> None:
    now = 0.0
    watch = _isolate.HangWatch(30, clock=lambda: now)

    def at(time_now: float, calls: int, in_call: bool = True) -> bool:
        nonlocal now
        now = time_now
        return watch.hung(
            {"in_call": in_call, "calls": calls, "library": "native", "kernel": "x", "problem": "y"}
        )

    assert not at(0, 1)
    assert not at(29, 1)
    assert not at(31, 2)  # another call
    assert not at(60, 2)
    assert not at(70, 2, in_call=False)
    assert not at(71, 2)  # the watch began anew
    assert not at(100, 2)
    assert not watch.hung(None)
    assert not at(102, 2)
    assert at(132, 2)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["tune", "segv"], "the worker ended by SIGSEGV, and not in a kernel that was being tried"),
        (["enter", "leave", "kill"], "the worker ended by SIGKILL, and not in a kernel"),
        (["exit"], "the worker ended with exit code 3, and not in a kernel"),
    ],
)
def test_a_death_that_no_kernel_caused(plan: Plan, steps: list[str], message: str) -> None:
    cache = plan(steps, ["tune"])
    with pytest.raises(tunableop.TunableOpError, match=message):
        isolated(cache)
    assert told_deaths(cache) == []


def test_too_many_deaths(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_isolate, "MOST_RESTARTS", 2)
    cache = plan(["enter", "segv"])  # for ever
    with pytest.raises(tunableop.TunableOpError, match="3 workers died; the last: native:second killed"):
        isolated(cache)
    assert told_deaths(cache) == ["native:second"] * 2


def test_an_error_of_the_worker(plan: Plan) -> None:
    with pytest.raises(tunableop.OptionError, match=r"^shapes: wrong$"):
        isolated(plan(["error"]))


def children() -> set[str]:
    """Processes that this one has started and not seen the end of."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if fields[1] == str(os.getpid()):
            found.add(stat.parent.name)
    return found


def test_no_worker_outlives_the_call(plan: Plan) -> None:
    def stop(step: tunableop.TuneProgress) -> None:
        raise KeyboardInterrupt

    before = children()  # of other tests in this process
    with pytest.raises(KeyboardInterrupt):
        isolated(plan(["tune", "hang"]), progress=stop)
    assert children() <= before


def test_an_interruption_blames_no_kernel(plan: Plan) -> None:
    def stop(step: tunableop.TuneProgress) -> None:
        raise KeyboardInterrupt

    cache = plan(["enter", "tune", "hang"], ["tune"])
    with pytest.raises(KeyboardInterrupt):
        isolated(cache, progress=stop)
    assert isolated(cache).restarts == 0
    assert told_deaths(cache) == []


def test_the_real_worker_says_what_is_wrong(tmp_path: Path) -> None:
    cache = tmp_path / "model.tune.json"
    with pytest.raises(tunableop.OptionError, match=r"^TunableOp option"):
        isolated(cache, max_tuning_ms=-1)


def test_the_real_worker_finds_no_model(tmp_path: Path) -> None:
    cache = tmp_path / "model.tune.json"
    with pytest.raises(tunableop.TunableOpError, match="none"):
        tunableop.tune(tmp_path / "none.onnx", cache=cache, isolate=True)


# With the native side


@pytest.mark.parametrize("isolate", [False, True])
def test_tune_for_real(tmp_path: Path, isolate: bool) -> None:
    cache = tmp_path / "model.tune.json"
    shapes = [{"A": [4, 8]}, {"A": [64, 8]}]
    summary = tunableop.tune(MODEL, shapes=shapes, cache=cache, isolate=isolate, max_tuning_ms=20)
    assert summary.tuned == len(summary.lines) == 2
    assert summary.seconds > 0
    session = tunableop.InferenceSession(MODEL, tuning="cached", cache=cache)
    for rows in (4, 64):
        session.run(None, {"A": np.zeros((rows, 8), np.float32)})
    assert tunableop.stats(session).fallbacks == {}
    again = tunableop.tune(MODEL, shapes=shapes, cache=cache, isolate=isolate, max_tuning_ms=20)
    assert again.tuned == 0
    assert not [path for path in tmp_path.iterdir() if ".trying." in path.name]
