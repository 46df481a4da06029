"""The benchmarks of elections and of serving: what they compute, and small runs of each."""

from __future__ import annotations

import argparse
import json
import random
import statistics
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnxruntime_ep_tunableop as tunableop
import pytest

pytest.importorskip("onnx")

from benchmarks import common, first_request, flat, soak, stability
from benchmarks.small_models import perceptron

SHAPES = "name,batch,m,n,k,b_const,where\ntail,1,7,13,101,1,x\nscores,2,8,8,4,0,x\nlarge,1,999,999,999,1,x\n"


@pytest.fixture
def background() -> str:
    """The mode, for tests that need it."""
    try:
        tunableop.InferenceSession(perceptron((2, 2)).model(), tuning="background")
    except tunableop.OptionError as error:
        pytest.skip(f"this build does not measure in the background: {error}")
    return "background"


def scattered(median, seed, rounds=100, noise=0.01):
    draw = random.Random(seed)
    return [median * draw.lognormvariate(0, noise) for _ in range(rounds)]


def test_the_best_is_not_chosen_by_the_luck_that_it_is_judged_by():
    ratios, naive = [], []
    for trial in range(30):
        equal = {f"k{i}": scattered(1.0, seed=8 * trial + i, noise=0.05) for i in range(8)}
        ratios += stability.ratios_to_best(equal, set(equal)).values()
        lowest = min(statistics.median(times) for times in equal.values())
        naive += [statistics.median(times) / lowest for times in equal.values()]
    assert statistics.mean(ratios) == pytest.approx(1.0, abs=0.004)
    assert statistics.mean(naive) > 1.006, "which is what it guards against"


def test_ratios_are_to_the_best_that_was_elected():
    seconds = {"a": scattered(1.0, 1), "b": scattered(1.1, 2), "nobody's": scattered(0.5, 3)}
    ratios = stability.ratios_to_best(seconds, {"a", "b"})
    assert ratios["a"] == 1.0
    assert ratios["b"] == pytest.approx(1.1, rel=0.01)
    assert set(ratios) == {"a", "b"}


def judged(name, *ratios):
    noise = {"value": 1.0, "low": 0.99, "high": 1.01}
    elected = [f"k{ratio}" for ratio in ratios]
    common_part = {"size": "1x1x1", "threads": 1, "default": "k1.0", "noise": noise}
    figures = {"elected": elected, "ratio": list(ratios), "gain": [1.0 for _ in ratios]}
    figures |= {"unmeasured": 1, "cold": 2}
    return {"shape": name, **common_part, **figures}


def test_stability_misses_its_bound(capsys, monkeypatch, tmp_path):
    (tmp_path / "s.csv").write_text(SHAPES)
    results = {"tail": judged("tail", 1.0, 1.02), "scores": judged("scores", 1.0, 1.021)}
    assert stability.share(list(results.values())) == 0.75
    assert stability.missed(list(results.values()), 0.75) == []
    assert stability.missed([], 0.5), "nothing measured is nothing shown"
    monkeypatch.setattr(stability, "judge", lambda shape, *_: results[shape.name])
    monkeypatch.setattr(common, "fresh_process", lambda *_: json.dumps(dict.fromkeys(results)))
    command = ["--shapes", str(tmp_path / "s.csv"), "--processes", "2"]
    assert stability.main(command) == 0
    assert stability.main([*command, "--check"]) == 1
    printed = capsys.readouterr()
    assert "BOUND MISSED: 1 thread(s), within 2% of the best: 75.0%, expected at least 95%" in printed.err
    assert "2 shapes x 2 processes: 75.0% within 2%" in printed.out
    assert "1x k1.0 (default), 1x k1.021" in printed.out
    assert "2 elections kept the default for want of time" in printed.out
    assert "4 elections were held with B out of the caches; here it is in them" in printed.out
    assert stability.main([*command, "--check", "--min-share", "0.7"]) == 0
    with pytest.raises(SystemExit):
        stability.main([*command, "--max-mflop", "0"])
    assert "it takes a shape" in capsys.readouterr().err


