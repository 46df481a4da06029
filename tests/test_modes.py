"""Modes on a live session, record, budgets, neighbours, ranges of m, traces and the environment."""

from __future__ import annotations

import csv
import gc
import json
import os
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model
from support.process import run_python
from support.sessions import quick_session, random
from support.tolerance import assert_close, product

B = random((64, 48), 2)
MODEL = matmul_model(["m", 64], None, constants={"B": B})


def run(session: tunableop.InferenceSession, *sizes: int) -> None:
    for m in sizes:
        a = random((m, 64), m)
        assert_close(session.run(None, {"A": a})[0], *product(a, B))


def test_a_live_session_changes_its_mode() -> None:
    session = quick_session(MODEL)
    run(session, 16)
    for mode, tuned, hits, fallbacks in [
        ("off", 1, 0, {"tuning_off": 1}),
        ("cached", 1, 1, {"tuning_off": 1}),
        ("online", 1, 2, {"tuning_off": 1}),
        ("record", 1, 2, {"tuning_off": 1, "recording": 1}),
        ("online", 1, 3, {"tuning_off": 1, "recording": 1}),
    ]:
        tunableop.set_tuning(session, mode)
        run(session, 16)
        stats = tunableop.stats(session)
        assert (stats.tuning, stats.tuned, stats.hits, stats.fallbacks) == (mode, tuned, hits, fallbacks)
    run(session, 17)
    assert tunableop.stats(session).tuned == 2


def test_a_wrong_mode_is_an_error_that_names_the_right_ones() -> None:
    session = quick_session(MODEL)
    with pytest.raises(tunableop.OptionError, match="off, cached, online, background, record, found 'on'"):
        tunableop.set_tuning(session, "on")
    with pytest.raises(Exception, match="off, cached, online, background, record, found 'on'"):
        session.set_ep_dynamic_options({"tuning": "on"})
    run(session, 3)


def test_what_was_recorded_is_in_the_file_with_its_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    session = quick_session(MODEL, tuning="record", cache=path)
    run(session, 3, 3, 3, 5)
    assert tunableop.stats(session).tuned == 0
    assert tunableop.stats(session).fallbacks == {"recording": 4}
    del session
    gc.collect()
    (machine,) = json.loads(path.read_text())["machines"]
    assert {(seen["m"], seen["uses"]) for seen in machine["seen"]} == {(3, 3), (5, 1)}
    assert machine["entries"] == []


