"""`tunableop cache` on files made by hand, where every answer is known."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import cli
from onnxruntime_ep_tunableop.cache_tools import document as documents
from onnxruntime_ep_tunableop.cache_tools import here, prune, show, text
from support import results
from support.documents import (
    DAY,
    HERE,
    NOW,
    THERE,
    denied,
    document,
    entry,
    form,
    kernels,
    node,
    problem,
    read,
    section,
    write,
)
from support.process import run_python


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command: (exit code, standard output, standard error)."""

    def call(*arguments: Any) -> tuple[int, str, str]:
        code = cli.main(["cache", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def beside(path: Path) -> list[str]:
    """Names in the file's folder."""
    return sorted(each.name for each in path.parent.iterdir())


# show


def test_show_says_what_the_entries_say(tool: Any, tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.json",
        section(
            entry(8, ms=0.5, default_ms=1.0, uses=1000, measured_at=int(time.time()) - 3 * DAY - 5),
            entry(1, ms=2.0, default_ms=2.0, kernel="plain", cold_b=True, stock_ms=1.0, stock_wins=True),
            entry(4, ms=0.0, default_ms=0.0, budget_ms=5.0, m_low=3, m_high=4),
            seen=[{**problem(5), "uses": 7}, {**problem(8), "uses": 9}, {**problem(3), "uses": 1}],
            nodes=[node("/up"), node("/down", stock=True)],
            forms=[form(), form("M=1,fp16", "epilogue", form_ms=0.75)],
            denied=[denied(until=0), denied("slow", until=1)],
            spent={"day": 20000, "ms": 1500.0},
        ),
    )
    code, out, err = tool("show", file)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "machine 0: cpu: Test CPU, 4 processors"
    assert lines[2] == (
        "entries: 3 problems, 1 on another kernel than the default (2.00x as fast, geometric mean); "
        "1000 uses took 500 ms and saved 500 ms"
    )
    # 2 * 8 * 64 * 32 / 0.5 ms = 65.5 MFLOP/ms
    assert lines[4] == "M=8,N=64,K=32,fp32 native:fast 0.5 1 2.00x 0.06554 1000 500 ms 3d"
    assert any(line.endswith("cold, stock wins") and "native:plain 2 2 1.00x" in line for line in lines)
    assert any(
        line.endswith("bucket m=3..4, no race") and "native:fast - - - - 0 -" in line for line in lines
    )
    at = lines.index("seen but not measured: 1 problem")
    assert lines[at + 2] == "M=5,N=64,K=32,fp32 7", "m = 8 has an entry, m = 3 a bucket"
    assert any(line.startswith("MatMul /up 1 2 5 ") and line.endswith("this provider") for line in lines)
    assert any(
        line.startswith("MatMul /down 1 2 5 ") and line.endswith("the stock provider") for line in lines
    )
    at = lines.index("forms of groups: 2 shapes")
    assert lines[at + 2].startswith("MatMul+Add M=8,N=64,K=32,fp16 two kernels 0.5 epilogue 0.75 1.50x ")
    assert any(line == "native:killer 1 for good wrong answer" for line in lines)
    assert any(line.startswith("native:slow 1 1970-01-01 00:00:01 UTC (over)") for line in lines)
    assert lines[-1] == "spent measuring: 1.5 s on 2024-10-04 (UTC)"


def test_show_of_several_machines_adds_up(tool: Any, tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.json",
        section(entry(ms=1.0, default_ms=2.0, uses=1000)),
        section(entry(ms=1.0, default_ms=4.0, uses=1000), machine=THERE),
    )
    _, out, _ = tool("show", file)
    assert "machine 1: cpu: Other CPU, 64 processors" in out
    assert "all machines: 2 problems, 2 on another kernel than the default (2.83x as fast" in out
    assert "2000 uses took 2.0 s and saved 4.0 s" in out


def test_show_cuts_long_lists_unless_all_is_asked_for(tool: Any, tmp_path: Path) -> None:
    many = show.MOST_ROWS + 5
    file = write(tmp_path / "a.json", section(*(entry(m) for m in range(1, many + 1))))
    _, out, _ = tool("show", file)
    assert out.count("native:fast") == show.MOST_ROWS
    assert "and 5 more (--all)" in out
    _, out, _ = tool("show", file, "--all")
    assert out.count("native:fast") == many
    assert "more (--all)" not in out


def test_show_as_json_and_csv(tool: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(ms=0.5, default_ms=2.0, uses=3), entry(9, ms=0.0)))
    code, out, _ = tool("show", file, "--json", "--csv", tmp_path / "a.csv")
    assert code == 0
    first, second = json.loads(out)["machines"][0]["entries"]
    assert (first["problem"], first["gain"], first["winner_ms"]) == ("M=8,N=64,K=32,fp32", 4.0, 0.5)
    assert first["saved_seconds"] == pytest.approx(3 * 1.5e-3)
    assert (second["gain"], second["gflops"]) == (None, None)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert tuple(rows[0]) == show.COLUMNS
    assert (rows[0]["m"], rows[0]["kernel"], rows[0]["gain"]) == ("8", "native:fast", "4.0")
    assert (rows[1]["ms"], rows[1]["gain"], rows[1]["gflops"]) == ("", "", "")
    assert tool("show", file, "--csv", "-")[1].splitlines()[0] == ",".join(show.COLUMNS)
    assert tool("show", file, "--csv", "-", "--json")[0] == 2


def test_gflops_and_names_are_those_of_explain(tmp_path: Path) -> None:
    session = results.quick_session(results.MODEL)
    results.use(session)
    tunableop.save_cache(session, tmp_path / "a.json")
    shapes = {shape.problem: shape for shape in tunableop.explain(session).shapes}
    (mine,) = documents.read(tmp_path / "a.json").sections
    assert {one.name for one in mine.entries} == set(shapes)
    for one in mine.entries:
        assert one.gflops == pytest.approx(shapes[one.name].gflops)
        assert one.kernel == shapes[one.name].kernel


def test_names_from_a_file_do_not_reach_the_terminal_raw(tool: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(kernel="\x1b[31mred\n"), denied=[denied(reason="\x07")]))
    for out in (tool("show", file)[1], tool("prune", file, "--denied", "--unused", "--dry-run")[1]):
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\\x1b[31mred\\n" in out


def test_lines_of_the_loader_do_not_reach_the_terminal_raw(tool: Any, tmp_path: Path) -> None:
    """Field names as the file has them, cut in the middle of a letter at that."""
    good, file = write(tmp_path / "good.json", section(entry())), tmp_path / "a.json"
    odd = {"\x1b[31m": 1}, {"x" + "é" * 30: 1}
    write(file, section(entry(), {**entry(2), **odd[0]}, {**entry(3), **odd[1]}))
    for arguments in (
        ("validate", file, "--here"),
        ("show", file),
        ("diff", file, good),
        ("merge", tmp_path / "out.json", file),
    ):
        _, out, err = tool(*arguments)
        assert "\x1b" not in out + err
        assert ".\\x1b[31m: expected no such field" in out + err
        assert ".x" + "é" * 19 + "\ufffd: expected no such field" in out + err
    for key in ("\x1b[31m", "x" + "é" * 30):
        file.write_text(json.dumps(document(section(entry()), **{key: 1})))
        for arguments in (
            ("show", file),
            ("merge", good, file),
            ("prune", file, "--unused"),
            ("diff", file, good),
        ):
            code, out, err = tool(*arguments)
            assert code in (1, 2)
            assert "expected no such field" in err
            assert "\x1b" not in out + err


def test_times_that_no_clock_has_measured(tool: Any, tmp_path: Path) -> None:
    """Valid numbers all the same."""
    file = write(
        tmp_path / "a.json",
        section(
            entry(1, ms=5e-324, default_ms=1e308, uses=2**53),
            entry(2, ms=1e308, default_ms=5e-324, uses=2**53),
            entry(2**40, 2**9, 2**9, ms=1e-300, default_ms=1e-300, measured_at=2**53),
        ),
    )
    assert tool("validate", file)[0] == 0, "or else this tests nothing"
    assert tool("show", file)[0] == 0
    found = json.loads(tool("show", file, "--json")[1], parse_constant=lambda word: pytest.fail(word))
    assert [one["gain"] for one in found["machines"][0]["entries"]].count(None) == 2
    assert tool("diff", file, file)[0] == 0
    for kind in ("heatmap", "landscape"):
        assert tool("plot", file, "-o", tmp_path / "a.csv", "--kind", kind)[0] == 0


# validate


def test_validate_says_every_line_of_the_loader(tool: Any, tmp_path: Path) -> None:
    bad = {**entry(2), "m": "abc"}
    file = write(tmp_path / "a.json", section(entry(), bad), section({**entry(3), "extra": 1}, machine=THERE))
    code, out, _ = tool("validate", file)
    assert code == 1
    assert out.splitlines() == [
        f'{file}: machines[0].entries[1].m: expected an integer from 0 to 2^53, found "abc"; entry ignored',
        f"{file}: machines[1].entries[0].extra: expected no such field, found 1; entry ignored",
    ]
    good = write(tmp_path / "b.json", section(entry()), section(entry(), machine=THERE))
    assert tool("validate", good) == (0, f"{good}: right; 2 machines, 2 entries\n", "")
    assert tool("validate", good, file)[0] == 1, "one of several is wrong"


def test_validate_says_what_sessions_say(tool: Any, tmp_path: Path) -> None:
    learned = results.learned()
    learned["machines"][0]["entries"][0]["m"] = -1
    file = results.write(tmp_path / "a.json", learned)
    _, out, _ = tool("validate", file)
    session = results.quick_session(results.MODEL)
    assert out.splitlines() == tunableop.load_cache(session, file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a JSON document, found an empty one; document ignored"),
        ("{", "expected a JSON document, found damage: "),
        ('{"schema": 99, "machines": []}', "schema: expected 1 or 2, found 99; document ignored"),
        ("[]", "expected an object, found []; document ignored"),
    ],
)
def test_what_is_no_document_is_refused_by_each_command(
    tool: Any, tmp_path: Path, content: str, message: str
) -> None:
    file, good = tmp_path / "a.json", write(tmp_path / "good.json", section(entry()))
    file.write_text(content)
    code, out, _ = tool("validate", file)
    assert code == 1
    assert out.startswith(f"{file}: {message}")
    for code, arguments in (
        (1, ("show", file)),
        (2, ("diff", file, good)),
        (2, ("diff", good, file)),
        (1, ("prune", file, "--unused")),
        (1, ("prune", file, "--unused", "--dry-run")),
        (1, ("plot", file, "-o", tmp_path / "a.csv")),
        (1, ("merge", good, file)),
    ):
        before = good.read_bytes()
        got, _, err = tool(*arguments)
        assert (got, message in err) == (code, True), arguments
        assert good.read_bytes() == before
        assert file.read_text() == content
    assert not list(tmp_path.glob("*.bad"))