@pytest.mark.parametrize("through", ["kernel", "session"])
def test_stability_of_small_shapes(through, capsys, tmp_path):
    (tmp_path / "s.csv").write_text(SHAPES)
    command = ["--shapes", str(tmp_path / "s.csv"), "--processes", "2", "--rounds", "4", "--min-gain", "0"]
    assert stability.main([*command, "--through", through, "--json", str(tmp_path / "r.json")]) == 0
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [r["shape"] for r in results] == ["tail", "scores"], "the large one is left out"
    for r in results:
        assert len(r["elected"]) == len(r["ratio"]) == len(r["gain"]) == 2
        assert set(r["elected"]) | {r["default"], stability.AGAIN} == set(r["rounds_us"])
        assert all(len(times) == 4 and min(times) > 0 for times in r["rounds_us"].values())
    assert "2 shapes x 2 processes" in capsys.readouterr().out


def test_the_default_can_be_put_in_the_place_of_the_winner():
    shape = common.Shape("x", 1, 4, 8, 16, True)
    document = stability.elect([shape], 1, None, seed=0)["x"]
    default = stability.with_default(document)
    assert stability.kernel_of(default) == stability.entry(document)["default_kernel"]
    other = json.loads(json.dumps(document))
    other["machines"][0]["entries"][0]["winner"] = {"library": "no", "kernel": "such"}
    assert stability.kernel_of(stability.with_default(other)) == stability.kernel_of(default)
    session = tunableop.InferenceSession(perceptron((2, 2)).model(), tuning="cached")
    assert tunableop.set_tuning_results(session, default) == [], "it is a valid document"
    with pytest.raises(SystemExit, match="expected one problem to be tuned, found 0"):
        stability.entry({"machines": []})


def test_perceptron_is_what_numpy_says():
    net = perceptron((5, 7, 3), gram=True)
    feed = net.feed(11)
    outputs = common.stock_session(net.model(), 1).run(None, feed)
    assert [o.shape for o in outputs] == [(11, 3), (3, 3)]
    assert common.difference(outputs, net.expected(feed["x"])) < 1e-6
    assert soak.wrong(outputs, net, feed["x"]) < 1e-6
    for output in outputs:
        output[0, 0] += 1
        assert soak.wrong(outputs, net, feed["x"]) > 1e-3
        output[0, 0] -= 1


def requests(mode, first, base=1.0, samples=9):
    def one(ms):
        return {"ms": dict.fromkeys(first_request.STEPS, 1.0) | {"first": ms}, "tuned": 0, "difference": 0.0}

    found = {"off": [one(base)] * samples, mode: [one(first)] * samples}
    return first_request.summarise("m", 1, found)


def served(background, low=None, high=None, against="online"):
    ratio = {"value": background, "low": low or background, "high": high or background}
    return {"model": "m", "threads": 1, "against": against, "ratio": {"background": ratio}}


def test_first_request_misses_its_bounds():
    missed = first_request.missed
    assert missed(requests("background", 1.1), [served(1.03)]) == []
    assert missed(requests("background", 1.0), [served(1.2, 0.99, 1.4)]) == [], "within noise"
    assert missed(requests("background", 1.2), [served(1.0)]) == [
        "m, 1 thread(s): first request background/off 1.200 (1.200-1.200), expected at most 1.1"
    ]
    for slow, low, high in ((1.04, 1.01, 1.05), (0.9, 0.8, 0.95)):
        (line,) = missed(requests("background", 1.0), [served(slow, low, high)])
        assert line.startswith("m, 1 thread(s): steady background/online ")
    nothing = ["background was not measured beside off and online"]
    assert missed(requests("online", 1.0), [served(1.0)]) == nothing
    assert missed(requests("background", 1.0), [served(1.0, against="off")]) == nothing


