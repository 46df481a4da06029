"""The benchmark of the server: what it computes, and a small run."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("onnx")
pytest.importorskip("grpc", reason="the extra 'serve' is not installed")

from benchmarks import serve, serve_report
from benchmarks.serve_client import Load, _Block
from models.fetch import FetchError
from models.minilm import files


def need_weights() -> None:
    try:
        files()
    except FetchError as error:
        pytest.skip(f"MiniLM's weights are not here: {error}")


def test_the_mix_is_the_same_each_time():
    lengths = serve.mixed_lengths(64)
    assert lengths == serve.mixed_lengths(64)
    assert min(lengths) >= 4
    assert max(lengths) <= 256
    feeds, kinds = serve.make_feeds(5, 2)
    assert kinds == {"mix": [0, 1, 2, 3, 4], "128": [5, 6]}
    assert [feed["input_ids"].shape for feed in feeds] == [
        *((1, length) for length in serve.mixed_lengths(5)),
        (1, 128),
        (1, 128),
    ]


def test_a_block_counts_from_answer_to_answer(monkeypatch):
    """Two callers whose answers come together, ten seconds apart."""
    now, cpu = 0.0, 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    monkeypatch.setattr("time.process_time", lambda: cpu)
    monkeypatch.setattr("benchmarks.serve_client.cpu_seconds", lambda pid: 2 * cpu)
    block = _Block(Load("rest", 1, 1, concurrency=2, seconds=25.0, warm_up=5.0, requests=[0]))
    callers = object(), object()
    for turn in range(1, 6):
        now, cpu = 10.0 * turn, 1.0 * turn
        for caller in callers:
            block.answered(caller, 0, now - 10.0, b"")
    assert block.over
    report = block.report()
    # The first two are the warm-up; those at 40 are beyond 25 seconds after it.
    assert report["latencies"] == [10.0] * 4
    assert report["wall_seconds"] == 20.0
    assert report["client_cpu_seconds"] == pytest.approx(2.0)
    assert report["server_cpu_seconds"] == pytest.approx(4.0)
    assert report["errors"] == []


def test_a_block_without_an_end_is_an_error():
    block = _Block(Load("rest", 1, 1, concurrency=1, seconds=1.0, warm_up=0.0, requests=[0]))
    assert block.report()["errors"] == ["the block did not come to its end"]


def side(rate, errors=(), difference=0.0):
    return {
        "latencies": [1.0 / rate] * rate,
        "wall_seconds": 1.0,
        "server_cpu_seconds": 0.5,
        "client_cpu_seconds": 0.1,
        "errors": list(errors),
        "compared": 1,
        "difference": difference,
    }


def test_a_result_and_its_line():
    cell = {"requests": "mix", "protocol": "rest", "concurrency": 1}
    found = serve._result(cell, {"stock": [side(10)] * 5, "ours": [side(20)] * 5}, {"hits": 3, "misses": 1})
    assert found["speed_up"]["value"] == pytest.approx(2.0)
    assert found["rate_ratio"]["low"] == pytest.approx(2.0)
    assert found["sides"]["ours"]["client_cpu"] == pytest.approx(0.005)
    stock, ours = serve.table([found]).splitlines()[2:]
    assert stock.startswith("| mixed lengths, rest, 1: stock |")
    assert [cell.strip() for cell in ours.split("|")[2:-1]] == [
        "20",
        "50.0",
        "50.0",
        "2.000 (2.000-2.000)",
        "25.00",
        "5.00",
        "75 %",
        "0",
    ]
    assert serve.wrong([found]) == []


def test_errors_and_differences_are_wrong():
    cell = {"requests": "mix", "protocol": "rest", "concurrency": 1}
    bad = {"stock": [side(10)], "ours": [side(10, ["refused", "refused"], difference=0.5)]}
    assert serve.wrong([serve._result(cell, bad, {"hits": 0, "misses": 0})]) == [
        "mix rest 1 ours: 2 errors, the first: refused",
        "mix rest 1 ours: an answer differs by 5.0e-01",
    ]


@pytest.mark.parametrize("arguments", [["--requests", "x"], ["--concurrency", "0"], ["--protocols", ""]])
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        serve.main(arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_small_run_of_load(tmp_path, capsys):
    need_weights()
    small = ["--quick", "--rounds", "1", "--settle", "0.5", "--concurrency", "1,2", "--requests", "mix"]
    assert serve.main([*small, "--json", str(tmp_path / "load.json")]) == 0
    found = json.loads((tmp_path / "load.json").read_text())
    assert found["benchmark"] == "serve"
    settled, *cells = found["results"]
    assert settled["part"] == "settled"
    assert [(cell["protocol"], cell["concurrency"]) for cell in cells] == [
        ("rest", 1),
        ("rest", 2),
        ("grpc", 1),
        ("grpc", 2),
    ]
    for cell in cells:
        assert sorted(cell["order"][0]) == ["ours", "stock"]
        for one in cell["sides"].values():
            assert one["errors"] == []
            assert 0.0 <= one["difference"] < serve_report.TOLERANCE
            assert 0.0 < one["p50"] <= one["p99"]
            assert one["server_cpu"] > 0.0
        assert cell["calls"]["hits"] + cell["calls"]["misses"] > 0
    said = capsys.readouterr().out
    assert "cores" in said
    assert "| mixed lengths, grpc, 2: ours " in said


def test_a_small_run_of_first_requests(tmp_path, capsys):
    need_weights()
    assert (
        serve.main(["--first-request", "--samples", "1", "--quick", "--json", str(tmp_path / "x.json")]) == 0
    )
    results = json.loads((tmp_path / "x.json").read_text())["results"]
    assert [one["mode"] for one in results] == ["stock", "empty", "cached"]
    for one in results:
        assert one["median"]["from_start"] > one["median"]["ready"] > 0.0
        assert one["median"]["first"] > 0.0
        assert one["difference"] < serve_report.TOLERANCE
    assert "| with saved results " in capsys.readouterr().out