def test_missing_files_are_named(tool: Any, tmp_path: Path) -> None:
    none, good = tmp_path / "none.json", write(tmp_path / "good.json", section(entry()))
    for code, arguments in (
        (1, ("show", none)),
        (1, ("validate", none)),
        (2, ("diff", none, good)),
        (1, ("merge", tmp_path / "out.json", good, none)),
        (1, ("prune", none, "--unused")),
        (1, ("prune", none, "--unused", "--dry-run")),
    ):
        got, out, err = tool(*arguments)
        assert (got, str(none) in out + err) == (code, True), arguments
    assert beside(none) == ["good.json"], "nothing was made on the way"


def test_validate_here_counts_what_would_be_used(tool: Any, tmp_path: Path) -> None:
    machine = here.targets()[0].machine
    native = here.targets()[0].libraries["native"]
    file = write(
        tmp_path / "a.json",
        section(
            entry(1, library_identity=native),
            entry(2),
            entry(3, library="nobody"),
            machine=vars(machine),
            seen=[{**problem(5), "uses": 7}],
        ),
        section(entry(), machine=THERE),
    )
    code, out, _ = tool("validate", file, "--here")
    assert code == 0, "what another machine has is not wrong"
    assert out.splitlines()[1] == (
        f"{file}: cpu: 1 of 3 entries used, 1 not: nobody is not loaded, "
        f"1 not: of native 1.0, and {native} is loaded; 1 problem seen"
    )


