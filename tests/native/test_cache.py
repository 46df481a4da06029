"""Results documents: strict reading, each entry on its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import FINGERPRINT, OTHER_MACHINE, document, make_record

SCHEMA = Path(__file__).parents[2] / "docs" / "tuning-results.schema.json"


def parse(content: Any, origin: str = "results.json") -> tuple[list[dict[str, Any]], list[str]]:
    text = content if isinstance(content, str) else json.dumps(content)
    return native.parse_results(text, origin, FINGERPRINT)


# ---- documents ----------------------------------------------------------------------------------


def test_round_trip() -> None:
    records = [make_record(m=i + 1, winner_ms=0.1 * i, error=1e-300) for i in range(50)]
    text = native.format_results(records, FINGERPRINT)
    assert parse(text) == (records, [])
    assert native.format_results(parse(text)[0], FINGERPRINT) == text


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
    measured_at=st.integers(0, 1_750_000_000),
    budget_ms=st.floats(0, 1e300),
)


@settings(max_examples=200, deadline=None)
@given(record=records)
def test_any_valid_record_survives(record: dict[str, Any]) -> None:
    assert parse(native.format_results([record], FINGERPRINT)) == ([record], [])
    assert parse(document(record)) == ([record], [])


def test_the_document_follows_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    text = native.format_results([make_record(m=1), make_record(m=2)], FINGERPRINT)
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
    assert problems == ["results.json: machines[0].entries[0].m: expected once, found twice; entry ignored"]
    found, problems = parse(text.replace('"schema": 2', '"schema": 2, "schema": 2'))
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
    ("{}", "schema: expected 1 or 2, found nothing"),
    ('{"schema": 3, "machines": []}', "schema: expected 1 or 2, found 3"),
    ('{"schema": 0, "machines": []}', "schema: expected 1 or 2, found 0"),
    ('{"schema": 2.0, "machines": []}', "schema: expected 1 or 2, found 2.0"),
    ('{"schema": "1", "machines": []}', 'schema: expected 1 or 2, found "1"'),
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
        native.format_results([make_record(m=-5)], FINGERPRINT)


def test_cpu_fingerprint() -> None:
    fingerprint = native.cpu_fingerprint()
    assert sorted(fingerprint) == ["cores", "device", "features", "model"]
    assert fingerprint["device"] == "cpu"
    assert fingerprint["model"]
    assert fingerprint["features"].split() == sorted(fingerprint["features"].split())
    assert fingerprint["cores"] == len(os.sched_getaffinity(0))


def test_the_size_of_a_file_does_not_matter_much() -> None:
    # Ten times the entries take about ten times as long, not a hundred.
    def seconds(count: int) -> float:
        text = native.format_results([make_record(m=i + 1) for i in range(count)], FINGERPRINT)
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            assert native.measure_load(text, FINGERPRINT) == count
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(10_000) < 60 * seconds(1_000)


def test_the_fingerprint_does_not_depend_on_affinities() -> None:
    code = """
        import os, sys
        if sys.argv[1] == "pinned":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import tunableop_native_tests as native
        print(native.cpu_fingerprint()["cores"])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    free, pinned = (
        subprocess.run([*command, how], check=True, capture_output=True, text=True).stdout
        for how in ("free", "pinned")
    )
    assert int(free) == int(pinned) == os.sysconf("SC_NPROCESSORS_ONLN")


def test_what_won_no_race_never_replaces_what_did() -> None:
    raced = make_record(measured_at=5, tried=1)
    unraced = make_record(measured_at=9, tried=2, budget_ms=100.0)
    for order in ([raced, unraced], [unraced, raced]):
        assert parse(document(*order)) == ([raced], [])
    of_another_build = unraced | {"library_identity": "0.2.0+avx512"}
    assert parse(document(raced, of_another_build)) == ([of_another_build], [])


def test_a_measurement_from_the_future_counts_as_one_of_now() -> None:
    before = int(time.time())
    ((record,), problems) = parse(document(make_record(measured_at=2**52)))
    assert problems == []
    assert before <= record["measured_at"] <= int(time.time())
