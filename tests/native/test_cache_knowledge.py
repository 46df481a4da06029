"""What a section holds beside plain entries: read strictly, merged by rule, and older documents."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import FINGERPRINT, OTHER_MACHINE, document, make_record

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "tuning-results.schema.json"
PROBLEM = {key: value for key, value in make_record().items() if key in native.Problem.__dict__}
DAY = 24 * 60 * 60
TODAY = int(time.time()) // DAY

Section = dict[str, Any]

#: Fields of an entry that may be missing, and what they are then.
DEFAULTS: Section = {
    "stock_ms": 0, "stock_wins": False, "cold_b": False, "temperature_c": 0, "clock_mhz": 0,
    "confirmations": 0, "uses": 0, "m_low": 0, "m_high": 0,
}  # fmt: skip
FULL: Section = {
    "stock_ms": 1.5, "stock_wins": True, "cold_b": True, "temperature_c": 61.5, "clock_mhz": 3600.25,
    "confirmations": 3, "uses": 2**53, "m_low": 65, "m_high": 128,
}  # fmt: skip


def seen(**fields: Any) -> Section:
    return {**PROBLEM, "uses": 5, **fields}


def node(**fields: Any) -> Section:
    whole = {
        "op": "MatMul", "name": "/layer.0/up", "k": 384, "n": 1536, "uses": 7, "ours_ms": 1.5,
        "stock_ms": 1.25, "stock": True, "measured_at": 1_750_000_000,
    }  # fmt: skip
    return {**whole, **fields}


def form(**fields: Any) -> Section:
    whole = {
        "group": "MatMul+Add", "shape": "M=24,N=64,K=64,fp16", "form": "two kernels",
        "usual_form": "epilogue", "library_identity": "0.1.0 cublaslt 13.1.0+sm_90", "form_ms": 0.5,
        "usual_ms": 0.75, "cold": True, "measured_at": 1_750_000_000,
    }  # fmt: skip
    return {**whole, **fields}


def denied(**fields: Any) -> Section:
    whole = {
        "library": "native", "kernel": "avx512:4x16", "library_identity": "0.1.0+avx512",
        "reason": "it hung", "deaths": 1, "denied_at": 1_750_000_000, "until": 0,
    }  # fmt: skip
    return {**whole, **fields}


ELEMENTS: dict[str, tuple[Any, str]] = {
    "seen": (seen, "problem"),
    "nodes": (node, "node"),
    "forms": (form, "form"),
    "denied": (denied, "denial"),
}
WHOLE: Section = {
    "entries": [make_record(**FULL), make_record(m=1)],
    "seen": [seen(), seen(m=1)],
    "nodes": [node(), node(name="/layer.1/up")],
    "forms": [form(), form(shape="M=25,N=64,K=64,fp16", form_ms=0.0, usual_ms=0.0, cold=False)],
    "denied": [denied(), denied(kernel="x", until=2**53)],
    "spent": {"day": TODAY, "ms": 12.5},
}


def parse(content: Any) -> tuple[Section, list[str]]:
    text = content if isinstance(content, str) else json.dumps(content)
    found, problems = native.parse_knowledge(text, "results.json", FINGERPRINT)
    return found, problems


def document_of(schema: int = 2, /, **parts: Any) -> Section:
    section: Section = {"fingerprint": FINGERPRINT, "entries": [], **parts}
    return {"schema": schema, "machines": [section]}


def saved(path: Path, *sections: Section) -> Section:
    """What the file holds after these saves."""
    for section in sections:
        native.save_knowledge(path, section, FINGERPRINT)
    found, problems = native.load_knowledge(path, FINGERPRINT)
    assert problems == []
    return dict(found)


# ---- reading and writing ------------------------------------------------------------------------


def test_everything_survives(tmp_path: Path) -> None:
    assert parse(document_of(**WHOLE)) == (WHOLE, [])
    assert saved(tmp_path / "results.json", WHOLE) == WHOLE


def by(*fields: str) -> Callable[[Any], Any]:
    """What must not occur twice."""
    return lambda element: tuple(element[field] for field in fields)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
counts = st.integers(0, 2**53)
numbers = st.floats(0, 1e300)
sections = st.fixed_dictionaries(
    {
        "entries": st.lists(
            st.builds(
                make_record,
                m=st.just(100),
                k=st.integers(0, 384),
                stock_ms=st.floats(1e-300, 1e300),
                stock_wins=st.just(True),
                temperature_c=st.floats(1, 200),
                uses=st.integers(1, 2**53),
                m_low=st.integers(1, 100),
                m_high=st.integers(100, 2**53),
            ),
            max_size=3,
            unique_by=by("k", "m_low", "m_high"),
        ),
        "seen": st.lists(
            st.builds(seen, m=counts.filter(lambda m: m < 2**30), uses=counts),
            min_size=1,
            max_size=3,
            unique_by=by("m"),
        ),
        "nodes": st.lists(
            st.builds(node, name=texts, op=texts, k=counts, ours_ms=numbers, stock=st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=by("op", "name", "k"),
        ),
        "forms": st.lists(
            st.builds(form, group=texts, shape=texts, form=texts, form_ms=numbers, cold=st.booleans()),
            min_size=1,
            max_size=3,
            unique_by=by("group", "shape"),
        ),
        "denied": st.lists(
            st.builds(denied, kernel=texts, reason=texts, deaths=st.integers(0, 10**6), until=counts),
            min_size=1,
            max_size=3,
            unique_by=by("kernel"),
        ),
        "spent": st.fixed_dictionaries({"day": st.integers(1, TODAY), "ms": numbers}),
    }
)


@settings(max_examples=150, deadline=None)
@given(section=sections)
def test_any_valid_section_survives(section: Section) -> None:
    assert parse(document_of(**section)) == (section, [])


def test_fields_with_their_defaults_are_not_written() -> None:
    assert parse(document(make_record(**DEFAULTS))) == ({"entries": [make_record()]}, [])
    assert parse(document(make_record(**FULL))) == ({"entries": [make_record(**FULL)]}, [])
    for field, value in FULL.items():
        if field not in ("m_low", "m_high"):
            assert parse(document(make_record(**{field: value})))[0]["entries"][0][field] == value


@pytest.mark.parametrize("order", [sorted, lambda fields: sorted(fields, reverse=True)])
def test_the_order_of_fields_does_not_matter(order: Any) -> None:
    record = make_record(**FULL)
    assert parse(document({field: record[field] for field in order(record)}))[0]["entries"] == [record]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("stock_ms", -1, ".stock_ms: expected a number from 0 up, found -1"),
        ("stock_ms", None, ".stock_ms: expected a number from 0 up, found null"),
        ("stock_wins", 1, ".stock_wins: expected true or false, found 1"),
        ("cold_b", "no", '.cold_b: expected true or false, found "no"'),
        ("temperature_c", -3.5, ".temperature_c: expected a number from 0 up, found -3.5"),
        ("clock_mhz", [], ".clock_mhz: expected a number from 0 up, found []"),
        ("confirmations", 10**7, ".confirmations: expected an integer from 0 to 1000000, found 10000000"),
        ("uses", -1, ".uses: expected an integer from 0 to 2^53, found -1"),
        ("uses", 0.5, ".uses: expected an integer from 0 to 2^53, found 0.5"),
        ("m_low", 5, ": expected m_low <= m <= m_high, found 5, 128, 0"),
        ("m_high", 127, ": expected m_low <= m <= m_high, found 0, 128, 127"),
        ("m_low", -1, ".m_low: expected an integer from 0 to 2^53, found -1"),
    ],
)
def test_a_bad_optional_field_drops_its_entry_alone(field: str, value: Any, message: str) -> None:
    found, problems = parse(document(make_record(m=1), make_record(**{field: value})))
    assert found == {"entries": [make_record(m=1)]}
    assert problems == [f"results.json: machines[0].entries[1]{message}; entry ignored"]


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_bad_element_is_dropped_alone(kind: str) -> None:
    make, word = ELEMENTS[kind]
    good = make()
    bad: list[tuple[Any, str]] = [
        (5, ": expected an object, found 5"),
        ({**good, "colour": "red"}, '.colour: expected no such field, found "red"'),
    ]
    for field in good:
        bad += [({**good, field: []}, f".{field}: expected "), ({**good, field: -1}, f".{field}: expected ")]
        bad.append(({key: value for key, value in good.items() if key != field}, f".{field}: expected "))
    found, problems = parse(document_of(**{kind: [*[element for element, _ in bad], good]}))
    assert found == {"entries": [], kind: [good]}
    assert len(problems) == len(bad)
    for index, ((_, message), problem) in enumerate(zip(bad, problems, strict=True)):
        assert problem.startswith(f"results.json: machines[0].{kind}[{index}]{message}")
        assert problem.endswith(f"; {word} ignored")
    twice = json.dumps(document_of(**{kind: [good]})).replace('"uses": ', '"uses": 1, "uses": ')
    twice = twice.replace('"cold": ', '"cold": false, "cold": ')
    twice = twice.replace('"deaths": ', '"deaths": 1, "deaths": ')
    assert "expected once, found twice; " + word in parse(twice)[1][0]


def test_seen_problems_are_possible() -> None:
    found, problems = parse(document_of(seen=[seen(lda=3)]))
    assert found == {"entries": []}
    assert "machines[0].seen[0]: expected a possible GEMM" in problems[0]
    assert problems[0].endswith("lda is too short; problem ignored")


@pytest.mark.parametrize(
    ("spent", "message"),
    [
        (5, ": expected an object, found 5"),
        ({"day": 5}, ".ms: expected a number from 0 up, found nothing"),
        ({"day": 5, "ms": "1"}, '.ms: expected a number from 0 up, found "1"'),
        ({"day": 10**7, "ms": 1}, ".day: expected an integer from 0 to 1000000, found 10000000"),
    ],
)
def test_bad_time_is_dropped_alone(spent: Any, message: str) -> None:
    found, problems = parse(document_of(spent=spent, entries=[make_record()]))
    assert found == {"entries": [make_record()]}
    assert problems == [f"results.json: machines[0].spent{message}; time ignored"]


@pytest.mark.parametrize("kind", ELEMENTS)
def test_a_part_that_is_no_array(kind: str) -> None:
    found, problems = parse(document_of(**{kind: {}}, entries=[make_record()]))
    assert found == {"entries": [make_record()]}
    assert problems == [f"results.json: machines[0].{kind}: expected an array, found {{}}; part ignored"]


@pytest.mark.parametrize("kind", [*ELEMENTS, "spent"])
def test_bad_parts_are_set_aside_and_not_lost(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document_of(**{kind: ["junk of somebody"]})))
    saved(path, WHOLE)
    assert "junk of somebody" in (tmp_path / "results.json.bad").read_text()


def test_times_in_the_future_count_as_now() -> None:
    future = 2**52
    found, problems = parse(
        document_of(
            nodes=[node(measured_at=future)],
            forms=[form(measured_at=future)],
            denied=[denied(denied_at=future, until=future)],
            spent={"day": 10**6, "ms": 1},
        )
    )
    assert problems == []
    now = int(time.time())
    assert now - 60 < found["nodes"][0]["measured_at"] <= now
    assert now - 60 < found["forms"][0]["measured_at"] <= now
    assert now - 60 < found["denied"][0]["denied_at"] <= now
    assert found["denied"][0]["until"] == future
    assert TODAY <= found["spent"]["day"] <= now // DAY


# ---- merging ------------------------------------------------------------------------------------


def test_entries_keep_the_larger_use_and_the_later_choice(tmp_path: Path) -> None:
    first = make_record(measured_at=5, uses=100, tried=1, confirmations=4)
    later = make_record(measured_at=9, uses=10, tried=2)
    merged = {**later, "uses": 100}
    assert saved(tmp_path / "a.json", {"entries": [first]}, {"entries": [later]})["entries"] == [merged]
    assert saved(tmp_path / "b.json", {"entries": [later]}, {"entries": [first]})["entries"] == [merged]
    assert parse(document(first, later))[0]["entries"] == [merged]


def test_what_was_raced_stays_beside_what_could_not_be_measured_later(tmp_path: Path) -> None:
    raced = make_record(measured_at=5)
    unmeasured = make_record(measured_at=9, winner_ms=0.0, default_ms=0.0)
    assert saved(tmp_path / "a.json", {"entries": [raced]}, {"entries": [unmeasured]})["entries"] == [raced]
    assert saved(tmp_path / "b.json", {"entries": [unmeasured]}, {"entries": [raced]})["entries"] == [raced]


def test_a_bucket_and_its_problem_stand_side_by_side(tmp_path: Path) -> None:
    plain, bucket = make_record(), make_record(m_low=65, m_high=128, tried=2)
    wide = make_record(m_low=65, m_high=256)
    path = tmp_path / "results.json"
    assert saved(path, {"entries": [plain, bucket]}, {"entries": [wide]})["entries"] == [plain, bucket, wide]
    # Whatever size it was measured at, a range has one choice.
    again = make_record(m=100, m_low=65, m_high=128, tried=3)
    assert saved(path, {"entries": [again]})["entries"] == [plain, again, wide]
    other = make_record(k=192, lda=384, m_low=65, m_high=128)
    assert saved(path, {"entries": [other]})["entries"] == [plain, again, wide, other]


def test_a_bucket_of_batches_has_one_choice(tmp_path: Path) -> None:
    def bucket(m: int, **fields: Any) -> Section:
        return make_record(m=m, batch=4, stride_a=m * 384, stride_c=m * 1536, m_low=65, m_high=128, **fields)

    path = tmp_path / "results.json"
    latest = bucket(90, tried=2)
    assert saved(path, {"entries": [bucket(80)]}, {"entries": [latest]})["entries"] == [latest]
    gaps = bucket(90) | {"stride_a": 10**6}
    assert saved(path, {"entries": [gaps]})["entries"] == [latest, gaps]


def test_seen_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    one = {"seen": [seen(uses=5), seen(m=1, uses=5)], "nodes": [node(uses=9, measured_at=5, stock=True)]}
    two = {
        "seen": [seen(m=1, uses=7), seen(uses=3), seen(m=2)],
        "nodes": [node(uses=4, measured_at=6, stock=False)],
    }
    found = saved(path, one, two)
    assert found["seen"] == [seen(uses=5), seen(m=1, uses=7), seen(m=2)]
    assert found["nodes"] == [node(uses=9, measured_at=6, stock=False)]
    assert saved(path, {"nodes": [node(uses=99, measured_at=5, stock=True), node(k=1)]})["nodes"] == [
        node(uses=99, measured_at=6, stock=False),
        node(k=1),
    ]


def test_forms(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first, later = form(measured_at=5), form(measured_at=6, form="epilogue")
    other = form(group="Projections")
    assert saved(path, {"forms": [later]}, {"forms": [first, other]})["forms"] == [later, other]
    unmeasured = form(measured_at=7, form_ms=0.0)
    assert saved(path, {"forms": [unmeasured]})["forms"] == [later, other]
    of_other_libraries = {**unmeasured, "library_identity": "0.2.0"}
    assert saved(path, {"forms": [of_other_libraries]})["forms"] == [of_other_libraries, other]
    measured = form(measured_at=1, library_identity="0.2.0")
    assert saved(path, {"forms": [measured]})["forms"] == [measured, other]


def test_denials(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    soon, late = int(time.time()) + 1000, int(time.time()) + 9000
    first = denied(denied_at=5, until=soon, reason="first", deaths=1)
    second = denied(denied_at=9, until=late, reason="second", deaths=3)
    of_another_build = denied(library_identity="0.2.0")
    merged = {**first, "until": late, "deaths": 3}
    assert saved(path, {"denied": [second, of_another_build]}, {"denied": [first]})["denied"] == [
        merged,
        of_another_build,
    ]
    assert saved(path, {"denied": [denied(denied_at=7, until=0, deaths=2)]})["denied"][0] == {
        **merged,
        "until": 0,
    }
    assert saved(path, {"denied": [second]})["denied"][0] == {**merged, "until": 0}  # for good is for good


def test_denials_end(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    now = int(time.time())
    over, lasting = denied(kernel="over", until=now - 10), denied(kernel="lasting", until=now + 1000)
    text = json.dumps(document_of(denied=[over, lasting]))
    assert parse(text)[0]["denied"] == [over, lasting]  # who reads sees how it was
    path.write_text(text)
    assert saved(path, {"denied": [denied(kernel="of us", until=1)]})["denied"] == [lasting]


def test_a_long_reason_is_cut_and_read_again(tmp_path: Path) -> None:
    reason = "é" * 2000
    (found,) = saved(tmp_path / "results.json", {"denied": [denied(reason=reason)]})["denied"]
    assert found["reason"] == "é" * 500


def test_time_adds_up_within_a_day(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    yesterday, today = {"day": TODAY - 1, "ms": 8.0}, {"day": TODAY, "ms": 2.5}
    assert saved(path, {"spent": yesterday}, {"spent": yesterday})["spent"] == {"day": TODAY - 1, "ms": 16.0}
    assert saved(path, {"spent": today})["spent"] == today
    assert saved(path, {"spent": today})["spent"] == {"day": TODAY, "ms": 5.0}
    assert saved(path, {"spent": yesterday})["spent"] == {"day": TODAY, "ms": 5.0}
    assert saved(path, {"entries": [make_record()]})["spent"] == {"day": TODAY, "ms": 5.0}
    assert saved(path, {"spent": {"day": TODAY, "ms": 1.7e308}}, {"spent": {"day": TODAY, "ms": 1.7e308}})[
        "spent"
    ]["ms"] == pytest.approx(1.797e308, rel=1e-3)


def test_a_save_changes_only_the_lines_of_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    many = {**WHOLE, "entries": [make_record(m=i + 1) for i in range(50)]}
    saved(path, {key: value for key, value in many.items() if key != "spent"})
    before = path.read_text().splitlines()
    saved(path, {"entries": [make_record(m=7, tried=9)], "nodes": [node(stock=False)]})
    after = path.read_text().splitlines()
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 2


# ---- versions -----------------------------------------------------------------------------------


def test_a_document_of_schema_1_is_read_and_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    foreign = {"fingerprint": OTHER_MACHINE, "entries": [make_record(m=3), {"odd": 1}]}
    old = document_of(1, entries=[make_record(m=1), make_record(m=2)])
    old["machines"].append(foreign)
    path.write_text(json.dumps(old))
    assert native.load_knowledge(path, FINGERPRINT)[0] == {"entries": [make_record(m=1), make_record(m=2)]}
    native.save_knowledge(path, {"seen": [seen()]}, FINGERPRINT)
    new = json.loads(path.read_text())
    assert new["schema"] == native.SCHEMA_VERSION == 2
    assert new["machines"][0]["entries"] == [make_record(m=1), make_record(m=2)]
    assert new["machines"][0]["seen"] == [seen()]
    assert new["machines"][1:] == [foreign]
    assert not path.with_name("results.json.bad").exists()


@pytest.mark.parametrize("field", FULL)
def test_schema_1_has_no_later_fields(field: str) -> None:
    found, problems = parse(document_of(1, entries=[make_record(), make_record(m=1, **{field: FULL[field]})]))
    assert found == {"entries": [make_record()]}
    assert f"machines[0].entries[1].{field}: expected no such field" in problems[0]


@pytest.mark.parametrize("part", [*ELEMENTS, "spent"])
def test_schema_1_has_entries_only(part: str) -> None:
    found, problems = parse(document_of(1, **{part: WHOLE[part]}))
    assert found == {"entries": []}
    assert f"machines[0].{part}: expected no such field" in problems[0]


# ---- the published schema -----------------------------------------------------------------------


def test_the_schema_says_what_the_reader_does() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    whole = document_of(**WHOLE)
    assert list(validator.iter_errors(whole)) == []
    bare = make_record()
    for kind, element in {
        "entries": make_record(**FULL),
        "seen": seen(),
        "nodes": node(),
        "denied": denied(),
    }.items():
        for field in [*element, "colour"]:
            spoiled: list[Section] = [{**element, field: []}]
            if field in element and (kind != "entries" or field in bare):
                spoiled.append({key: value for key, value in element.items() if key != field})
            for bad in spoiled:
                content = document_of(**{kind: [bad]})
                assert not validator.is_valid(content), (kind, field)
                assert parse(content)[1] != [], (kind, field)
    for content in (
        document_of(**{**WHOLE, "spent": {"day": 1}}),
        document_of(**WHOLE, colour=1),
        {**whole, "schema": 3},
    ):
        assert not validator.is_valid(content)
        assert parse(content)[1] != []


def test_the_example_of_the_docs() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    match = re.search(r"```json\n(.*?)```", (DOCS / "tuning-results.md").read_text(), re.DOTALL)
    assert match is not None
    example = json.loads(match[1])
    jsonschema.validate(example, json.loads(SCHEMA.read_text()))
    (machine,) = example["machines"]
    fingerprint = machine.pop("fingerprint")
    found, problems = native.parse_knowledge(match[1], "example", fingerprint)
    assert problems == []
    assert found == machine
    assert set(machine) == {"entries", "seen", "nodes", "forms", "denied", "spent"}
