"""Results documents and files: strict reading, merging, and what happens when things go wrong."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime_ep_tunableop import _core
from tuning_helpers import FINGERPRINT, OTHER_MACHINE, make_record

SCHEMA = Path(__file__).parents[2] / "docs" / "tuning-results.schema.json"


def document(*entries: Any, fingerprint: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    section = {"fingerprint": fingerprint or FINGERPRINT, "entries": list(entries)}
    return {"schema": 1, "producer": "test", "machines": [section], **fields}


def parse(content: Any, origin: str = "results.json") -> tuple[list[dict[str, Any]], list[str]]:
    text = content if isinstance(content, str) else json.dumps(content)
    return _core.parse_results(text, origin, FINGERPRINT)


def save(path: Path, *records: dict[str, Any], fingerprint: dict[str, Any] | None = None) -> None:
    _core.save_file(path, list(records), fingerprint or FINGERPRINT)


def load(path: Path, fingerprint: dict[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    return _core.load_file(path, fingerprint or FINGERPRINT)


def sizes(path: Path, fingerprint: dict[str, Any] | None = None) -> list[int]:
    records, problems = load(path, fingerprint)
    assert problems == [] or fingerprint is not None or all("another machine" in p for p in problems)
    return sorted(record["m"] for record in records)


# ---- documents ----------------------------------------------------------------------------------


def test_round_trip() -> None:
    records = [make_record(m=i + 1, winner_ms=0.1 * i, error=1e-300) for i in range(50)]
    text = _core.format_results(records, FINGERPRINT)
    assert parse(text) == (records, [])
    assert _core.format_results(parse(text)[0], FINGERPRINT) == text


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
records = st.builds(
    make_record,
    m=st.integers(0, 2**40),
    threads=st.integers(0, 65535),
    a_type=st.sampled_from(["fp32", "fp16", "bf16", "fp64"]),
    alpha=st.sampled_from(["0", "1", "other"]),
    epilogue=st.sampled_from(["none", "bias", "relu", "bias_relu", "gelu", "bias_gelu"]),
    winner=st.fixed_dictionaries(
        {
            "library": texts,
            "kernel": texts,
            "opaque_id": st.integers(-(2**63), 2**63 - 1),
            "workspace_bytes": st.integers(0, 2**53),
        }
    ),
    winner_ms=st.floats(0, 1e300),
    error=st.floats(0, 1e300),
    library_identity=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    measured_at=st.integers(0, 2**53),
)


@settings(max_examples=200, deadline=None)
@given(record=records)
def test_any_valid_record_survives(record: dict[str, Any]) -> None:
    assert parse(_core.format_results([record], FINGERPRINT)) == ([record], [])
    assert parse(document(record)) == ([record], [])


def test_the_document_follows_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    text = _core.format_results([make_record(m=1), make_record(m=2)], FINGERPRINT)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema)
    for field in make_record():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document(make_record(**{field: []})), schema)


BAD_FIELDS = [
    ("m", "abc", 'm: expected an integer from 0 to 2^53, found "abc"'),
    ("m", -1, "m: expected an integer from 0 to 2^53, found -1"),
    ("m", 1.5, "m: expected an integer from 0 to 2^53, found 1.5"),
    ("m", True, "m: expected an integer from 0 to 2^53, found true"),
    ("m", None, "m: expected an integer from 0 to 2^53, found null"),
    ("m", 2**53 + 1, "m: expected an integer from 0 to 2^53, found 9007199254740993"),
    ("m", 10**30, "m: expected an integer from 0 to 2^53, found 1" + "0" * 30),
    ("m", [1], "m: expected an integer from 0 to 2^53, found [1]"),
    ("align_a", 5, "align_a: expected an integer from 0 to 4, found 5"),
    ("threads", 65536, "threads: expected an integer from 0 to 65535, found 65536"),
    ("trans_a", 1, "trans_a: expected true or false, found 1"),
    ("a_type", "int8", 'a_type: expected one of "fp32", "fp16", "bf16", "fp64", found "int8"'),
    ("alpha", 1, 'alpha: expected one of "0", "1", "other", found 1'),
    ("winner_ms", -0.5, "winner_ms: expected a number from 0 up, found -0.5"),
    ("winner_ms", "1", 'winner_ms: expected a number from 0 up, found "1"'),
    ("winner", "native", 'winner: expected an object, found "native"'),
    ("winner", {}, "winner.library: expected a string that is not empty, found nothing"),
    ("winner", {"library": ""}, 'winner.library: expected a string that is not empty, found ""'),
    ("library_identity", 5, "library_identity: expected a string, found 5"),
    ("colour", "red", 'colour: expected no such field, found "red"'),
]


@pytest.mark.parametrize(("field", "value", "message"), BAD_FIELDS)
def test_a_bad_field_drops_its_entry_alone(field: str, value: Any, message: str) -> None:
    good = [make_record(m=i + 1) for i in range(3)]
    entries = [*good, make_record(m=99, **{field: value}) if field != "m" else make_record(m=value)]
    found, problems = parse(document(*entries))
    assert found == good
    assert problems == [f"results.json: machines[0].entries[3].{message}; entry ignored"]


@pytest.mark.parametrize("field", sorted(make_record()))
def test_a_missing_field_drops_its_entry_alone(field: str) -> None:
    broken = make_record()
    del broken[field]
    found, problems = parse(document(broken, make_record(m=7)))
    assert [record["m"] for record in found] == [7]
    assert len(problems) == 1
    assert f"machines[0].entries[0].{field}: expected" in problems[0]
    assert problems[0].endswith("found nothing; entry ignored")


@pytest.mark.parametrize("entry", [None, 5, "x", [], [[]], {}])
def test_an_entry_that_is_no_record(entry: Any) -> None:
    found, problems = parse(document(make_record(), entry))
    assert len(found) == 1
    assert len(problems) == 1
    assert "machines[0].entries[1]" in problems[0]


def test_an_impossible_gemm_is_dropped() -> None:
    found, problems = parse(document(make_record(lda=3)))
    assert found == []
    assert "lda is too short" in problems[0]


@pytest.mark.parametrize("number", ["1e999", "1e-999", "-1e999", "9" * 400, "0." + "0" * 400 + "1"])
def test_numbers_that_no_double_holds_drop_the_entry_only(number: str) -> None:
    text = json.dumps(document(make_record(m=1), make_record(m=2, error=777)))
    found, problems = parse(text.replace("777", number))
    if float(number) == 0:
        assert [record["m"] for record in found] == [1, 2]
    else:
        assert [record["m"] for record in found] == [1]
        assert "entries[1].error: expected a number from 0 up" in problems[0]


def test_duplicate_keys() -> None:
    text = json.dumps(document(make_record(m=1), make_record(m=2)))
    found, problems = parse(text.replace('{"m": 1,', '{"m": 1, "m": 5,'))
    assert [record["m"] for record in found] == [2]
    assert problems == [
        "results.json: machines[0].entries[0].m: expected once, found twice; entry ignored"
    ]
    found, problems = parse(text.replace('"schema": 1', '"schema": 1, "schema": 1'))
    assert found == []
    assert problems == ["results.json: schema: expected once, found twice; document ignored"]


WHOLE = json.dumps(document(make_record()))
REFUSED = [
    ("", "expected a JSON document, found an empty one"),
    ("  \n", "expected a JSON document, found an empty one"),
    ("not json", 'found damage: expected a value at line 1, column 1, found "n"'),
    ("\x00\x01", "found damage"),
    ('{"schema": 1, "machines": NaN}', "found damage"),
    ('{"schema": 1, "machines": [Infinity]}', "found damage"),
    ('{"schema": 1, "machines": [],}', "found damage: expected a key"),
    ("[]", "expected an object, found []"),
    ("5", "expected an object, found 5"),
    ("{}", "schema: expected 1, found nothing"),
    ('{"schema": 2, "machines": []}', "schema: expected 1, found 2"),
    ('{"schema": "1", "machines": []}', 'schema: expected 1, found "1"'),
    ('{"schema": 1}', "machines: expected an array, found nothing"),
    ('{"schema": 1, "machines": {}}', "machines: expected an array, found {}"),
    ('{"schema": 1, "machines": [], "x": 1}', "x: expected no such field, found 1"),
    ("[" * 100_000, "expected no deeper nesting"),
    ('{"a":' * 100_000, "expected no deeper nesting"),
    (WHOLE + "x", "expected the end"),
    ('"\\ud800"', "expected a second surrogate"),
    ("01", "expected the end"),
    ("-", "expected a value"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_documents_that_are_refused(text: str, message: str) -> None:
    found, problems = parse(text)
    assert found == []
    assert len(problems) == 1
    assert problems[0].startswith("results.json: ")
    assert message in problems[0]
    assert problems[0].endswith("; document ignored")


def test_truncated_at_every_byte() -> None:
    for size in range(len(WHOLE)):
        found, problems = parse(WHOLE[:size])
        assert found == []
        assert len(problems) == 1


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), junk=st.text(max_size=3), cut=st.integers(0, 5))
def test_damage_anywhere_never_raises(at: int, junk: str, cut: int) -> None:
    found, problems = parse(WHOLE[:at] + junk.encode(errors="replace").decode() + WHOLE[at + cut :])
    assert len(found) <= 1
    assert found or problems or '"entries": []' in WHOLE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(value=json_values, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_any_json_is_understood(value: Any, indent: int | None, ascii_only: bool) -> None:
    # Kept, word for word, as the section of another machine.
    section = {"fingerprint": OTHER_MACHINE, "entries": [value]}
    text = json.dumps({"schema": 1, "machines": [section]}, indent=indent, ensure_ascii=ascii_only)
    found, problems = parse(text)
    assert found == []
    assert "damage" not in problems[0] or "deeper nesting" in problems[0]


def test_another_machine() -> None:
    found, problems = parse(document(make_record(), make_record(m=2), fingerprint=OTHER_MACHINE))
    assert found == []
    assert problems == [
        "results.json: machines[0].fingerprint.cores: expected 4, found 64; "
        "2 entries of another machine ignored"
    ]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (5, "machines[1]: expected an object, found 5; section ignored"),
        ({}, "machines[1].fingerprint: expected an object, found nothing; section ignored"),
        ({"fingerprint": FINGERPRINT}, "machines[1].entries: expected an array, found nothing"),
        ({"fingerprint": 5, "entries": []}, "machines[1].fingerprint: expected an object, found 5"),
        ({"fingerprint": {}, "entries": []}, "machines[1].fingerprint.device: expected a string"),
        ({"fingerprint": FINGERPRINT, "entries": 5}, "machines[1].entries: expected an array, found 5"),
        ({"fingerprint": FINGERPRINT, "entries": [], "x": 1}, "machines[1].x: expected no such field"),
    ],
)
def test_a_bad_section_is_ignored_alone(section: Any, message: str) -> None:
    content = document(make_record())
    content["machines"].append(section)
    found, problems = parse(content)
    assert len(found) == 1
    assert len(problems) == 1
    assert message in problems[0]


def test_the_newer_of_two_records_wins() -> None:
    old, new = make_record(measured_at=5, tried=1), make_record(measured_at=9, tried=2)
    assert parse(document(old, new))[0] == [new]
    assert parse(document(new, old))[0] == [new]
    content = document(new)
    content["machines"].append(document(old)["machines"][0])
    assert parse(content)[0] == [new]


def test_format_refuses_invalid_records() -> None:
    with pytest.raises(ValueError, match=r"m: expected an integer from 0 to 2\^53, found -5"):
        _core.format_results([make_record(m=-5)], FINGERPRINT)


def test_cpu_fingerprint() -> None:
    fingerprint = _core.cpu_fingerprint()
    assert sorted(fingerprint) == ["cores", "device", "features", "model"]
    assert fingerprint["device"] == "cpu"
    assert fingerprint["model"]
    assert fingerprint["features"].split() == sorted(fingerprint["features"].split())
    assert fingerprint["cores"] == len(os.sched_getaffinity(0))


def test_the_size_of_a_file_does_not_matter_much() -> None:
    # Ten times the entries take about ten times as long, not a hundred.
    def seconds(count: int) -> float:
        text = _core.format_results([make_record(m=i + 1) for i in range(count)], FINGERPRINT)
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            assert _core.measure_load(text, FINGERPRINT) == count
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(10_000) < 60 * seconds(1_000)


# ---- files --------------------------------------------------------------------------------------


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")


def test_save_and_merge(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1), make_record(m=2, tried=1, measured_at=5))
    save(path, make_record(m=2, tried=2, measured_at=9), make_record(m=3))
    assert sizes(path) == [1, 2, 3]
    save(path, make_record(m=2, tried=3, measured_at=7))
    assert {record["m"]: record["tried"] for record in load(path)[0]} == {1: 5, 2: 2, 3: 5}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def test_other_machines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    foreign = {"fingerprint": OTHER_MACHINE, "entries": [make_record(), {"from": "the future", "x": 1e999}]}
    content = {"schema": 1, "producer": "x", "machines": [foreign]}
    path.write_text(json.dumps(content).replace("Infinity", "1e999"))
    save(path, make_record(m=1))
    save(path, make_record(m=2))
    assert sizes(path) == [1, 2]
    assert sizes(path, OTHER_MACHINE) == [128]
    assert "the future" in path.read_text()
    assert "1e999" in path.read_text()


@pytest.mark.parametrize("content", ["garbage", WHOLE[:100], '{"schema": 2, "machines": []}', "[1]"])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    for turn, name in enumerate(["results.json.bad", "results.json.bad.2", "results.json.bad.3"]):
        path.write_text(content + " " * turn)
        save(path, make_record(m=turn + 1))
        assert sizes(path) == [turn + 1]
        assert (tmp_path / name).read_text() == content + " " * turn


def test_a_file_with_a_bad_entry_is_set_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document(make_record(m=1), {"m": "abc"})))
    save(path, make_record(m=2))
    save(path, make_record(m=3))
    assert sizes(path) == [1, 2, 3]
    assert "abc" in (tmp_path / "results.json.bad").read_text()
    assert not (tmp_path / "results.json.bad.2").exists()


def test_an_empty_file_is_just_filled(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.touch()
    save(path, make_record(m=1))
    assert sizes(path) == [1]
    assert not (tmp_path / "results.json.bad").exists()


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    path.chmod(0o640)
    save(path, make_record(m=2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_a_symbolic_link_stays(tmp_path: Path, dangling: bool, relative: bool) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "target.json"
    if not dangling:
        save(target, make_record(m=1))
    link = tmp_path / "link.json"
    link.symlink_to("real/target.json" if relative else target)
    save(link, make_record(m=2))
    assert link.is_symlink()
    assert sizes(target) == ([2] if dangling else [1, 2])
    assert (tmp_path / "real" / "target.json.lock").exists()


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="cannot follow the link"):
        save(tmp_path / "a", make_record())


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("results.json"), make_record(m=1))
    assert sizes(tmp_path / "results.json") == [1]


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/results\.json.*No such file"):
        save(tmp_path / "none" / "results.json", make_record())


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"results\.json: cannot read: Is a directory"):
        save(path, make_record())
    found, problems = load(path)
    assert found == []
    assert "Is a directory" in problems[0]


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    os.mkfifo(path)
    assert "not a regular file" in load(path)[1][0]
    with pytest.raises(OSError, match="not a regular file"):
        save(path, make_record())


def as_somebody(path: Path, action: str) -> str:
    """Runs save or load as a user without rights, where root would have them all; what it said."""
    code = f"""
        import json, os, sys
        from onnxruntime_ep_tunableop import _core
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from tuning_helpers import FINGERPRINT, make_record
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            if {action!r} == "save":
                _core.save_file({str(path)!r}, [make_record(m=1)], FINGERPRINT)
            else:
                print(_core.load_file({str(path)!r}, FINGERPRINT)[1])
        except OSError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def public_path(tmp_path: Path) -> Path:
    """A file in a folder that everybody may write to, if everybody can get there."""
    folder = tmp_path / "public"
    folder.mkdir()
    for parent in [folder, *folder.parents]:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(0o755)
    folder.chmod(0o777)
    return folder / "results.json"


