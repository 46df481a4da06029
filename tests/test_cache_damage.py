"""Every way in which a results file can be bad: the session works, says what is wrong, and uses the rest."""

from __future__ import annotations

import copy
import gc
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop
import pytest
from support.process import run_python
from support.results import MODEL, SIZES, Document, entries, learned, use, write
from support.sessions import quick_session


@pytest.fixture(scope="module")
def good() -> Document:
    return learned()


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
    "no_schema": (lambda d: {"machines": []}, ["schema: expected 1 or 2, found nothing"], 0),
    "other_schema": (lambda d: d | {"schema": 99}, ["schema: expected 1 or 2, found 99"], 0),
    "text_schema": (lambda d: d | {"schema": "1"}, ["schema: expected 1 or 2", 'found "1"'], 0),
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

    other = quick_session(MODEL)
    problems = tunableop.load_cache(other, file)
    session = quick_session(MODEL, cache=file)
    assert tunableop.stats(session).entries == tunableop.stats(other).entries == usable
    notes = tunableop.explain(session).notes
    assert notes == problems != []
    for note in notes:
        assert str(file) in note
    for word in words:
        assert word in notes[0], notes[0]
    assert all(f"note: {note}" in str(tunableop.explain(session)) for note in notes)
    use(session)
    counters = tunableop.stats(session)
    assert (counters.hits, counters.tuned) == (usable, len(SIZES) - usable)
    del session
    gc.collect()
    saved = json.loads(file.read_text())  # whole again
    assert {entry["m"] for entry in entries(saved)} >= set(SIZES)
    if text and notes[0].endswith("document ignored"):
        # Nothing is lost that somebody may want back.
        assert file.with_name(file.name + ".bad").read_text() == text


TEXTS = ("truncated", "empty", "blanks", "not_json", "bytes_of_a_picture", "deep", "a_list")


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name not in TEXTS])
def test_bad_results_are_named_when_they_are_handed_over(damage: str, good: Document) -> None:
    spoil, words, usable = DAMAGE[damage]
    results = spoil(copy.deepcopy(good))
    assert not isinstance(results, str)
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

    def around() -> list[Path]:
        return sorted([*tmp_path.parent.glob(f"{tmp_path.name}*"), *tmp_path.rglob("*")])

    # The note of what is being tried lives beside the file while the session does.
    before = [path for path in around() if ".trying." not in path.name]
    del session
    gc.collect()
    assert around() == before


def test_a_folder_that_cannot_be_written(good: Document) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "own.json", second_entry(copy.deepcopy(good), m=40))
        Path(folder).chmod(0o555)
        try:
            done = run_python(
                """
                import os
                right(tunableop.InferenceSession(MODEL))  # loads all that nobody may not read
                if os.geteuid() == 0:
                    os.setuid(65534)  # root may write everywhere
                session = tunableop.InferenceSession(MODEL, cache=sys.argv[1])
                for m in (1, 3):
                    right(session, np.ones((m, 8), np.float32))
                stats = tunableop.stats(session)
                assert (stats.hits, stats.tuned) == (2, 0), stats
                right(session, np.ones((9, 8), np.float32))
                assert any(sys.argv[1] in note for note in tunableop.explain(session).notes)
                try:
                    tunableop.save_cache(session, sys.argv[1])
                except OSError as error:
                    assert sys.argv[1] in str(error), error
                else:
                    raise AssertionError("the folder cannot be written")
                """,
                str(file),
            )
        finally:
            Path(folder).chmod(0o755)
    assert "not saved" in done.stderr


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
