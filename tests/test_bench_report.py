"""What a benchmark says of known figures: judgement, tolerance, text, Markdown, CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from onnxruntime_ep_tunableop.bench import answers, judgement, report, results
from onnxruntime_ep_tunableop.bench.figures import Agreement, Interval, latency, throughput
from onnxruntime_ep_tunableop.bench.results import FirstRequest, NodeReport, SideReport

STOCK, OURS = "CPUExecutionProvider", "tuned"
AGREES = Agreement(1e-6, 1e-7, True)


def side(name: str, scale: float, **changes) -> SideReport:
    """Ten calls of 1 to 10 ms, times `scale`; 20 million FLOP and 4 MB a run."""
    times = [scale * 1e-3 * i for i in range(1, 11)]
    made = SideReport(
        name=name,
        kind="stock" if name == STOCK else "tunableop",
        providers=[name],
        options={},
        versions={"onnxruntime": "1.32.0", "python": "3.11.7"},
        latency=latency(times),
        throughput=throughput([5, 5], [scale * 0.01, scale * 0.02]),
        agreement=AGREES,
        creation_seconds=0.25,
        first=FirstRequest(0.1, 0.2, 0.3 * scale, 0.004, 100 << 20, 3),
        first_with_results=None if name == STOCK else FirstRequest(0.1, 0.2, 0.05, 0.004, 101 << 20, 3),
        gflops=20e6 / latency(times).median * 1e-9,
        gigabytes_per_second=4e6 / latency(times).median * 1e-9,
        product_gflops=50.0,
        product_gigabytes_per_second=10.0,
        provider_times=[results.ProviderTime(name, 7, 0.0055)],
        tuned=0 if name == STOCK else 4,
        tuning_seconds=0.0 if name == STOCK else 0.5,
        hits=0 if name == STOCK else 40,
    )
    return replace(made, **changes)


def node(claimed: bool, reason: str = "refused by type", asked_for: bool = False) -> NodeReport:
    return NodeReport("fc", "MatMul", claimed, asked_for, reason)


def whole(sides: list[SideReport], interval: Interval, **changes) -> results.Report:
    made = results.Report(
        schema=results.SCHEMA,
        machine={"cpu": "Test 1", "cores": "2"},
        model="m.onnx",
        shapes="x:1x8",
        plan={"rounds": 2},
        baseline=STOCK,
        sides=sides,
        ratios=[results.RatioReport(one.name, STOCK, interval) for one in sides if one.name != STOCK],
        work=results.WorkReport(4, 20e6, 4e6, "fp32"),
        ceiling=results.CeilingReport(100.0, 40.0, "by hand"),
        nodes=[node(True, "claimed")] * 4,
        problems=[results.ShapeReport("M=1,N=2,K=3", "native:a", "native:b", 1.0, 1.5, "measured")],
        notes=["a note"],
        code=0,
        complaints=[],
        order=[[STOCK, OURS], [OURS, STOCK]],
        samples={STOCK: [[1.0], [2.0]], OURS: [[1.0], [2.0]]},
    )
    return replace(made, **changes)


BOTH = [side(STOCK, 1.0), side(OURS, 0.5)]
FASTER = Interval(2.0, 1.9, 2.1)


def test_the_text_says_what_was_measured():
    text = report.text(whole(BOTH, FASTER))
    # Of 1 to 10 ms: the median 5.5, the 99th percentile 9.91; rates of 500 and 250 a second.
    row = next(line for line in text.splitlines() if line.startswith("stock CPU  ") and "+-" in line)
    assert row.split() == [
        *("stock", "CPU", "5.50", "ms", "1.00", "ms", "9.10", "ms", "9.55", "ms", "9.91", "ms"),
        *("375", "+-", "177", "1"),
    ]
    assert "2.000 (1.900-2.100)" in text
    # 20 MFLOP in 5.5 ms are 3.64 GFLOP/s of 100; 4 MB are 0.727 GB/s of 40.
    row = next(line for line in text.splitlines() if line.startswith("stock CPU  3.64"))
    assert row.split() == [
        *("stock", "CPU", "3.64", "(4", "%)", "50.0", "(50", "%)", "0.73", "(2", "%)", "10.0", "(25", "%)"),
        *("-", "-"),
    ]
    assert "tuned, with its results saved" in text
    assert "100 MB" in text
    assert "4 problems measured in 500 ms, 40 calls of products ran what was measured" in text
    assert "M=1,N=2,K=3: native:a instead of native:b, 1.50x" in text
    assert "4 of 4 MatMul and Gemm nodes run on our provider" in text
    assert "note: a note" in text
    assert text.endswith("tuned is faster than stock CPU: 2.000 (1.900-2.100); answers agree")
    assert "Test 1" in text


def test_without_a_profile_there_are_no_rates():
    """Nobody knows how much work it was: no columns of dashes."""
    idle = {"gflops": 0.0, "gigabytes_per_second": 0.0, "product_gflops": 0.0}
    sides = [side(STOCK, 1.0, **idle), side(OURS, 0.5, **idle)]
    lines = report.text(whole(sides, FASTER, work=None, ceiling=None)).splitlines()
    at = next(i for i, line in enumerate(lines) if "max error" in line)
    assert [line.split() for line in lines[at : at + 3]] == [
        ["max", "error", "relative"],
        ["stock", "CPU", "-", "-"],
        ["tuned", "1.0e-06", "1.0e-07"],
    ]
    assert "GFLOP/s" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.8, 0.7, 0.9), "tuned is slower than stock CPU"),
        (Interval(1.1, 0.9, 1.2), "tuned is not to be told from stock CPU"),
    ],
)
def test_the_verdict_knows_chance(interval, words):
    assert words in report.text(whole(BOTH, interval))


def test_markdown_is_a_table():
    text = report.text(whole(BOTH, FASTER), markdown=True)
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("|") and "median" in line)
    assert set(lines[at + 1]) <= set("|-:")
    assert lines[at].count("|") == lines[at + 1].count("|") == lines[at + 2].count("|")


def test_csv_has_one_line_for_each_side():
    rows = list(csv.DictReader(io.StringIO(report.csv_text(whole(BOTH, FASTER)))))
    assert [row["side"] for row in rows] == [STOCK, OURS]
    assert float(rows[0]["median_s"]) == pytest.approx(5.5e-3)
    assert float(rows[1]["median_s"]) == pytest.approx(2.75e-3)
    assert float(rows[1]["calls_per_s"]) == pytest.approx(750)
    assert (rows[0]["speedup"], float(rows[1]["speedup_low"])) == ("", 1.9)
    assert float(rows[1]["first_request_with_results_s"]) == 0.05
    assert tuple(rows[0]) == report.CSV_COLUMNS


def test_json_has_the_samples_and_the_order():
    document = json.loads(json.dumps(whole(BOTH, FASTER).document()))
    assert document["tool"] == "tunableop bench"
    assert document["samples"][OURS] == [[1.0], [2.0]]
    assert document["order"] == [[STOCK, OURS], [OURS, STOCK]]
    assert document["ratios"][0]["interval"] == {"value": 2.0, "low": 1.9, "high": 2.1}


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5, "1.50 s"), (123.4, "123 s"), (0.0123, "12.3 ms"), (45.67e-6, "45.7 us"), (9.996e-3, "10.0 ms")],
)
def test_seconds(value, text):
    assert report.seconds(value) == text


# --- when it fails


def test_all_is_well():
    assert judgement.judge(BOTH, [node(True)], allow_fallback=False) == (0, [])


def test_different_answers_are_the_gravest():
    wrong = side(OURS, 0.5, agreement=Agreement(1.0, 1.0, False, "y: 1 of 4 elements differ"))
    code, complaints = judgement.judge([BOTH[0], wrong], [node(False)], allow_fallback=False)
    assert code == results.ANSWERS_DIFFER
    assert complaints[0] == "the answers of tuned differ: y: 1 of 4 elements differ"
    assert "ran nothing" in complaints[1]


@pytest.mark.parametrize("nodes", [[], [node(False, "input type int32 has no kernel")]])
def test_nothing_of_ours_ran(nodes):
    code, (complaint,) = judgement.judge(BOTH, nodes, allow_fallback=True)
    assert code == results.NOTHING_RAN
    assert ("int32" if nodes else "no MatMul or Gemm") in complaint


def test_a_refused_node_is_a_fallback_unless_asked_for():
    nodes = [
        node(True),
        node(False, "input type int32"),
        node(False, "claim=weights, and ...", asked_for=True),
    ]
    code, (complaint,) = judgement.judge(BOTH, nodes, allow_fallback=False)
    assert code == results.FELL_BACK
    assert (
        complaint
        == "1 MatMul or Gemm node is not on ours: input type int32 (--allow-fallback lets this pass)"
    )
    assert judgement.judge(BOTH, nodes, allow_fallback=True) == (0, [])
    assert judgement.judge(BOTH, [nodes[0], nodes[2]], allow_fallback=False) == (0, [])


def test_an_unmeasured_kernel_is_a_fallback_unless_asked_for():
    budget = side(OURS, 0.5, runtime_fallbacks={"session_budget": 12})
    code, (complaint,) = judgement.judge([BOTH[0], budget], [node(True)], allow_fallback=False)
    assert code == results.FELL_BACK
    assert "12 timed calls of tuned ran a kernel that was not measured: max_session_ms is spent" in complaint
    off = side(OURS, 0.5, runtime_fallbacks={"tuning_off": 12})
    assert judgement.judge([BOTH[0], off], [node(True)], allow_fallback=False) == (0, [])


def test_every_reason_of_the_native_side_has_a_remedy():
    """gemm_node.h names them."""
    import re
    from pathlib import Path

    header = (Path(__file__).parent.parent / "ep/provider/gemm_node.h").read_text(encoding="utf-8")
    names = re.findall(r'"(\w+)"', header[header.index("kNames") :][:600])
    assert len(names) >= 10
    assert set(names) == {*judgement.ASKED_FOR, *judgement._REMEDIES}


# --- how far answers may differ


def test_the_tolerance_is_of_the_whole_tensor():
    expected = {"y": np.array([100.0, 0.0], np.float32)}
    assert answers.compare({"y": np.array([100.0, 0.09], np.float32)}, expected).within
    assert not answers.compare({"y": np.array([100.0, 0.11], np.float32)}, expected).within
    assert not answers.compare({"y": np.array([100.0, 0.09], np.float32)}, expected, atol=0.01).within


def test_the_tolerance_fits_the_type_and_counts_are_exact():
    got, expected = {"y": np.array([1.01], np.float32)}, {"y": np.array([1.0], np.float32)}
    assert not answers.compare(got, expected).within
    assert answers.compare(got, expected, element_type="fp16").within
    found = answers.compare({"i": np.array([5])}, {"i": np.array([6])}, element_type="fp16")
    assert not found.within
    assert answers.compare({"i": np.array([5])}, {"i": np.array([6])}, atol=1).within


def test_every_output_is_compared():
    y = np.ones(3, np.float32)
    assert "missing: z" in answers.compare({"y": y}, {"y": y, "z": y}).reason
    found = answers.compare({"y": y, "z": y + 1}, {"y": y, "z": y})
    assert (found.absolute, found.within) == (1.0, False)
    assert "z: 3 of 3 elements differ" in found.reason
    assert not answers.compare({"y": y * np.nan}, {"y": y}).within
    assert answers.compare({}, {}).within