def test_here_is_what_sessions_use(tmp_path: Path) -> None:
    """The provider's word: of what a session learned, another one uses all."""
    results.write(tmp_path / "a.json", results.learned())
    (section_here,) = documents.read(tmp_path / "a.json").sections
    (target,) = [one for one in here.targets() if one.machine == section_here.machine]
    assert target.device == "cpu"
    assert {(one.library, one.identity) for one in section_here.entries} <= set(target.libraries.items())


def test_validate_against_the_schema(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed (the extra test)")
    good = write(tmp_path / "a.json", section(entry(), denied=[denied()]))
    assert tool("validate", good, "--schema")[0] == 0
    bad = write(tmp_path / "b.json", section({**entry(), "a_type": "int8"}))
    code, out, _ = tool("validate", bad, "--schema")
    assert code == 1
    assert f"{bad}: $.machines[0].entries[0].a_type: 'int8' is not one of" in out
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    code, _, err = tool("validate", good, "--schema")
    assert code == 1
    assert "pip install jsonschema" in err


def test_the_schema_in_the_package_is_the_one_in_docs() -> None:
    from importlib.resources import files

    docs = Path(__file__).resolve().parent.parent / "docs" / "tuning-results.schema.json"
    packaged = files("onnxruntime_ep_tunableop.cache_tools") / docs.name
    assert packaged.read_text() == docs.read_text()


# diff


def test_equal_files_do_not_differ(tool: Any, tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", section(entry(uses=1)))
    b = write(tmp_path / "b.json", section(entry(uses=500, measured_at=1_750_000_000)))
    code, out, err = tool("diff", a, b)
    assert (code, err) == (0, "")
    assert out == "machine cpu: Test CPU, 4 processors: 1 entry is the same\n"


def test_diff_names_each_difference(tool: Any, tmp_path: Path) -> None:
    a = write(
        tmp_path / "a.json",
        section(
            entry(1),
            entry(2, ms=1.0),
            entry(3, kernel="old"),
            entry(4),
            entry(5, ms=1.0),
            denied=[denied("both"), denied("gone")],
            nodes=[node("/up"), node("/same")],
            forms=[form(), form("gone"), form("same")],
        ),
    )
    b = write(
        tmp_path / "b.json",
        section(
            entry(2, ms=1.5),
            entry(3, kernel="new"),
            entry(4, library_identity="2.0"),
            entry(5, ms=1.04),
            entry(6),
            denied=[denied("both"), denied("fresh", reason="hung")],
            nodes=[node("/up", stock=True), node("/same")],
            forms=[form(chosen="epilogue"), form("same", form_ms=9.0)],
        ),
    )
    code, out, _ = tool("diff", a, b)
    assert code == 1
    assert [line.strip() for line in out.splitlines()[1:]] == [
        "< (M=1,N=64,K=32,fp32): native:fast, 1 ms",
        "> (M=6,N=64,K=32,fp32): native:fast, 1 ms",
        "~ (M=2,N=64,K=32,fp32): 1 ms -> 1.5 ms (1.50x)",
        "~ (M=3,N=64,K=32,fp32): native:old -> native:new",
        "~ (M=4,N=64,K=32,fp32): native:fast of 1.0 -> of 2.0",
        "< denied native:gone: wrong answer",
        "> denied native:fresh: hung",
        "~ node MatMul /up runs on the stock provider",
        "~ form MatMul+Add (M=8,N=64,K=32,fp16): two kernels -> epilogue",
        "< form MatMul+Add (gone): two kernels",
    ]
    code, out, _ = tool("diff", a, b, "--ratio", "1.02")
    assert "~ (M=5,N=64,K=32,fp32): 1 ms -> 1.04 ms (1.04x)" in out
    assert "(M=2," not in tool("diff", a, b, "--ratio", "1.5")[1], "the ratio itself is the same"
    assert tool("diff", a, b, "--ratio", "0.5")[0] == 2
    assert tool("diff", a, b, "--ratio", "nan")[0] == 2


def test_diff_of_machines(tool: Any, tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", section(entry(ms=1.0)))
    b = write(tmp_path / "b.json", section(entry(ms=1.0), entry(9), machine=THERE))
    code, out, _ = tool("diff", a, b)
    assert code == 1
    assert out.splitlines() == [
        "< machine cpu: Test CPU, 4 processors: 1 entry",
        "> machine cpu: Other CPU, 64 processors: 2 entries",
        "  the two machines differ in model 'Test CPU' / 'Other CPU', "
        "features 'avx avx2' / 'avx', cores 4 / 64",
    ]
    code, out, _ = tool("diff", a, b, "--across")
    assert code == 1
    assert "> (M=9,N=64,K=32,fp32): native:fast, 1 ms" in out
    b = write(tmp_path / "b.json", section(entry(ms=1.0), machine=THERE))
    assert tool("diff", a, b, "--across")[0] == 0


def test_a_bucket_is_compared_with_its_bucket(tool: Any, tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", section(entry(5, m_low=5, m_high=8), entry(7)))
    b = write(tmp_path / "b.json", section(entry(7, m_low=5, m_high=8), entry(7)))
    assert tool("diff", a, b)[0] == 0, "measured at another m of the same range"


# merge


def test_merge_makes_the_file_and_says_what_came(tool: Any, tmp_path: Path) -> None:
    out_file = tmp_path / "out.json"
    a = write(tmp_path / "a.json", section(entry(1), seen=[{**problem(5), "uses": 7}]))
    b = write(tmp_path / "b.json", section(entry(2), machine=THERE, forms=[form()], denied=[denied()]))
    code, out, err = tool("merge", out_file, a, b)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "machine cpu: Test CPU, 4 processors (new in the file)",
        "  in: (M=1,N=64,K=32,fp32): native:fast, 1 ms",
        "  in: 1 problem seen",
        "machine cpu: Other CPU, 64 processors (new in the file)",
        "  in: (M=2,N=64,K=32,fp32): native:fast, 1 ms",
        "  in: 1 form of a group",
        "  in: 1 denied kernel",
        f"{out_file}: 2 entries came in, 0 replaced, 0 refused",
    ]
    assert (kernels(out_file, 0), kernels(out_file, 1)) == (["fast"], ["fast"])
    assert tool("validate", out_file)[0] == 0
    stamp = out_file.stat().st_mtime_ns
    assert "nothing new, and not written" in tool("merge", out_file, a, b)[1]
    assert out_file.stat().st_mtime_ns == stamp


def test_merge_follows_the_rules_of_saves(tool: Any, tmp_path: Path) -> None:
    out_file = write(
        tmp_path / "out.json",
        section(
            entry(1, kernel="old", measured_at=100, uses=50),
            entry(2, kernel="newer", measured_at=300),
            entry(3, kernel="raced", measured_at=100),
            entry(4, uses=1),
            denied=[denied("lasting"), denied("over", until=5)],
            spent={"day": 20000, "ms": 700.0},
        ),
    )
    source = write(
        tmp_path / "a.json",
        section(
            entry(1, kernel="new", measured_at=200, uses=10),
            entry(2, kernel="older", measured_at=200),
            entry(3, kernel="kept", measured_at=200, budget_ms=3.0),
            entry(4, uses=9),
            spent={"day": 20000, "ms": 300.0},
        ),
    )
    code, out, _ = tool("merge", out_file, source)
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert lines[1:7] == [
        "replaced: (M=1,N=64,K=32,fp32): native:old, 1 ms -> native:new, 1 ms, measured 1m later",
        "kept: (M=2,N=64,K=32,fp32): native:newer, 1 ms; not native:older, measured 1m later",
        "kept: (M=3,N=64,K=32,fp32): native:raced, 1 ms; not native:kept, which was in a race",
        "in: 1 entry with more uses",
        "gone: 1 denial whose time is over",
        f"{out_file}: 0 entries came in, 1 replaced, 0 refused",
    ]
    assert kernels(out_file) == ["new", "newer", "raced", "fast"]
    merged = read(out_file)["machines"][0]
    assert [one.get("uses", 0) for one in merged["entries"]] == [50, 0, 0, 9]
    assert [one["kernel"] for one in merged["denied"]] == ["lasting"]
    assert merged["spent"] == {"day": 20000, "ms": 700}, "a file may be merged again: not the sum"


def test_merging_is_what_saving_into_the_file_gives(tmp_path: Path, tool: Any) -> None:
    """The same knowledge, once through a session's save and once through files."""
    saved, merged = tmp_path / "saved.json", tmp_path / "merged.json"
    for file in (saved, merged):
        write(file, section(entry(), machine=THERE))
    session = results.quick_session(results.MODEL)
    results.use(session)
    tunableop.save_cache(session, tmp_path / "a.json")
    tunableop.save_cache(session, saved)
    assert tool("merge", merged, tmp_path / "a.json")[0] == 0
    by_model = [
        {m["fingerprint"]["model"]: {k: v for k, v in m.items() if k != "spent"} for m in read(f)["machines"]}
        for f in (saved, merged)
    ]
    assert by_model[0] == by_model[1]


def test_what_is_wrong_in_a_source_is_refused_and_the_rest_comes(tool: Any, tmp_path: Path) -> None:
    out_file = write(tmp_path / "out.json", section(entry(1)))
    source = write(tmp_path / "a.json", section(entry(2), {**entry(3), "tried": -1}))
    code, out, _ = tool("merge", out_file, source)
    assert code == 0
    assert f"refused: {source}: machines[0].entries[1].tried: expected an integer" in out
    assert [one["m"] for one in read(out_file)["machines"][0]["entries"]] == [1, 2]
    assert tool("validate", out_file)[0] == 0
    assert not list(tmp_path.glob("*.bad"))


@pytest.mark.parametrize("command", ["merge", "prune"])
def test_what_is_not_understood_is_set_aside_and_not_lost(tool: Any, tmp_path: Path, command: str) -> None:
    file = write(tmp_path / "out.json", section(entry(1), {**entry(2), "m": "abc"}))
    before = file.read_bytes()
    if command == "merge":
        code, out, _ = tool("merge", file, write(tmp_path / "a.json", section(entry(3))))
    else:
        code, out, _ = tool("prune", file, "--older-than", "1d")
    assert code == 0
    assert f"set aside: what {file} held before is kept in {file}.bad" in out
    assert Path(f"{file}.bad").read_bytes() == before


def test_a_damaged_target_is_set_aside_and_an_empty_one_is_not(tool: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "a.json", section(entry()))
    damaged, empty = tmp_path / "damaged.json", tmp_path / "empty.json"
    damaged.write_text("{")
    empty.write_text("")
    assert "set aside" in tool("merge", damaged, source)[1]
    assert Path(f"{damaged}.bad").read_text() == "{"
    assert "set aside" not in tool("merge", empty, source)[1]
    assert kernels(damaged) == kernels(empty) == ["fast"]


#: As no program of ours writes it: an exponent, digits that mean nothing, a part that nobody knows.
FOREIGN = '{"fingerprint": {"device": "xpu", "model": "é", "features": "", "cores": 1}, "entries": [%s]}'
UNKNOWN = (
    '{"fingerprint": {"device": "xpu", "model": "", "features": "", "cores": 2}, '
    '"entries": [], "waves": [1.50, {"x": 1e2}]}'
)


def document_of(*sections: str) -> str:
    return f'{{"schema": 2, "machines": [{", ".join(sections)}]}}'


@pytest.mark.parametrize("command", ["merge", "prune"])
def test_sections_of_other_machines_are_copied_word_for_word(tool: Any, tmp_path: Path, command: str) -> None:
    foreign = FOREIGN % json.dumps(entry(5)).replace('"winner_ms": 1.0', '"winner_ms": 1.2500E0')
    assert "1.2500E0" in foreign
    file = tmp_path / "out.json"
    mine = json.dumps(section(entry(1), entry(2, uses=3)))
    file.write_text(document_of(foreign, UNKNOWN, mine))
    if command == "merge":
        assert tool("merge", file, write(tmp_path / "a.json", section(entry(3))))[0] == 0
    else:
        assert tool("prune", file, "--keep", "1")[0] == 0
    content = file.read_text()
    assert foreign in content
    assert UNKNOWN in content
    assert len(kernels(file, 1)) == (3 if command == "merge" else 1)
    assert not Path(f"{file}.bad").exists()


def test_a_machine_that_comes_in_is_copied_word_for_word(tool: Any, tmp_path: Path) -> None:
    foreign = FOREIGN % json.dumps(entry(5)).replace('"winner_ms": 1.0', '"winner_ms": 1.2500E0')
    source, file = tmp_path / "a.json", tmp_path / "out.json"
    source.write_text(document_of(foreign))
    assert tool("merge", file, source)[0] == 0
    assert foreign in file.read_text()


def test_a_file_is_not_merged_into_itself(tool: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry()))
    (tmp_path / "link.json").symlink_to(file)
    for source in (file, tmp_path / "link.json"):
        code, _, err = tool("merge", file, source)
        assert code == 1
        assert "is the file that it would be merged into" in err


def test_links_stay_links(tool: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(1), entry(2, uses=1)))
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert tool("merge", link, write(tmp_path / "b.json", section(entry(3))))[0] == 0
    assert tool("prune", link, "--unused")[0] == 0
    assert link.is_symlink()
    assert [one["m"] for one in read(file)["machines"][0]["entries"]] == [2]


@pytest.mark.parametrize("what", ["the file", "its folder"])
def test_what_cannot_be_written_is_an_error(what: str) -> None:
    # Not under tmp_path, whose folders only their owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write(folder / "a.json", section(entry()))
        source = write(folder / "b.json", section(entry(2)))
        folder.chmod(0o777)
        (file if what == "the file" else folder).chmod(0o444 if what == "the file" else 0o555)
        source.chmod(0o644)
        before = file.read_bytes()
        try:
            run_python(
                """
                import os
                from onnxruntime_ep_tunableop import cli
                if os.geteuid() == 0:
                    os.setuid(65534)  # root may write everywhere
                file, source = sys.argv[1:]
                assert cli.main(["cache", "merge", file, source]) == 1
                assert cli.main(["cache", "prune", file, "--unused"]) == 1
                assert cli.main(["cache", "show", file]) == 0
                assert cli.main(["cache", "validate", file]) == 0
                assert cli.main(["cache", "prune", file, "--unused", "--dry-run"]) == 0
                """,
                str(file),
                str(source),
            )
        finally:
            folder.chmod(0o755)
        assert file.read_bytes() == before


def test_a_folder_that_is_not_there_is_an_error(tool: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "b.json", section(entry(2)))
    code, _, err = tool("merge", tmp_path / "none" / "out.json", source)
    assert code == 1
    assert "No such file or directory" in err


_MERGE = """
import sys
from onnxruntime_ep_tunableop import cli
sys.exit(max(cli.main(["cache", "merge", "--quiet", sys.argv[1], source]) for source in sys.argv[2:]))
"""


def test_two_processes_that_merge_at_once_lose_nothing(tmp_path: Path) -> None:
    each = 12
    sources = [write(tmp_path / f"{m}.json", section(entry(m))) for m in range(1, 2 * each + 1)]
    out = tmp_path / "out.json"
    running = [
        subprocess.Popen([sys.executable, "-c", _MERGE, str(out), *map(str, sources[half::2])])
        for half in (0, 1)
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    assert sorted(one["m"] for one in read(out)["machines"][0]["entries"]) == list(range(1, 2 * each + 1))


def test_a_merge_waits_for_who_holds_the_lock(tmp_path: Path) -> None:
    out, source = tmp_path / "out.json", write(tmp_path / "a.json", section(entry()))
    with Path(f"{out}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen([sys.executable, "-c", _MERGE, str(out), str(source)])
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.5)
        assert not out.exists()
    assert waiting.wait(60) == 0
    assert kernels(out) == ["fast"]


# prune


def criteria(tmp_path: Path) -> Path:
    """Entries by m: 1 old, 2 unused, 3 of another library, 4 used most, 5 used."""
    machine = vars(here.targets()[0].machine)
    native = here.targets()[0].libraries["native"]
    now = int(time.time())
    return write(
        tmp_path / "a.json",
        section(
            entry(1, library_identity=native, uses=5, measured_at=now - 40 * DAY),
            entry(2, library_identity=native, measured_at=now - DAY),
            entry(3, library_identity="0.0", uses=5, measured_at=now - DAY),
            entry(4, library_identity=native, uses=90, measured_at=now - DAY),
            entry(5, library_identity=native, uses=7, measured_at=now - DAY),
            machine=machine,
            seen=[{**problem(9), "uses": 1}],
            nodes=[node("/old", measured_at=now - 40 * DAY), node("/new", measured_at=now - DAY)],
            forms=[
                form("old", library_identity=f"1.0 native {native}", measured_at=now - 40 * DAY),
                form("new", library_identity=f"1.0 native {native}", measured_at=now - DAY),
                form("other", library_identity=f"1.0 native {native}.1", measured_at=now - DAY),
            ],
            denied=[denied()],
            spent={"day": 20000, "ms": 1.0},
        ),
        section(entry(6, measured_at=now - DAY, uses=1), machine=THERE),
    )


@pytest.mark.parametrize(
    ("arguments", "here_left", "there_left", "said"),
    [
        (("--older-than", "30d"), [2, 3, 4, 5], [6], "measured 40d ago"),
        (("--older-than", "4w"), [2, 3, 4, 5], [6], "measured 40d ago"),
        (("--older-than", "50d"), [1, 2, 3, 4, 5], [6], "nothing to take out"),
        (("--unused",), [1, 3, 4, 5], [6], "never used"),
        (("--other-libraries",), [1, 2, 4, 5], [6], "of native 0.0, and "),
        (("--other-machines",), [1, 2, 3, 4, 5], None, "Other CPU, 64 processors: goes whole"),
        (("--keep", "2"), [4, 5], [6], "not among the 2 most used"),
        (("--keep", "0"), [], [], "not among the 0 most used"),
        (("--denied",), [1, 2, 3, 4, 5], [6], "gone: denied native:killer: wrong answer"),
        (("--older-than", "30d", "--unused", "--keep", "2"), [4, 5], [6], "never used"),
    ],
)
def test_prune_takes_what_is_named_and_keeps_the_rest(
    tool: Any, tmp_path: Path, arguments: tuple[str, ...], here_left: list[int], there_left: Any, said: str
) -> None:
    file = criteria(tmp_path)
    before = file.read_bytes()
    code, out, _ = tool("prune", file, *arguments, "--dry-run")
    assert code == 0
    assert said in out
    assert file.read_bytes() == before
    assert beside(file) == ["a.json"], "a dry run leaves no lock, either"
    code, real, _ = tool("prune", file, *arguments)
    assert code == 0
    assert real.replace(" gone\n", " would go\n") == out
    machines = read(file)["machines"]
    assert [one["m"] for one in machines[0]["entries"]] == here_left
    assert ([one["m"] for one in machines[1]["entries"]] if machines[1:] else None) == there_left
    assert machines[0]["seen"][0]["m"] == 9
    assert ("denied" in machines[0]) == ("--denied" not in arguments), "denials keep users safe"
    assert [one["name"] for one in machines[0]["nodes"]] == (
        ["/new"] if arguments[:2] in (("--older-than", "30d"), ("--older-than", "4w")) else ["/old", "/new"]
    )
    gone = {"--older-than": "old", "--other-libraries": "other"}.get(arguments[0], "")
    gone = "" if "50d" in arguments else gone
    assert [one["shape"] for one in machines[0]["forms"]] == [
        one for one in ("old", "new", "other") if one != gone
    ]
    assert machines[0]["spent"] == {"day": 20000, "ms": 1}
    assert tool("validate", file)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected one of --older-than, --unused, --other-machines, --other-libraries, --keep, --denied"),
        (("--dry-run",), "found none"),
        (
            ("--older-than", "30"),
            "--older-than: expected a number and one of s, m, h, d, w (30d, 12h), found '30'",
        ),
        (("--older-than", "-3d"), "expected one argument"),
        (("--keep", "-1"), "--keep: expected a number from 0 up, found -1"),
    ],
)
def test_prune_refuses_what_says_nothing(
    tool: Any, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    file = write(tmp_path / "a.json", section(entry()))
    before = file.read_bytes()
    code, _, err = tool("prune", file, *arguments)
    assert code == 2
    assert message in err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("5m", 300), ("12h", 43200), ("1.5d", 129600), ("2w", 1209600)]
)
def test_durations(written: str, seconds: float) -> None:
    assert prune.duration(written) == seconds