def test_counting_goes_on_where_an_earlier_session_ended(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for _ in range(2):
        session = quick_session(MODEL, tuning="record", cache=path)
        run(session, 3, 3)
        del session
        gc.collect()
    (machine,) = json.loads(path.read_text())["machines"]
    assert [seen["uses"] for seen in machine["seen"]] == [4]


def test_a_spent_session_budget_ends_measuring() -> None:
    session = quick_session(MODEL, max_session_ms=0.001)
    run(session, 3, 5, 5)
    stats = tunableop.stats(session)
    assert stats.tuned == 1
    assert stats.fallbacks == {"session_budget": 2}
    run(session, 3)
    assert tunableop.stats(session).hits == 1
    whys = {shape.m: shape.why for shape in tunableop.explain(session).shapes}
    assert whys[5] == "not measured: max_session_ms is spent"


def test_a_spent_budget_does_not_stop_who_asks_for_a_measurement() -> None:
    session = quick_session(MODEL, max_session_ms=0.001)
    run(session, 3, 4)
    stats = tunableop.stats(session)
    assert (stats.tuned, stats.fallbacks) == (1, {"session_budget": 1})
    tunableop.warm(session, {"A": [5, 64]})
    assert tunableop.stats(session).tuned == 2


def test_a_day_budget_is_shared_through_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    session = quick_session(MODEL, cache=path, max_day_ms=0.001)
    run(session, 3)
    assert tunableop.stats(session).tuned == 1
    del session
    gc.collect()
    (machine,) = json.loads(path.read_text())["machines"]
    assert machine["spent"]["ms"] > 0.001
    again = quick_session(MODEL, cache=path, max_day_ms=0.001)
    run(again, 3, 5)
    stats = tunableop.stats(again)
    assert (stats.hits, stats.tuned, stats.fallbacks) == (1, 0, {"day_budget": 1})


def _results_with(kernel: str, m: int) -> dict[str, Any]:
    """Results in which the problem of `m` rows has another winner than a session would elect."""
    session = quick_session(MODEL)
    run(session, m)
    results = tunableop.get_tuning_results(session)
    (entry,) = results["machines"][0]["entries"]
    entry["winner"]["kernel"] = kernel
    entry["budget_ms"] = 0
    entry["winner_ms"] = entry["winner_ms"] or 0.01
    entry["default_ms"] = entry["default_ms"] or 0.01
    return results


def _another_kernel(m: int) -> str:
    """A kernel that can run `m` rows and is not the default for them."""
    session = quick_session(MODEL, candidates="all", max_tuning_ms=200.0)
    run(session, m)
    (shape,) = tunableop.explain(session).shapes
    family = shape.kernel.split(":", 1)[1].split(":")[0]
    for name in (f"{family}:4x16/rows", f"{family}:4x16", f"{family}:8x16/rows", f"{family}:6x16/rows"):
        results = _results_with(name, m)
        other = quick_session(MODEL, tuning="cached")
        if not tunableop.set_tuning_results(other, results) and f"native:{name}" != shape.default_kernel:
            return name
    pytest.fail("no kernel but the default can run this problem")


def test_an_unseen_m_starts_from_the_winner_of_the_nearest() -> None:
    name = _another_kernel(40)
    session = quick_session(MODEL, tuning="cached")
    assert tunableop.set_tuning_results(session, _results_with(name, 40)) == []
    run(session, 40, 41, 79, 81, 20, 19)
    shapes = {shape.m: shape for shape in tunableop.explain(session).shapes}
    assert shapes[40].tuned
    assert not shapes[41].tuned
    assert shapes[41].kernel == f"native:{name}"
    assert "nearest measured m" in shapes[41].why
    assert shapes[41].default_kernel != shapes[41].kernel
    # Not from one that is more than twice as large or small, nor from one that kept its own default.
    near = {m for m, shape in shapes.items() if "nearest measured m" in shape.why}
    assert near == {41, 79, 20}
    kept = quick_session(MODEL, tuning="cached")
    results = _results_with(shapes[40].default_kernel.split(":", 1)[1], 40)
    assert tunableop.set_tuning_results(kept, results) == []
    run(kept, 40, 41)
    assert not any("nearest" in shape.why for shape in tunableop.explain(kept).shapes)


def test_one_measured_m_serves_its_range(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    session = quick_session(MODEL, cache=path, buckets="pow2")
    run(session, 20, 17, 32, 20, 33)
    stats = tunableop.stats(session)
    assert (stats.tuned, stats.hits) == (2, 3)
    (served,) = (shape for shape in tunableop.explain(session).shapes if shape.m == 17)
    assert "m from 17 to 32, measured at m=20" in served.why
    del session
    gc.collect()
    (machine,) = json.loads(path.read_text())["machines"]
    ranges = {(e["m"], e["m_low"], e["m_high"]) for e in machine["entries"] if e.get("m_low")}
    assert ranges == {(20, 17, 32), (33, 33, 64)}
    again = quick_session(MODEL, cache=path, buckets="pow2")
    run(again, 25)
    assert tunableop.stats(again).tuned == 0
    alone = quick_session(MODEL, cache=path)
    run(alone, 25)
    assert tunableop.stats(alone).tuned == 1


def test_every_sample_is_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    session = quick_session(MODEL, trace=path, max_tuning_ms=50.0)
    run(session, 16, 24)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert {row["problem"] for row in rows} == {s.problem for s in tunableop.explain(session).shapes}
    assert {row["role"] for row in rows} >= {"default"}
    races = [row for row in rows if row["phase"] == "race"]
    assert len(races) >= 2 * 24
    assert all(float(row["ms"]) > 0 for row in rows)


def test_a_trace_that_cannot_be_written_is_told_and_does_no_harm(tmp_path: Path) -> None:
    session = quick_session(MODEL, trace=tmp_path / "none" / "trace.csv")
    run(session, 3)
    assert any("trace.csv" in note for note in tunableop.explain(session).notes)


def test_a_file_that_is_no_trace_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time_unix,problem\n")
    session = quick_session(MODEL, trace=path)
    run(session, 3)
    assert path.read_text() == "time_unix,problem\n"
    assert any("expected a trace that begins with" in note for note in tunableop.explain(session).notes)


def test_rates_clock_and_counters_come_by_measure_mode() -> None:
    shapes = []
    for mode in (0, 1, 2):
        session = quick_session(MODEL, measure_mode=mode, max_tuning_ms=20.0)
        run(session, 64)
        shapes += tunableop.explain(session).shapes
    assert (shapes[0].gflops, shapes[0].clock_mhz) == (0, 0)
    assert shapes[1].gflops == pytest.approx(2 * 64 * 64 * 48 / shapes[1].milliseconds * 1e-6)
    assert shapes[1].gigabytes_per_second > 0
    assert shapes[1].counters["cycles"] is None
    counters = shapes[2].counters
    assert (counters["cycles"] or 0) > 0 or counters["unavailable"]


def with_environment(script: str, **variables: str) -> Any:
    return run_python(script, env=os.environ | variables, check=False)


ENABLED = """
session = tunableop.InferenceSession(MODEL, max_tuning_ms=2.0{options})
right(session)
stats = tunableop.stats(session)
print(stats.tuning, stats.tuned, stats.fallbacks)
"""


def test_the_environment_switches_measuring_off_below_any_option() -> None:
    assert with_environment(ENABLED.format(options="")).stdout == "online 1 {}\n"
    off = with_environment(ENABLED.format(options=""), TUNABLEOP_ENABLE="0")
    assert off.stdout == "off 0 {'tuning_off': 1}\n"
    given = with_environment(ENABLED.format(options=", tuning='online'"), TUNABLEOP_ENABLE="0")
    assert given.stdout == "online 1 {}\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TUNABLEOP_ENABLE", "yes"),
        ("TUNABLEOP_WARMUP_ITER", "-1"),
        ("TUNABLEOP_CACHE_SIZE", "0"),
        ("TUNABLEOP_MEASURE_MODE", "3"),
        ("TUNABLEOP_REVALIDATE_MS", "soon"),
        ("TUNABLEOP_VERBOSE", "on"),
    ],
)
def test_a_wrong_value_in_the_environment_is_an_error_when_a_session_is_made(name: str, value: str) -> None:
    done = with_environment(
        """
        try:
            tunableop.InferenceSession(MODEL)
        except tunableop.OptionError as error:
            print(error)
        """,
        **{name: value},
    )
    assert f"environment variable '{name}': expected" in done.stdout
    assert f"found '{value}'" in done.stdout