def test_an_unreadable_file(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0)
    public_path.with_name("results.json.lock").chmod(0o666)
    assert "cannot open: Permission denied" in as_somebody(public_path, "load")
    assert "cannot open: Permission denied" in as_somebody(public_path, "save")
    public_path.chmod(0o600)
    assert sizes(public_path) == [9]


def test_an_unwritable_folder(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0o644)
    public_path.parent.chmod(0o555)
    assert "Permission denied" in as_somebody(public_path, "save")
    public_path.parent.chmod(0o755)
    assert sizes(public_path) == [9]


def test_an_unwritable_file(public_path: Path) -> None:
    save(public_path, make_record(m=9))
    public_path.chmod(0o444)
    public_path.with_name("results.json.lock").chmod(0o666)
    assert "cannot write: Permission denied" in as_somebody(public_path, "save")
    assert sizes(public_path) == [9]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk(tiny_disk: Path) -> None:
    path = tiny_disk / "results.json"
    save(path, make_record(m=1))
    with pytest.raises(OSError, match="No space left on device"):
        save(path, *[make_record(m=i + 2) for i in range(200)])
    assert sizes(path) == [1]
    assert sorted(p.name for p in tiny_disk.iterdir()) == ["results.json", "results.json.lock"]


def test_a_file_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, old_limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path, *[make_record(m=i + 2) for i in range(200)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert sizes(path) == [1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def test_killed_while_saving(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    code = f"""
        import itertools, sys
        from onnxruntime_ep_tunableop import _core
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from tuning_helpers import FINGERPRINT, make_record
        print("ready", flush=True)
        for turn in itertools.count(2):
            _core.save_file({str(path)!r}, [make_record(m=turn)], FINGERPRINT)
    """
    size = 1
    for turn in range(15):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.003 * turn)
        process.kill()
        process.wait()
        process.stdout.close()
        found = sizes(path)
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= size
        size = len(found)
    # What a killed process left behind goes with the next save.
    (tmp_path / ".results.json.tmp.1.1").write_text("half a fi")
    save(path, make_record(m=1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", "results.json.lock"]


def _save_many(path: Path, first: int, count: int) -> None:
    for i in range(first, first + count):
        save(path, make_record(m=i))


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_save_many, args=(path, 1 + 25 * i, 25)) for i in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        if path.exists():
            sizes(path)  # whole at every moment
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sizes(path) == list(range(1, 101))


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save(path, make_record(m=1))
    context = multiprocessing.get_context("spawn")
    with (tmp_path / "results.json.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = context.Process(target=_save_many, args=(path, 2, 1))
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        assert sizes(path) == [1]
    worker.join()
    assert worker.exitcode == 0
    assert sizes(path) == [1, 2]
