"""The README's tables are made from one file, and say what that file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from benchmarks import report

ROOT = Path(__file__).resolve().parent.parent


def ratio(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "of_medians": value}


def results(tmp_path: Path) -> list[Path]:
    """What three benchmarks would have written."""
    machine = {"cpu": "Test 1", "cores": "2", "load": "0.1", "time": "now"}
    end_to_end = [
        {"model": model, "threads": threads, "claim": claim, "fusion": "auto", "ratio": ratio(1.0 + at / 10)}
        | {"rounds_ms": [1, 2], "order": []}
        for at, model in enumerate(report._MODELS)
        for threads in (1, 2)
        for claim in ("auto", "noise")
    ]
    shapes = [
        {"shape": name, "threads": threads, "ratio": {"tuned": ratio(value)}, "rounds_us": {}}
        for threads in (1, 2)
        for name, value in (("a", 0.5), ("b", 2.0))
    ]
    overhead = [
        {"contender": contender, "threads": threads, "constant_b": constant, "ns_per_node_min": cost}
        for threads in (1, 2)
        for constant in (True, False)
        for contender, cost in (("stock", 480.4), ("ours, tuned", 457.2))
    ]
    paths = []
    for name, found in (("end_to_end", end_to_end), ("shapes", shapes), ("overhead", overhead)):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(
            json.dumps({"benchmark": name, "machine": machine, "arguments": {}, "results": found})
        )
    return paths


def test_the_summary(tmp_path):
    lines = report.summary(report.collect(results(tmp_path))).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")] == ["", "", "1 thread", "2 threads", ""]
    assert "1.000 (0.990-1.010)" in lines[2]
    assert "1.300 (1.290-1.310)" in lines[5]
    # The geometric mean of 1/2 and 2, and the worst of them.
    assert "2 single products, geometric mean (worst)" in lines[6]
    assert "1.000 (0.500)" in lines[6]
    assert "457 / 480" in lines[7]


def test_samples_are_left_out(tmp_path):
    text = json.dumps(report.collect(results(tmp_path)))
    assert "rounds_ms" not in text
    assert "order" not in text


def test_what_minutes_change_is_not_in_the_machine(tmp_path):
    assert report.machine(report.collect(results(tmp_path))) == "cpu Test 1, cores 2"


def test_a_document_is_filled_and_checked(tmp_path, capsys):
    figures, document = tmp_path / "figures.json", tmp_path / "README.md"
    assert report.main(["collect", str(figures), *map(str, results(tmp_path))]) == 0
    document.write_text("above\n<!-- figures: summary -->\nold\n<!-- end of figures -->\nbelow\n")
    assert report.main(["check", str(figures), str(document)]) == 1
    assert "run 'write'" in capsys.readouterr().err
    assert report.main(["write", str(figures), str(document)]) == 0
    assert report.main(["check", str(figures), str(document)]) == 0
    text = document.read_text()
    assert text.startswith("above\n<!-- figures: summary -->\n|")
    assert text.endswith("<!-- end of figures -->\nbelow\n")
    assert "old" not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [("nothing", "found neither"), ("<!-- figures: no -->\n<!-- end of figures -->", "found 'no'")],
)
def test_a_document_without_a_place_for_them(tmp_path, capsys, text, words):
    figures, document = tmp_path / "figures.json", tmp_path / "README.md"
    assert report.main(["collect", str(figures), *map(str, results(tmp_path))]) == 0
    document.write_text(text)
    assert report.main(["write", str(figures), str(document)]) == 1
    assert words in capsys.readouterr().err
    assert document.read_text() == text


def test_a_file_that_is_no_result(tmp_path, capsys):
    (tmp_path / "x.json").write_text("{}")
    assert report.main(["collect", str(tmp_path / "f.json"), str(tmp_path / "x.json")]) == 1
    assert "expected what --json of a benchmark writes" in capsys.readouterr().err


def test_what_is_added_keeps_the_rest(tmp_path):
    figures, one = tmp_path / "figures.json", tmp_path / "serve.json"
    assert report.main(["collect", str(figures), *map(str, results(tmp_path))]) == 0
    before = json.loads(figures.read_text())
    fresh = {"part": "settled", "samples": [1]}
    one.write_text(json.dumps({"benchmark": "serve", "machine": {}, "arguments": {}, "results": [fresh]}))
    assert report.main(["add", str(figures), str(one)]) == 0
    after = json.loads(figures.read_text())
    assert after.pop("serve")["results"] == [{"part": "settled"}]
    assert after == before


@pytest.mark.parametrize("document", ["README.md", "docs/bench.md", "docs/serving.md"])
def test_the_documents_are_what_the_figures_say(document):
    assert report.main(["check", str(ROOT / "docs/figures.json"), str(ROOT / document)]) == 0
