"""What a session learned, kept in files: loaded, saved, handed over, and every way a file can be bad."""

from __future__ import annotations

import copy
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model
from support.process import run_python
from support.sessions import EP, check_runs, quick_session, random
from support.tolerance import product

B = random((8, 5), 2)
MODEL = matmul_model(["m", 8], None, constants={"B": B})
SIZES = (1, 2, 3)
SCHEMA = Path(__file__).resolve().parent.parent / "docs" / "tuning-results.schema.json"
Document = dict[str, Any]


def use(session: ort.InferenceSession, sizes: tuple[int, ...] = SIZES) -> None:
    for m in sizes:
        a = random((m, 8), m)
        check_runs(session, {"A": a}, *product(a, B), runs=1)


@pytest.fixture(scope="module")
def good() -> Document:
    """The results of a session that met three problems."""
    session = quick_session(MODEL)
    use(session)
    return tunableop.get_tuning_results(session)


def entries(document: Document) -> list[Document]:
    return [entry for machine in document["machines"] for entry in machine["entries"]]


def write(path: Path, document: Document | str) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


# --- files that are as they should be


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

    assert sorted(entries(again), key=key) == sorted(entries(good), key=key)
    use(session)
    assert tunableop.stats(session).hits == len(SIZES)
    assert sorted(entries(tunableop.get_tuning_results(session)), key=key) == sorted(entries(good), key=key)


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
    providers = [(EP, {"max_tuning_ms": "2"}), "CPUExecutionProvider"]
    first = ort.InferenceSession(MODEL.SerializeToString(), providers=providers)
    use(first)
    first.set_ep_dynamic_options({"cache.save": str(file)})
    assert len(entries(json.loads(file.read_text()))) == len(SIZES)
    second = ort.InferenceSession(MODEL.SerializeToString(), providers=providers)
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


def test_a_relative_path_is_relative_to_where_the_session_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later").mkdir()
    monkeypatch.chdir(tmp_path)
    session = quick_session(MODEL, cache="own.json")
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


# --- files that are not


def each_entry(document: Document, **changes: Any) -> Document:
    for entry in entries(document):
        entry.update(changes)
    return document


def second_entry(document: Document, **changes: Any) -> Document:
    entries(document)[1].update(changes)
    return document


def without(document: Document, field: str) -> Document:
    del entries(document)[1][field]
    return document


def winner(document: Document, **changes: Any) -> Document:
    for entry in entries(document):
        entry["winner"].update(changes)
    return document


def machine(document: Document, **changes: Any) -> Document:
    document["machines"][0]["fingerprint"].update(changes)
    return document


