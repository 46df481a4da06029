from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `benchmarks` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from benchmarks import common, end_to_end, kernels, measure, overhead, shapes  # noqa: E402


@pytest.fixture(autouse=True)
def _no_other_test_is_pinned():
    """Sessions of the benchmarks pin the thread that makes them, here pytest's."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


FAST = measure.Plan(rounds=4, block=0.002, warm_up=0.001)


def test_interleave_orders_and_ratios():
    calls = {"slow": lambda: time.sleep(0.02), "fast": lambda: time.sleep(0.001)}
    result = measure.interleave(calls, FAST)
    assert [sorted(order) for order in result.order] == [["fast", "slow"]] * 4
    assert result.order == measure.interleave(calls, FAST).order, "the order is drawn from a seed"
    assert len({tuple(order) for order in result.order}) == 2, "and it changes"
    ratio = result.ratio("slow", "fast")
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.value > 1.5  # nominally 20; a sleep may be late, not early
    assert ratio.spread == ratio.high - ratio.low
    assert result.best("fast") <= result.median("fast")


def test_ratio_is_taken_round_by_round():
    result = measure.Result({"a": [2.0, 4.0, 40.0], "b": [1.0, 2.0, 20.0]})
    assert result.ratio("a", "b") == measure.Ratio(2.0, 2.0, 2.0, 2.0)
    assert str(result.ratio("a", "b")) == "2.000 (2.000-2.000)"
    assert measure.Result({"a": [3.0], "b": [2.0]}).ratio("a", "b").low == 1.5


def test_bootstrap_interval_holds_the_ratio_and_pairing_takes_drift_out():
    drift = [1.0 + 0.1 * i for i in range(20)]
    slow, fast = [2.2 * d for d in drift], [2.0 * d for d in drift]
    alone = measure.bootstrap_ratio(slow, fast)
    paired = measure.bootstrap_ratio(slow, fast, paired=True)
    assert alone.value == paired.value == pytest.approx(1.1)
    assert paired.low == pytest.approx(1.1)
    assert paired.high == pytest.approx(1.1)
    assert alone.low < 1.0 < alone.high
    assert 1.0 in alone
    assert 1.0 not in paired
    assert measure.bootstrap_ratio(slow, fast) == alone, "drawn from a seed"
    assert str(measure.Interval(1.5, 1.25, 2)) == "1.500 (1.250-2.000)"
    with pytest.raises(ValueError, match="no ratio of 0 to 20 figures"):
        measure.bootstrap_ratio([], fast)
    with pytest.raises(ValueError, match="no ratio of 20 to 19 figures, paired"):
        measure.bootstrap_ratio(slow, fast[1:], paired=True)


def test_theil_sen_leaves_outliers_aside():
    x = list(range(20))
    y = [3.0 + 0.5 * value for value in x]
    assert measure.theil_sen(x, y) == pytest.approx(0.5)
    y[3], y[11], y[19] = 900.0, -900.0, 900.0
    assert measure.theil_sen(x, y) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no slope of 2 points"):
        measure.theil_sen([1, 1], [2, 3])


def test_a_fresh_process_has_all_processors_and_no_options(monkeypatch):
    monkeypatch.setenv("TUNABLEOP_ENABLE", "0")
    common.session_options(threads=1)
    script = "import os; print(len(os.sched_getaffinity(0)), 'TUNABLEOP_ENABLE' in os.environ)"
    assert common.fresh_process("-c", script).split() == [str(len(common.PROCESSORS)), "False"]
    with pytest.raises(SystemExit, match="failed with 3: no luck"):
        common.fresh_process("-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)")
    with pytest.raises(SystemExit, match="did not end within 0 s"):
        common.fresh_process("-c", "import time; time.sleep(60)", timeout=0.2)


def test_every_shape_is_read():
    read = common.read_shapes()
    assert len(read) == 26
    assert read[0] == common.Shape("bert_b16_qkv", 1, 2048, 768, 768, True)
    scores = next(s for s in read if s.name == "attn_scores")
    assert scores.size == "96x 128x128x64"
    assert scores.flops == 2 * 96 * 128 * 128 * 64
    assert kernels.read_shapes is common.read_shapes
    assert [x.shape for x in shapes.operands(scores)] == [(96, 128, 64), (96, 64, 128)]


@pytest.mark.parametrize("constant_b", [True, False])
def test_one_product_against_stock(constant_b):
    shape = common.Shape("x", 1 if constant_b else 3, 5, 7, 300, constant_b)
    a, b = shapes.operands(shape)
    session = common.stock_session(shapes.model(a, b, constant_b), threads=1)
    call, (c,) = common.bound(session, {"a": a} if constant_b else {"a": a, "b": b})
    assert c.ctypes.data % common.ALIGNMENT == 0
    assert shapes.error(c, a, b) < 1e-6
    c[..., 0, 0] = 9999
    assert shapes.error(c, a, b) > 1
    call()
    assert shapes.error(c, a, b) < 1e-6, "the call writes where the array is"
    c[..., 0, 0] = np.nan
    assert shapes.error(c, a, b) == np.inf


@pytest.mark.parametrize("constant", [True, False])
def test_chain_keeps_its_nodes(constant):
    session = common.stock_session(overhead.chain(64, constant), threads=1)
    assert common.assignment(session) == {("CPUExecutionProvider", "MatMul"): 64}
    assert common.our_nodes(session) == 0


def test_difference_is_relative_and_sees_nan():
    one = np.array([1.0, -200.0], dtype=np.float32)
    assert common.difference([one], [one]) == 0
    assert common.difference([one + np.float32(2)], [one]) == pytest.approx(0.01)
    assert common.difference([np.array([np.nan, 0])], [one]) == np.inf


def test_table_and_geomean():
    assert common.table(["a", "bb"], [["xyz", 1]]) == "| a   | bb |\n|-----|---:|\n| xyz |  1 |"
    assert common.geomean([2, 8]) == pytest.approx(4)


def test_json_has_the_machine_and_no_paths(tmp_path):
    args = argparse.Namespace(json=tmp_path / "new" / "r.json", shapes=tmp_path / "s.csv", threads=(1, 2))
    common.write_json(args.json, "shapes", args, [1])
    document = json.loads(args.json.read_text())
    assert document["machine"]["onnxruntime"]
    assert document["arguments"] == {"shapes": "s.csv", "threads": [1, 2]}
    assert str(tmp_path) not in args.json.read_text()


def test_arguments(capsys):
    parser = common.arguments("x")
    assert parser.parse_args(["--threads", "1,4"]).threads == (1, 4)
    assert parser.parse_args([]).threads == (1, 2)
    assert common.arguments("x", threads=(1,)).parse_args([]).threads == (1,)
    assert common.plan(parser.parse_args(["--quick", "--rounds", "3"])).rounds == 3
    with pytest.raises(SystemExit):
        parser.parse_args(["--threads", "0"])
    assert "expected thread counts" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        shapes.main(["--only", "nope"])
    assert "no such shape: nope" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        shapes.main(["--candidates", "openblas"])
    assert "invalid choice: 'openblas'" in capsys.readouterr().err


def test_the_machine_has_the_cores_there_were_before_pinning():
    common.session_options(threads=1)
    assert len(os.sched_getaffinity(0)) == 1
    assert common.machine()["cores"] == str(len(common.PROCESSORS))


def of_shape(name, tuned, default=1.0):
    """What shapes.measure gives, with these stock/tuned and stock/default."""
    ratio = {key: vars(measure.Ratio(v, v, v, v)) for key, v in (("tuned", tuned), ("default", default))}
    gain = tuned / default
    return {
        "shape": name,
        "size": "1x1x1",
        "us": dict.fromkeys(("stock", "default", "tuned"), 1.0),
        "ratio": ratio | {"again": vars(measure.Ratio(1.0, 1.0, 1.0, 1.0))},
        "gain": vars(measure.Ratio(gain, gain - 0.01, gain + 0.01, gain)),
        "kernel": "k",
        "error": {"default": 0.0, "tuned": 0.0},
    }


def test_shapes_compares_the_default_with_the_tuned_kernel(capsys, monkeypatch):
    found = {"bert_b16_qkv": of_shape("bert_b16_qkv", 1.5, 1.2), "attn_scores": of_shape("attn_scores", 1.0)}
    monkeypatch.setattr(shapes, "measure", lambda shape, threads, args: found[shape.name])
    assert shapes.main(["--threads", "1", "--only", "bert_b16_qkv", "--only", "attn_scores"]) == 0
    out = capsys.readouterr().out
    assert "default/tuned: geomean 1.118 over 2 shapes, worst 1.000 (attn_scores)" in out
    header, _, first, _ = (line.split("|") for line in out.splitlines() if line.startswith("|"))
    assert first[[cell.strip() for cell in header].index("default/tuned")].strip() == "1.250 (1.240-1.260)"


def test_shapes_misses_a_bound(capsys, monkeypatch):
    results = [of_shape("a", 1.5), of_shape("b", 0.9)]
    assert shapes.missed(results, 1.10, 0.92) == ["stock/tuned: b 0.900, expected at least 0.92"]
    assert shapes.missed(results, 1.2, 0.8) == ["stock/tuned: geomean 1.162, expected at least 1.2"]
    assert shapes.missed(results, 1.10, 0.85) == []
    assert shapes.missed([of_shape("a", float("nan"))], 1.10, 0.92), "what is no number misses, too"
    monkeypatch.setattr(shapes, "measure", lambda shape, threads, args: of_shape(shape.name, 1.0))
    command = ["--threads", "1,2", "--only", "attn_scores"]
    assert shapes.main(command) == 0
    assert shapes.main([*command, "--check", "--min-geomean", "1"]) == 0
    assert "BOUND MISSED" not in capsys.readouterr().err
    assert shapes.main([*command, "--check"]) == 1
    assert "BOUND MISSED: 1 thread(s), stock/tuned: geomean 1.000, expected" in capsys.readouterr().err


def test_end_to_end_misses_a_bound(capsys, monkeypatch):
    def one(claim, fusion, ratio):
        return {
            "model": "m",
            "threads": 1,
            "claim": claim,
            "fusion": fusion,
            "ms": {"stock": 1.0, "ours": 1.0},
            "ratio": vars(measure.Ratio(ratio, ratio, ratio, ratio)),
            "nodes": 1,
            "tuned": 1,
            "tuning_seconds": 0.0,
            "difference": 0.0,
        }

    results = [one("noise", "-", 1.0), one("auto", "auto", 0.97), one("auto", "keep", 0.5)]
    assert end_to_end.missed(results) == ["m, 1 thread(s), auto/auto: 0.970, expected at least 0.98"]
    monkeypatch.setattr(end_to_end, "measure", lambda *_: results)
    command = ["--threads", "1", "--model", "minilm-1x128"]
    assert end_to_end.main(command) == 0
    assert end_to_end.main([*command, "--check"]) == 1
    assert "BOUND MISSED: m, 1 thread(s), auto/auto" in capsys.readouterr().err
    results[1] = one("auto", "auto", 0.98)
    assert end_to_end.main([*command, "--check"]) == 0


def test_overhead_misses_a_bound(capsys, monkeypatch):
    def results(constant, threads, args):
        return [
            {
                "contender": name,
                "constant_b": constant,
                "threads": threads,
                "ns_per_node_min": ns if constant else 1.0,
                "ns_per_node_median": ns,
                "chain_64_us": ns,
            }
            for name, ns in zip(overhead.CONTENDERS, (500.0, 400.0, tuned), strict=True)
        ]

    monkeypatch.setattr(overhead, "measure", results)
    tuned = 501.0
    assert overhead.main(["--threads", "2"]) == 0
    assert overhead.main(["--threads", "2", "--check"]) == 1
    expected = "BOUND MISSED: ours, tuned, 2 thread(s), B constant: 501 ns, stock 500 ns\n"
    assert capsys.readouterr().err == expected
    tuned = 500.0
    assert overhead.main(["--threads", "2", "--check"]) == 0


def test_small_cases_build_and_run(tmp_path):
    case = end_to_end.CASES["minilm-1x128"]()
    case.build(tmp_path / "m.onnx")
    _, outputs = common.bound(common.stock_session(tmp_path / "m.onnx", 1), case.feed)
    assert [o.shape for o in outputs] == [(1, 128, 384), (1, 384)]