def test_prune_keeps_sections_that_nobody_can_read(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(document_of(UNKNOWN, json.dumps(section(entry()))))
    code, out, _ = tool("prune", file, "--other-machines")
    assert code == 0
    assert "1 section of a machine that cannot be told: kept" in out
    assert UNKNOWN in file.read_text()
    assert "Test CPU" not in file.read_text()


def test_what_is_pruned_is_what_the_lock_holder_sees(tmp_path: Path) -> None:
    """An entry that comes between the look and the lock is judged, and not lost."""
    from onnxruntime_ep_tunableop import _core

    file = write(tmp_path / "a.json", section(entry(1), entry(2)))
    looks = []

    def choose(reading: Any) -> list[Any]:
        looks.append(len(json.loads(reading["machines"][0]["section"])["entries"]))
        with Path(f"{file}.lock").open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return []

    assert _core.remove_results(file, choose) == ""
    assert looks == [2]


@pytest.mark.parametrize(
    "removal",
    [
        {"machine": 1, "entries": []},
        {"machine": 0, "entries": [2]},
        {"machine": 0, "entries": [], "denied": [0]},
        {"machine": 0, "entries": [], "forms": [0]},
    ],
)
def test_what_is_not_there_cannot_be_removed(tmp_path: Path, removal: Any) -> None:
    from onnxruntime_ep_tunableop import _core

    file = write(tmp_path / "a.json", section(entry(1), entry(2)))
    before = file.read_bytes()
    whole = {"whole": False, "seen": [], "nodes": [], "forms": [], "denied": [], **removal}
    with pytest.raises(ValueError, match="there is no such"):
        _core.remove_results(file, lambda _: [whole])
    assert file.read_bytes() == before


def test_an_error_of_who_chooses_leaves_the_file(tmp_path: Path) -> None:
    from onnxruntime_ep_tunableop import _core

    file = write(tmp_path / "a.json", section(entry()))
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError):
        _core.remove_results(file, lambda _: [1 // 0])  # type: ignore[list-item]
    with pytest.raises(KeyError):
        _core.remove_results(file, lambda _: [{}])  # type: ignore[typeddict-item]
    assert file.read_bytes() == before


# all of them


def test_files_of_version_1_are_read(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(
        json.dumps({"schema": 1, "machines": [section(entry(1)), section(entry(2), machine=THERE)]})
    )
    assert tool("validate", file)[0] == 0
    assert "2 problems" in tool("show", file)[1].splitlines()[-1]
    assert tool("merge", file, write(tmp_path / "b.json", section(entry(3))))[0] == 0
    assert read(file)["schema"] == 2
    assert [len(machine["entries"]) for machine in read(file)["machines"]] == [2, 1]


def test_a_large_file(tool: Any, tmp_path: Path) -> None:
    many = 6_000
    file = write(tmp_path / "a.json", section(*(entry(m, uses=m % 2) for m in range(1, many + 1))))
    assert "and 5970 more (--all)" in tool("show", file)[1]
    assert tool("validate", file)[1].endswith("1 machine, 6000 entries\n")
    assert tool("diff", file, file)[0] == 0
    assert "3000 entries gone" in tool("prune", file, "--unused")[1]
    assert len(kernels(file)) == many // 2


def test_a_file_of_many_machines(tool: Any, tmp_path: Path) -> None:
    sections = [section(entry(), machine={**HERE, "cores": cores}) for cores in range(1, 501)]
    file = write(tmp_path / "a.json", *sections)
    assert tool("validate", file)[1].endswith("500 machines, 500 entries\n")
    assert "nothing new" in tool("merge", file, write(tmp_path / "b.json", *sections[::-1]))[1]


def test_a_machine_that_stands_twice_is_one(tool: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(1)), section(entry(1, kernel="b", measured_at=NOW // 2)))
    (found,) = documents.read(file).sections
    assert [one.kernel for one in found.entries] == ["native:fast"], "the later of the two"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (-5, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (86400 * 400, "400d")]
)
def test_ages(seconds: float, said: str) -> None:
    assert text.age(seconds) == said


def test_times_beyond_the_calendar_are_still_said() -> None:
    assert text.moment(2**53).endswith("s after 1970")
    assert text.day(1_000_000) == "4707-11-29"
    assert text.day(10**9) == "day 1000000000"


def test_totals_are_weighted_by_uses(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.json",
        section(
            entry(1, ms=1.0, default_ms=3.0, uses=10),
            entry(2, ms=1.0, default_ms=1.5, uses=1000),
            entry(3, ms=2.0, default_ms=2.0, kernel="plain", uses=100),
            entry(4, ms=0.0, default_ms=1.0, uses=100),
        ),
    )
    sums = show.totals(documents.read(file).sections[0].entries)
    assert (sums.entries, sums.changed, sums.uses) == (4, 2, 1210)
    assert sums.saved_seconds == pytest.approx((10 * 2 + 1000 * 0.5) / 1e3)
    assert sums.used_seconds == pytest.approx((10 + 1000 + 200) / 1e3)
    assert sums.mean_gain == pytest.approx(math.sqrt(3 * 1.5))


def test_uses_are_known_from_what_was_seen_as_well(tool: Any, tmp_path: Path) -> None:
    """What was recorded first and tuned offline then has its uses in another part."""
    file = write(
        tmp_path / "a.json",
        section(
            entry(1, uses=3),
            entry(2),
            entry(3),
            entry(4, m_low=3, m_high=4),
            seen=[{**problem(1), "uses": 2}, {**problem(2), "uses": 9}, {**problem(4), "uses": 7}],
        ),
    )
    assert [one.uses for one in documents.read(file).sections[0].entries] == [3, 9, 0, 0]
    assert tool("prune", file, "--unused")[0] == 0
    assert [one["m"] for one in read(file)["machines"][0]["entries"]] == [1, 2]
    assert tool("prune", file, "--keep", "1")[0] == 0
    assert [one["m"] for one in read(file)["machines"][0]["entries"]] == [2]


def test_a_document_is_what_it_was_made_of(tmp_path: Path) -> None:
    """The hand-made files of these tests are valid, so that what they show is not for want of a field."""
    made = document(section(entry(), nodes=[node()], forms=[form()], denied=[denied()]))
    file = tmp_path / "a.json"
    file.write_text(json.dumps(made))
    assert documents.read(file).problems == ()
    assert documents.read(file).sections[0].entries[0].fields == made["machines"][0]["entries"][0]