#: How to damage a document; words of the message; entries that are still good.
DAMAGE: dict[str, tuple[Callable[[Document], Document | str], list[str], int]] = {
    "truncated": (lambda d: json.dumps(d)[: len(json.dumps(d)) // 2], ["expected a JSON document"], 0),
    "empty": (lambda d: "", ["expected a JSON document", "empty"], 0),
    "blanks": (lambda d: " \n", ["expected a JSON document", "empty"], 0),
    "not_json": (lambda d: "MatMul, fast", ["expected a JSON document"], 0),
    "bytes_of_a_picture": (lambda d: "\x89PNG\r\n\x1a\n\x00", ["expected a JSON document"], 0),
    "deep": (lambda d: "[" * 100_000, ["expected a JSON document"], 0),
    "a_list": (lambda d: "[1, 2]", ["expected an object", "found [1, 2]"], 0),
    "no_schema": (lambda d: {"machines": []}, ["schema: expected 1, found nothing"], 0),
    "other_schema": (lambda d: d | {"schema": 99}, ["schema: expected 1, found 99"], 0),
    "text_schema": (lambda d: d | {"schema": "1"}, ["schema: expected 1", 'found "1"'], 0),
    "no_machines": (lambda d: {"schema": 1}, ["machines: expected an array, found nothing"], 0),
    "stranger": (lambda d: d | {"extra": 1}, ["extra: expected no such field, found 1"], 0),
    "other_cpu": (lambda d: machine(d, model="Another CPU"), ["fingerprint.model", 'found "Another CPU"'], 0),
    "other_features": (lambda d: machine(d, features="none"), ["fingerprint.features", 'found "none"'], 0),
    "other_cores": (lambda d: machine(d, cores=999), ["fingerprint.cores", "found 999"], 0),
    "other_library_version": (
        lambda d: each_entry(d, library_identity="0.0.0"),
        ["field 'library_identity': expected '", "found '0.0.0'"],
        0,
    ),
    "unknown_library": (lambda d: winner(d, library="nolib"), ["field 'winner.library'", "found 'nolib'"], 0),
    "unknown_kernel": (lambda d: winner(d, kernel="nosuch"), ["field 'winner.kernel'", "found 'nosuch'"], 0),
    "negative": (lambda d: second_entry(d, m=-1), ["entries[1].m: expected an integer", "found -1"], 2),
    "huge": (lambda d: second_entry(d, m=2**60), ["entries[1].m: expected an integer", f"found {2**60}"], 2),
    "wrong_type": (lambda d: second_entry(d, k="8"), ["entries[1].k: expected an integer", 'found "8"'], 2),
    "wrong_name": (
        lambda d: second_entry(d, a_type="fp8"),
        ["entries[1].a_type: expected one of", '"fp8"'],
        2,
    ),
    "not_a_number": (lambda d: second_entry(d, winner_ms=None), ["entries[1].winner_ms", "found null"], 2),
    "missing_field": (lambda d: without(d, "n"), ["entries[1].n: expected", "found nothing"], 2),
    "unknown_field": (lambda d: second_entry(d, colour="red"), ["entries[1].colour", "no such field"], 2),
    "impossible": (lambda d: second_entry(d, lda=1), ["entries[1]", "expected a possible GEMM"], 2),
    "no_object": (
        lambda d: d["machines"][0]["entries"].__setitem__(1, 7) or d,
        ["entries[1]: expected an object, found 7"],
        2,
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_file_costs_only_what_is_bad_and_says_what(damage: str, tmp_path: Path, good: Document) -> None:
    spoil, words, usable = DAMAGE[damage]
    file = write(tmp_path / "own.json", spoil(copy.deepcopy(good)))
    text = file.read_text()

    session = quick_session(MODEL, cache=file)
    assert tunableop.stats(session).entries == usable
    notes = tunableop.explain(session).notes
    assert notes
    for note in notes:
        assert str(file) in note
    for word in words:
        assert word in notes[0], notes[0]
    assert all(f"note: {note}" in str(tunableop.explain(session)) for note in notes)
    use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.tuned) == (usable, len(SIZES) - usable)

    other = quick_session(MODEL)
    assert tunableop.load_cache(other, file) == notes
    del session
    gc.collect()
    saved = json.loads(file.read_text())  # whole again
    assert {entry["m"] for entry in entries(saved)} >= set(SIZES)
    aside = file.with_name(file.name + ".bad")
    if usable == 0 and text and "machines" not in text[:2000]:
        assert aside.read_text() == text  # nothing is lost that somebody may want back


@pytest.mark.parametrize("damage", DAMAGE)
def test_bad_results_are_named_when_they_are_handed_over(damage: str, good: Document) -> None:
    spoil, words, usable = DAMAGE[damage]
    results = spoil(copy.deepcopy(good))
    if isinstance(results, str):
        pytest.skip("text: set_tuning_results takes a document")
    session = quick_session(MODEL)
    problems = tunableop.set_tuning_results(session, results)
    assert "tuning results" in problems[0]
    for word in words:
        assert word in problems[0]
    assert tunableop.stats(session).entries == usable
    use(session)


def test_the_message_is_in_onnxruntimes_log(tmp_path: Path, good: Document) -> None:
    file = write(tmp_path / "own.json", second_entry(copy.deepcopy(good), m=-1))
    done = run_python(
        "right(tunableop.InferenceSession(MODEL, cache=sys.argv[1], tuning='cached'))", str(file)
    )
    assert "[TunableOp]" in done.stderr
    assert f"{file}: machines[0].entries[1].m: expected an integer" in done.stderr
    done = run_python("tunableop.register(); right(plain(cache=sys.argv[1], tuning='cached'))", str(file))
    assert "entries[1].m" in done.stderr


def test_loading_a_file_that_is_not_there() -> None:
    session = quick_session(MODEL)
    with pytest.raises(FileNotFoundError, match=r"no-such\.json"):
        tunableop.load_cache(session, "/no-such.json")
    use(session)


@pytest.mark.parametrize("where", ["directory", "missing_folder", "under_a_file"])
def test_places_where_no_file_can_be(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    path = {
        "directory": tmp_path,
        "missing_folder": tmp_path / "none" / "own.json",
        "under_a_file": tmp_path / "file" / "own.json",
    }[where]
    session = quick_session(MODEL, cache=path)
    use(session)
    assert any(str(path) in note for note in tunableop.explain(session).notes)
    with pytest.raises(OSError, match=str(path)):
        tunableop.save_cache(session, path)
    before = sorted(tmp_path.parent.rglob("*"))
    del session
    gc.collect()
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_a_folder_that_cannot_be_written(tmp_path: Path, good: Document) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file = write(tmp_path / "own.json", second_entry(copy.deepcopy(good), m=40))
    tmp_path.chmod(0o555)
    try:
        session = quick_session(MODEL, cache=file)
        use(session)
        assert tunableop.stats(session).hits == 2
        with pytest.raises(OSError, match=str(tmp_path)):
            tunableop.save_cache(session, file)
        del session
        gc.collect()
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_leaves_the_old_file_and_the_session_alone(tmp_path: Path, good: Document) -> None:
    file = write(tmp_path / "own.json", good)
    before = file.read_bytes()
    done = run_python(
        """
        import resource
        session = tunableop.InferenceSession(MODEL, cache=sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # writing fails, as on a full disk
        right(session, np.ones((77, 8), np.float32))
        notes = tunableop.explain(session).notes
        assert any(sys.argv[1] in note and "write" in note for note in notes), notes
        try:
            tunableop.save_cache(session, sys.argv[1])
        except OSError as error:
            assert sys.argv[1].rsplit("/", 1)[0] in str(error), error
        else:
            raise AssertionError("the disk is full")
        right(session)
        """,
        str(file),
    )
    assert "not saved" in done.stderr
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"own.json", "own.json.lock"}


def test_many_bad_entries_are_each_named_once(good: Document) -> None:
    many = copy.deepcopy(good)
    entry = entries(many)[0]
    many["machines"][0]["entries"] = [entry | {"m": -i} for i in range(1, 1001)] + [entry]
    session = quick_session(MODEL)
    problems = tunableop.set_tuning_results(session, many)
    assert len(problems) == len(set(problems)) == 1000
    assert tunableop.stats(session).entries == 1
    assert len(tunableop.explain(session).notes) <= 256
    use(session)


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
    other = each_entry(copy.deepcopy(good), threads=31)
    assert tunableop.set_tuning_results(session, other) == []
    use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.entries) == (0, len(SIZES))
    assert np.all([shape.tuned is False for shape in tunableop.explain(session).shapes])
