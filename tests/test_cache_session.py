"""What a session learned, kept in files: loaded, saved, merged and handed over."""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.process import run_python
from support.results import MODEL, SIZES, Document, entries, learned, use, write
from support.sessions import EP, needs_names, quick_session

SCHEMA = Path(__file__).resolve().parent.parent / "docs" / "tuning-results.schema.json"


@pytest.fixture(scope="module")
def good() -> Document:
    return learned()


def test_results_validate_against_the_schema(good: Document) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    if not SCHEMA.is_file():
        pytest.skip(f"there is no {SCHEMA.name}")
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validators.validator_for(schema).check_schema(schema)
    jsonschema.validate(good, schema)
    for field in ("schema", "machines"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: item for key, item in good.items() if key != field}, schema)
    worse = copy.deepcopy(good)
    worse["machines"][0]["entries"][0]["m"] = -1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(worse, schema)


def test_the_option_saves_after_tuning_and_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    session = quick_session(MODEL, cache=file)
    assert not file.exists()
    use(session, (1,))
    assert len(entries(json.loads(file.read_text()))) == 1  # the session is still alive
    use(session)
    del session
    gc.collect()
    assert {entry["m"] for entry in entries(json.loads(file.read_text()))} == set(SIZES)


def test_a_second_process_measures_nothing_and_always_hits(tmp_path: Path) -> None:
    script = """
    session = tunableop.InferenceSession(MODEL, cache=sys.argv[1], tuning=sys.argv[2])
    for m in (1, 2, 3, 1, 2, 3):
        right(session, np.ones((m, 8), np.float32))
    stats = tunableop.stats(session)
    print(stats.tuned, stats.hits, stats.misses, stats.hit_rate, len(tunableop.explain(session).notes))
    """
    file = str(tmp_path / "own.json")
    assert run_python(script, file, "online").stdout.split() == ["3", "3", "3", "0.5", "0"]
    before = Path(file).read_bytes()
    for tuning in ("online", "cached"):
        assert run_python(script, file, tuning).stdout.split() == ["0", "6", "0", "1.0", "0"]
    assert Path(file).read_bytes() == before


def test_the_cache_is_not_used_when_tuning_is_off(tmp_path: Path, good: Document) -> None:
    file = write(tmp_path / "own.json", good)
    session = quick_session(MODEL, cache=file, tuning="off")
    use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.fallbacks) == (0, {"tuning_off": len(SIZES)})


def test_save_and_load_into_another_session(tmp_path: Path) -> None:
    first = quick_session(MODEL)
    use(first)
    file = tmp_path / "with a space and ü.json"
    tunableop.save_cache(first, file)
    second = quick_session(MODEL, tuning="cached")
    assert tunableop.load_cache(second, str(file)) == []
    assert tunableop.stats(second).entries == len(SIZES)
    use(second)
    assert tunableop.stats(second).hits == len(SIZES)
    kernels = [{shape.m: shape.kernel for shape in tunableop.explain(one).shapes} for one in (first, second)]
    assert kernels[0] == kernels[1]


def test_results_go_from_session_to_session_unchanged(good: Document) -> None:
    session = quick_session(MODEL, tuning="cached")
    assert tunableop.set_tuning_results(session, good) == []
    again = tunableop.get_tuning_results(session)

    def key(entry: Document) -> Any:
        return entry["m"]

    kept = sorted(entries(good), key=key)
    assert sorted(entries(again), key=key) == kept
    use(session)
    assert tunableop.stats(session).hits == len(SIZES)
    used = sorted(entries(tunableop.get_tuning_results(session)), key=key)
    assert [entry["uses"] - 1 for entry in used] == [entry.get("uses", 0) for entry in kept]
    assert [entry | {"uses": 0} for entry in used] == [entry | {"uses": 0} for entry in kept]


def test_results_that_are_handed_over_replace_what_was_learned(good: Document) -> None:
    session = quick_session(MODEL)
    use(session)
    changed = copy.deepcopy(good)
    for entry in entries(changed):
        entry["winner_ms"] = entry["default_ms"] = 123.5
    assert tunableop.set_tuning_results(session, changed) == []
    use(session)
    assert {shape.milliseconds for shape in tunableop.explain(session).shapes} == {123.5}
    assert tunableop.stats(session).tuned == len(SIZES)  # as before: nothing was measured again