def test_first_requests_of_a_small_model(capsys, tmp_path):
    command = ["--modes", "off,online,cached", "--model", "mlp-32", "--samples", "2", "--quick"]
    assert first_request.main([*command, "--json", str(tmp_path / "r.json")]) == 0
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    first = {r["mode"]: r for r in results["first"]}
    assert {mode: r["tuned"] for mode, r in first.items()} == {"off": 0, "online": 3, "cached": 0}
    for r in first.values():
        assert r["difference"] < 1e-5
        assert {step: len(times) for step, times in r["samples_ms"].items()} == dict.fromkeys(
            first_request.STEPS, 2
        )
    assert first["off"]["ratio"]["first"]["value"] == 1
    (steady,) = results["steady"]
    assert steady["against"] == "online"
    assert set(steady["ms"]) == {"off", "online", "cached"}
    assert steady["shapes"] == 3
    assert "| mode   | create ms |" in capsys.readouterr().out


def test_a_mode_that_is_refused_is_named(capsys, tmp_path):
    first_request.prepare(first_request.CASES["mlp-32"](), 1, tmp_path)
    with pytest.raises(SystemExit, match=r"tuning=never: .*expected one of off, "):
        first_request.sample("never", 1, tmp_path)
    with pytest.raises(SystemExit):
        first_request.main(["--modes", "off,never"])
    assert "--modes: never: the modes are off, background, online, cached" in capsys.readouterr().err


def counters(monkeypatch, *steps):
    """stats() gives one step after the other, (tuned, pending), and the last for ever."""
    left = [SimpleNamespace(tuned=tuned, pending=pending, deferred=0) for tuned, pending in steps]
    monkeypatch.setattr(tunableop, "stats", lambda _: left.pop(0) if len(left) > 1 else left[0])


def test_settle_waits_for_what_later_runs_meet(monkeypatch):
    runs = []
    # A run, two looks at what waits, done: one was tuned. A run that meets nothing, twice.
    counters(monkeypatch, (0, 2), (0, 2), (1, 0), (2, 0), (2, 0))
    first_request.settle(None, lambda: runs.append(1), limit=60)
    assert len(runs) == 3
    counters(monkeypatch, (0, 1))
    with pytest.raises(SystemExit, match="still 1 problems to measure after 0 s"):
        first_request.settle(None, lambda: None, limit=0.03)
    counters(monkeypatch, (0, 0))
    with pytest.raises(SystemExit, match="nothing was measured"):
        first_request.settle(None, lambda: None, limit=60)


def test_background_serves_and_settles(background, tmp_path):
    command = ["--modes", f"off,{background},online", "--model", "mlp-32", "--samples", "2", "--quick"]
    assert first_request.main([*command, "--json", str(tmp_path / "r.json")]) == 0
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert results["steady"][0]["settled_seconds"] > 0
    assert {r["mode"] for r in results["first"]} == {"off", "background", "online"}


def samples(memory, files=8, threads=3, count=90):
    """A sample each 10 s; `memory`, `files` and `threads` are numbers or functions of the position."""

    def at(what, i):
        return what(i) if callable(what) else what

    zero = soak.Sample(*([0] * 11))
    return [
        replace(zero, seconds=10.0 * i, rss_mb=at(memory, i), files=at(files, i), threads=at(threads, i))
        for i in range(count)
    ]


def judge(samples):
    return flat.judge(samples, soak.WARM_UP)


def test_memory_that_swings_is_flat_and_memory_that_leaks_is_not():
    def leak(per_ten_minutes):
        return lambda i: 500 + per_ten_minutes * i / 60

    swinging = judge(samples(lambda i: 300 + 20 * (i < 30) * i / 30 + (i * 7919) % 13))
    assert abs(swinging.slope_mb) < 1
    assert swinging.missed(1.0, 0.001) == []
    leaking = judge(samples(leak(10)))
    assert leaking.slope_mb == pytest.approx(10)
    assert leaking.growth == pytest.approx(10 / 500, rel=0.1)
    (line,) = leaking.missed(1.0, 0.01)
    assert line.startswith("memory grows by 10.00 MB in ten minutes, 1.9% in all; expected below 1 MB or")
    assert leaking.missed(1.0, 0.05) == [], "one of the two is enough"
    assert leaking.missed(11.0, 0.0) == []
    assert judge(samples(leak(-10))).missed(1.0, 0.01) == []
    assert flat.Verdict(float("nan"), float("nan"), (1, 1), (1, 1), (0, 600), 90).missed(1.0, 0.01)
    with pytest.raises(ValueError, match="7 samples after warm-up: too few"):
        judge(samples(300, count=10))


