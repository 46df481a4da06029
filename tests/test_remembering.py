"""What a session remembers, for how long, and what it says about it."""

from __future__ import annotations

import copy
import fcntl
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime_ep_tunableop as tunableop
import pytest
from support.results import MODEL, SIZES, B, Document, entries, learned, use, write
from support.sessions import quick_session, random
from support.tolerance import product


@pytest.fixture(scope="module")
def good() -> Document:
    return learned()


def with_budget(document: Document, budget_ms: float) -> Document:
    """The same, as if there had been no time for a race."""
    changed = copy.deepcopy(document)
    for entry in entries(changed):
        entry["budget_ms"] = budget_ms
    return changed


@pytest.mark.parametrize(
    ("tuning", "budget_ms", "measured"),
    [("online", 1.0, True), ("online", 2.0, False), ("online", 0.0, False), ("cached", 1.0, False)],
)
def test_a_default_kept_for_want_of_time_is_measured_again_when_there_is_more(
    good: Document, tuning: str, budget_ms: float, measured: bool
) -> None:
    session = quick_session(MODEL, tuning=tuning, max_tuning_ms=2.0)
    assert tunableop.set_tuning_results(session, with_budget(good, budget_ms)) == []
    use(session)
    use(session)
    counters = tunableop.stats(session)
    assert counters.tuned == (len(SIZES) if measured else 0)
    assert counters.hits == len(SIZES) * (1 if measured else 2)


def test_a_default_kept_for_want_of_time_says_so_in_the_file_and_is_raced_later(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    first = quick_session(MODEL, cache=file, max_tuning_ms=0.001)
    use(first, (1,))
    (entry,) = entries(tunableop.get_tuning_results(first))
    assert entry["budget_ms"] == 0.001
    del first
    gc.collect()
    second = quick_session(MODEL, cache=file, max_tuning_ms=20.0)
    use(second, (1,))
    assert tunableop.stats(second).tuned == 1
    del second
    gc.collect()
    (entry,) = entries(json.loads(file.read_text()))
    assert entry["budget_ms"] == 0.0


def test_evicted_problems_are_saved_and_not_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    session = quick_session(MODEL, cache_size=1)
    use(session)
    use(session)
    counters = tunableop.stats(session)
    assert counters.evicted >= len(SIZES) - 1
    assert (counters.tuned, counters.entries) == (len(SIZES), len(SIZES))
    (shape,) = tunableop.explain(session).shapes
    assert "default" in shape.why  # what the race said: evicted and adopted again
    tunableop.save_cache(session, file)
    assert {entry["m"] for entry in entries(json.loads(file.read_text()))} == set(SIZES)


def test_endless_distinct_shapes_are_forgotten_in_the_end() -> None:
    session = quick_session(MODEL, cache_size=1, max_tuning_ms=0.01)
    use(session, tuple(range(1, 60)))
    assert tunableop.stats(session).entries <= 17


@pytest.mark.parametrize("way", ["set", "load"])
def test_what_was_handed_over_is_saved_at_the_end(tmp_path: Path, good: Document, way: str) -> None:
    file = tmp_path / "own.json"
    session = quick_session(MODEL, cache=file)
    if way == "set":
        tunableop.set_tuning_results(session, good)
    else:
        tunableop.load_cache(session, write(tmp_path / "other.json", good))
    del session
    gc.collect()
    assert len(entries(json.loads(file.read_text()))) == len(SIZES)


def test_runs_do_not_wait_for_the_lock_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    session = quick_session(MODEL, cache=file)
    with Path(f"{file}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        begin = time.monotonic()
        use(session)
        assert time.monotonic() - begin < 5
        assert not file.exists()
        assert tunableop.explain(session).notes == []
    del session
    gc.collect()
    assert len(entries(json.loads(file.read_text()))) == len(SIZES)


def test_a_failure_that_repeats_is_noted_once(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    session = quick_session(MODEL, cache=file)
    file.mkdir()
    for m in SIZES:
        use(session, (m,))
        tunableop._control.save_own_cache(session)
    (note,) = tunableop.explain(session).notes
    assert "not saved" in note
    file.rmdir()


def test_cached_calls_that_find_nothing_are_misses_each_time() -> None:
    session = quick_session(MODEL, tuning="cached")
    for _ in range(3):
        use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.misses) == (0, 3 * len(SIZES))
    assert counters.fallbacks == {"not_in_cache": 3 * len(SIZES)}
    assert counters.hit_rate == 0.0


def test_explain_says_why_each_kernel_was_chosen(tmp_path: Path, good: Document) -> None:
    file = write(tmp_path / "own.json", good)

    def measured() -> tunableop.InferenceSession:
        return quick_session(MODEL)

    def loaded() -> tunableop.InferenceSession:
        return quick_session(MODEL, cache=file)

    def unknown() -> tunableop.InferenceSession:
        return quick_session(MODEL, tuning="cached")

    def off() -> tunableop.InferenceSession:
        return quick_session(MODEL, tuning="off")

    cases: list[tuple[Callable[[], tunableop.InferenceSession], str]] = [
        (measured, "default"),
        (loaded, f"loaded from {file}"),
        (unknown, "not in the cache"),
        (off, "tuning=off"),
    ]
    for make, expected in cases:
        session = make()
        use(session, (1,))
        (shape,) = tunableop.explain(session).shapes
        assert expected in shape.why
        assert shape.why in str(tunableop.explain(session))


def test_names_that_are_not_utf8_do_not_stop_explain() -> None:
    data = MODEL.SerializeToString()
    assert data.count(b"node") == 1
    session = quick_session(data.replace(b"node", b"n\xff\xfe\xfd"))
    a = random((1, 8), 1)
    exact, bound = product(a, B)
    assert (abs(session.run(None, {"A": a})[0] - exact) <= bound).all()
    (node,) = tunableop.explain(session).nodes
    assert "\ufffd" in node.name