def test_dynamic_options_save_and_load_from_any_session(tmp_path: Path) -> None:
    tunableop.register()
    file = tmp_path / "dynamic.json"
    options = ort.SessionOptions()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP]
    options.add_provider_for_devices(devices, {"max_tuning_ms": "2"})
    first = ort.InferenceSession(MODEL.SerializeToString(), options)
    use(first)
    first.set_ep_dynamic_options({"cache.save": str(file)})
    assert len(entries(json.loads(file.read_text()))) == len(SIZES)
    second = ort.InferenceSession(MODEL.SerializeToString(), options)
    second.set_ep_dynamic_options({"cache.load": str(file)})
    use(second)
    assert tunableop.stats(second).hits == len(SIZES)
    for key, path in (("cache.load", tmp_path / "none.json"), ("cache.save", tmp_path)):
        with pytest.raises(Exception, match=str(path)):
            second.set_ep_dynamic_options({key: str(path)})


def test_saving_merges_with_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "shared.json"
    for m in SIZES:
        session = quick_session(MODEL, tuning="online")
        use(session, (m,))
        tunableop.save_cache(session, file)
    assert {entry["m"] for entry in entries(json.loads(file.read_text()))} == set(SIZES)


def test_sessions_with_one_file_lose_nothing_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "shared.json"
    sessions = [quick_session(MODEL, cache=file) for _ in SIZES]
    for session, m in zip(sessions, SIZES, strict=True):
        use(session, (m,))
    del session
    sessions.clear()
    gc.collect()
    assert {entry["m"] for entry in entries(json.loads(file.read_text()))} == set(SIZES)


def test_entries_of_another_machine_stay_in_the_file(tmp_path: Path, good: Document) -> None:
    foreign = copy.deepcopy(good)
    foreign["machines"][0]["fingerprint"]["model"] = "Another CPU"
    file = write(tmp_path / "own.json", foreign)
    session = quick_session(MODEL, cache=file)
    use(session)
    del session
    gc.collect()
    saved = json.loads(file.read_text())
    assert len(saved["machines"]) == 2
    assert foreign["machines"][0] in saved["machines"]


def by_keyword(cache: str | Path) -> ort.InferenceSession:
    return quick_session(MODEL, cache=cache)


def by_session_options(cache: str | Path) -> ort.InferenceSession:
    return tunableop.InferenceSession(MODEL, tunableop.session_options(max_tuning_ms=2.0, cache=cache))


def by_providers(cache: str | Path) -> ort.InferenceSession:
    return tunableop.InferenceSession(MODEL, providers=[(EP, {"max_tuning_ms": 2.0, "cache": cache})])


@needs_names
@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("make", [by_keyword, by_session_options, by_providers])
def test_a_relative_path_is_relative_to_where_the_session_was_made(
    make: Callable[[str | Path], ort.InferenceSession],
    kind: Callable[[str], str | Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "later").mkdir()
    monkeypatch.chdir(tmp_path)
    session = make(kind("own.json"))
    monkeypatch.chdir(tmp_path / "later")
    use(session)
    del session
    gc.collect()
    assert (tmp_path / "own.json").is_file()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    session = quick_session(MODEL)
    use(session)
    tunableop.save_cache(session, link)
    assert link.is_symlink()
    assert len(entries(json.loads(target.read_text()))) == len(SIZES)


def test_of_two_entries_for_one_problem_the_newer_counts(good: Document) -> None:
    twice = copy.deepcopy(good)
    entry = entries(twice)[0]
    twice["machines"][0]["entries"] = [
        entry | {"measured_at": 2000, "winner_ms": 2.0},
        entry | {"measured_at": 1000, "winner_ms": 1.0},
    ]
    session = quick_session(MODEL)
    assert tunableop.set_tuning_results(session, twice) == []
    (kept,) = entries(tunableop.get_tuning_results(session))
    assert kept["winner_ms"] == 2.0


def test_entries_for_another_number_of_threads_are_kept_but_not_run(good: Document) -> None:
    session = quick_session(MODEL, tuning="cached")
    other = copy.deepcopy(good)
    for entry in entries(other):
        entry["threads"] = 31
    assert tunableop.set_tuning_results(session, other) == []
    use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.entries) == (0, len(SIZES))
    assert not any(shape.tuned for shape in tunableop.explain(session).shapes)