def test_an_empty_variable_is_an_unset_one() -> None:
    assert with_environment(ENABLED.format(options=""), TUNABLEOP_ENABLE="").stdout == "online 1 {}\n"


def test_verbose_writes_a_line_for_each_call() -> None:
    done = with_environment(ENABLED.format(options="") + "right(session)\n", TUNABLEOP_VERBOSE="1")
    lines = [line for line in done.stderr.splitlines() if line.startswith("[TunableOp] gemm,")]
    assert len(lines) >= 1
    assert "(" not in lines[-1]
    assert ",hit," in lines[-1]
    assert lines[-1].endswith(" us")


def test_the_cache_size_comes_from_the_environment() -> None:
    done = with_environment(
        """
        session = tunableop.InferenceSession(MODEL, tuning="off")
        for m in range(1, 9):
            session.run(None, {"A": A[:1].repeat(m, axis=0)})
        print(tunableop.stats(session).evicted)
        """,
        TUNABLEOP_CACHE_SIZE="3",
    )
    assert done.stdout == "5\n"


def test_ranges_of_endless_products_do_not_pile_up() -> None:
    session = quick_session(
        matmul_model(["m", "k"], ["k", "n"]), buckets="pow2", cache_size=1, max_tuning_ms=2.0
    )
    for n in range(1, 61):
        session.run(None, {"A": random((3, 4)), "B": random((4, n))})
    stats = tunableop.stats(session)
    assert stats.tuned == 60
    assert stats.entries <= 2 * 16 + 1  # problems and their ranges, 16 for each place in the cache