def test_files_and_threads_must_not_grow():
    assert judge(samples(300, files=lambda i: 9 if i in (35, 88) else 8)).missed(1, 0.01) == []
    step = judge(samples(300, files=lambda i: 8 + (i > 70))).missed(1, 0.01)
    assert step == ["open files grow from 8 to 9"]
    slow = judge(samples(300, threads=lambda i: 3 + i // 20)).missed(1, 0.01)
    assert slow == ["threads grow from 4 to 7"]
    assert judge(samples(300, threads=lambda i: 3 + (i > 10))).missed(1, 0.01) == [], "warm-up"


def test_small_sizes_are_frequent_and_all_possible():
    draw = soak.Sizes(50, seed=0)
    drawn = [draw() for _ in range(20000)]
    assert (min(drawn), max(drawn)) == (1, 50)
    total = sum(1 / m for m in range(1, 51))
    assert drawn.count(1) / len(drawn) == pytest.approx(1 / total, rel=0.1)
    assert drawn.count(10) / len(drawn) == pytest.approx(0.1 / total, rel=0.3)
    assert [soak.Sizes(50, seed=0)() for _ in range(3)] == [drawn[0]] * 3


def test_soak_tells_wrong_answers_and_missed_bounds(capsys, monkeypatch):
    answers = {"requests": 9, "distinct": 3, "checked": 1, "difference": 1e-7}
    monkeypatch.setattr(soak, "serve", lambda _: (samples(lambda i: 300 + i), answers))
    assert soak.main([]) == 0
    out = capsys.readouterr().out
    assert "9 requests of 3 sizes; 1 answers compared with numpy" in out
    assert "after warm-up (300 to 890 s): memory +60.00 MB in ten minutes, +17.5" in out
    assert "(median 359.5 MB); open files 8 -> 8, threads 3 -> 3" in out
    assert soak.main(["--check"]) == 1
    assert "BOUND MISSED: memory grows by 60.00 MB" in capsys.readouterr().err
    assert soak.main(["--check", "--max-slope", "61"]) == 0
    answers["difference"] = np.inf
    assert soak.main([]) == 1
    assert "WRONG RESULTS: differs by inf" in capsys.readouterr().err


def test_serving_counts_evictions_and_checks_answers():
    arguments = {
        "tuning": "online",
        "cache_size": 8,
        "largest": 64,
        "threads": 1,
        "rate": 0.0,
        "minutes": 0.02,
    }
    taken, answers = soak.serve(argparse.Namespace(**arguments))
    last = taken[-1]
    assert last.requests == answers["requests"] > 10
    assert last.distinct == answers["distinct"] > 8
    assert last.evicted > 0
    assert last.tuned > 8
    assert last.rss_mb > 10
    assert last.threads >= 1
    assert last.files >= 3
    assert answers["checked"] > 1
    assert answers["difference"] < soak.TOLERANCE


def run_soak(mode, path):
    command = ["-m", "benchmarks.soak", "--minutes", "0.5", "--tuning", mode, "--check", "--json", str(path)]
    # Half a minute is warm-up still: memory is bounded all the same, files and threads are final.
    common.fresh_process(*command, "--max-growth", "0.5")
    samples = json.loads(path.read_text())["results"]["samples"]
    assert samples[-1]["evicted"] > 0
    assert len(samples) >= 40
    return samples[-1]


@pytest.mark.slow
def test_half_a_minute_of_changing_shapes(tmp_path):
    assert run_soak("online", tmp_path / "r.json")["tuned"] > 256


@pytest.mark.slow
def test_half_a_minute_of_changing_shapes_in_the_background(background, tmp_path):
    # Whether half a minute repays measuring a shape depends on the machine: run_soak has what must hold.
    run_soak(background, tmp_path / "r.json")
