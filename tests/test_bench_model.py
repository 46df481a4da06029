"""`tunableop bench MODEL` whole: on small models, beside the stock CPU provider."""

from __future__ import annotations

import json
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pytest
from onnxruntime_ep_tunableop.bench import inputs, model, profiled, results, turns, waiting, work
from onnxruntime_ep_tunableop.bench.sides import Against
from onnxruntime_ep_tunableop.cli import main
from onnxruntime_ep_tunableop.errors import OptionError, TunableOpError
from onnxruntime_ep_tunableop.session import InferenceSession

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from support.cards import on_card  # noqa: E402

CPU = "CPUExecutionProvider"
QUICK = ["--duration", "0.2", "--no-fresh", "--quiet"]


def write(path: Path, nodes, inputs_, outputs, weights=()) -> str:
    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "g",
        [value(*one) for one in inputs_],
        [value(*one) for one in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return str(path)


@pytest.fixture
def two_products(tmp_path) -> str:
    """x [rows, 32] through 32x64 and 64x16."""
    random = np.random.default_rng(0)
    w1, w2 = random.standard_normal((32, 64)), random.standard_normal((64, 16))
    return write(
        tmp_path / "two.onnx",
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], name="up"),
            helper.make_node("MatMul", ["h", "w2"], ["y"], name="down"),
        ],
        [("x", TensorProto.FLOAT, ["rows", 32])],
        [("y", TensorProto.FLOAT, ["rows", 16])],
        [("w1", w1.astype(np.float32)), ("w2", w2.astype(np.float32))],
    )


def test_the_whole_report(two_products, tmp_path, capsys):
    out = tmp_path / "report.json"
    cache = tmp_path / "results.json"
    arguments = ["--dim", "rows=8", "--duration", "0.3", "--aggressive", "--cache", str(cache)]
    code = main(
        [
            *("bench", two_products, *arguments, "--json", str(out), "--threads", "1"),
            *("--csv", str(tmp_path / "report.csv"), "--md", str(tmp_path / "report.md")),
        ]
    )
    text = capsys.readouterr().out
    assert code == 0, text
    document = json.loads(out.read_text())
    assert [side["name"] for side in document["sides"]] == [CPU, "tuned", "aggressive"]
    assert document["shapes"] == "x:8x32"
    # Two products: 2 * 8 * 32 * 64 and 2 * 8 * 64 * 16 FLOP; operands and results of 4 bytes an element.
    assert document["work"] == {
        "products": 2,
        "flops": 2 * 8 * 32 * 64 + 2 * 8 * 64 * 16,
        "bytes": 4 * (8 * 32 + 32 * 64 + 8 * 64 + 8 * 64 + 64 * 16 + 8 * 16),
        "element_type": "fp32",
    }
    stock, tuned, aggressive = document["sides"]
    assert stock["tuned"] == 0
    assert tuned["tuned"] == 2
    assert aggressive["options"]["candidates"] == "all"
    assert aggressive["options"]["cache"] != tuned["options"]["cache"] == str(cache)
    assert {part["provider"] for part in tuned["provider_times"]} == {"TunableOpExecutionProvider"}
    assert [part["nodes"] for part in tuned["provider_times"]] == [2]
    for side in document["sides"]:
        calls = [call for block in document["samples"][side["name"]] for call in block]
        assert side["latency"]["count"] == len(calls)
        assert side["latency"]["median"] == pytest.approx(float(np.median(calls)))
        assert side["latency"]["p99"] == pytest.approx(float(np.percentile(calls, 99)))
        assert side["gflops"] == pytest.approx(document["work"]["flops"] / side["latency"]["median"] * 1e-9)
        assert side["first"]["peak_bytes"] > 1 << 20
        assert side["first"]["repeats"] in (1, 3)
    assert tuned["first_with_results"] is not None
    assert stock["first_with_results"] is None
    assert all(sorted(names) == sorted(document["order"][0]) for names in document["order"])
    assert len(document["order"]) == document["plan"]["rounds"] == len(document["samples"][CPU])
    assert {ratio["side"] for ratio in document["ratios"]} == {"tuned", "aggressive"}
    assert document["ceiling"]["gflops"] > 0
    assert json.loads(cache.read_text())["machines"], "--cache was saved to"
    assert "answers agree" in text
    assert (tmp_path / "report.csv").read_text().count("\n") == 4
    assert "| stock CPU" in (tmp_path / "report.md").read_text()


def test_answers_that_differ_fail(two_products, tmp_path, capsys, monkeypatch):
    """The one thing that must never pass: one element of one side is off."""
    real = model.open_side

    def wrong(spec, feeds, python=None):
        made = real(spec, feeds, python)
        if spec.kind == "tunableop":
            right = made.outputs

            def off_by_one_percent():
                found = {name: values.copy() for name, values in right().items()}
                found["y"][0, 0] += 0.01 * np.abs(found["y"]).max()
                return found

            made.outputs = off_by_one_percent
        return made

    monkeypatch.setattr(model, "open_side", wrong)
    assert main(["bench", two_products, "--dim", "rows=8", *QUICK]) == results.ANSWERS_DIFFER
    assert "FAILED (3): the answers of tuned differ: y: 1 of 128 elements differ" in capsys.readouterr().out
    assert main(["bench", two_products, "--dim", "rows=8", *QUICK, "--atol", "100"]) == 0


def test_a_model_without_products_has_nothing_for_us(tmp_path, capsys):
    path = write(
        tmp_path / "relu.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, [4])],
        [("y", TensorProto.FLOAT, [4])],
    )
    assert main(["bench", path, *QUICK]) == results.NOTHING_RAN
    assert "our provider ran nothing" in capsys.readouterr().out


@pytest.mark.slow
def test_the_control_that_has_nothing_to_win(tmp_path, capsys):
    """Convolutions of a real model: nothing is ours, the answers are stock's own, and nothing is slower."""
    from models import text_detector

    out = tmp_path / "report.json"
    arguments = [str(text_detector.path()), "--shape", "x:1x3x160x160", "--duration", "4", "--no-fresh"]
    assert main(["bench", *arguments, "--json", str(out), "--quiet"]) == results.NOTHING_RAN
    text = capsys.readouterr().out
    assert "our provider ran nothing, so there is nothing to compare: the model has no MatMul" in text
    document = json.loads(out.read_text())
    stock, tuned = document["sides"]
    assert tuned["agreement"] == {"absolute": 0.0, "relative": 0.0, "within": True, "reason": ""}
    assert [part["provider"] for part in tuned["provider_times"]] == [CPU]
    assert tuned["provider_times"][0]["nodes"] == stock["provider_times"][0]["nodes"]
    assert document["ratios"][0]["interval"]["high"] > 0.9


def refused_and_claimed(tmp_path) -> str:
    """A product of integers, which we refuse, beside one that we take."""
    return write(
        tmp_path / "mixed.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="ours"),
            helper.make_node("MatMul", ["i", "i"], ["j"], name="integers"),
        ],
        [("x", TensorProto.FLOAT, [4, 4]), ("i", TensorProto.INT32, [4, 4])],
        [("y", TensorProto.FLOAT, [4, 4]), ("j", TensorProto.INT32, [4, 4])],
        [("w", np.eye(4, dtype=np.float32))],
    )


def test_a_refused_node_fails_unless_allowed(tmp_path, capsys):
    path = refused_and_claimed(tmp_path)
    assert main(["bench", path, *QUICK]) == results.FELL_BACK
    text = capsys.readouterr().out
    assert "not on ours: MatMul 'integers': input type int32 has no kernel" in text
    assert "1 of 2 MatMul and Gemm nodes run on our provider" in text
    assert main(["bench", path, *QUICK, "--allow-fallback"]) == 0


def test_what_options_leave_to_others_is_no_fallback(tmp_path, capsys):
    path = write(
        tmp_path / "computed.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="weights"),
            helper.make_node("MatMul", ["y", "y"], ["z"], name="computed"),
        ],
        [("x", TensorProto.FLOAT, [4, 4])],
        [("z", TensorProto.FLOAT, [4, 4])],
        [("w", np.eye(4, dtype=np.float32))],
    )
    assert main(["bench", path, *QUICK, "--option", "claim=weights"]) == 0
    assert "not on ours: MatMul 'computed': claim=weights" in capsys.readouterr().out


def test_a_cache_that_knows_nothing_is_a_fallback(two_products, tmp_path, capsys):
    arguments = [two_products, "--dim", "rows=8", *QUICK, "--tuning", "cached"]
    arguments += ["--cache", str(tmp_path / "absent.json")]
    assert main(["bench", *arguments]) == results.FELL_BACK
    assert "the cache does not know them" in capsys.readouterr().out
    assert main(["bench", two_products, "--dim", "rows=8", *QUICK, "--tuning", "off"]) == 0


def test_background_is_waited_for(two_products, capsys):
    assert main(["bench", two_products, "--dim", "rows=8", *QUICK, "--tuning", "background"]) == 0
    assert "tuned: " in capsys.readouterr().out


def test_iterations_and_concurrency(two_products, tmp_path):
    out = tmp_path / "report.json"
    arguments = ["--iterations", "24", "--concurrency", "2", "--no-fresh", "--json", str(out), "--quiet"]
    assert main(["bench", two_products, "--dim", "rows=8", *arguments]) == 0
    document = json.loads(out.read_text())
    assert [side["latency"]["count"] for side in document["sides"]] == [24, 24]
    assert document["plan"]["concurrency"] == 2


def test_the_seed_decides_the_order(two_products, tmp_path):
    orders = []
    for seed in ("1", "1", "2"):
        out = tmp_path / f"{seed}.json"
        arguments = ["--iterations", "12", "--no-fresh", "--no-profile", "--seed", seed, "--json", str(out)]
        assert main(["bench", two_products, "--dim", "rows=2", *arguments, "--quiet"]) == 0
        orders.append(json.loads(out.read_text())["order"])
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected MODEL"),
        (["mlp", "--gemm"], "expected MODEL"),
        (["absent.onnx"], "expected a file or one of minilm, bert"),
        (["mlp", "--duration", "0"], "--duration: expected a number above 0"),
        (["mlp", "--concurrency", "0"], "--concurrency: expected a number above 0"),
        (["mlp", "--warmup", "-1"], "--warmup: expected 0 or more"),
        (["mlp", "--against", "quantum"], "'quantum' is no provider"),
        (["mlp", "--against", "cpu", "--against", "cpu"], "stands there twice"),
        (["mlp", "--option", "tunning=online"], "there is no option 'tunning'"),
        (["mlp", "--option", "tuning"], "expected KEY=VALUE"),
        (["mlp", "--tuning", "cached"], "name it with --cache"),
        (["mlp", "--device", "cuda:7x"], "option 'device'"),
        (["mlp", "--shape", "x"], "expected INPUT:1x128"),
        (["mlp", "--dim", "rows=2"], "no symbolic dimension 'rows'"),
        (["mlp", "--json", "absent/report.json"], "expected a folder"),
        (["mlp", "--md", "/"], "'/' may not be written"),
        (["--gemm", "1,2"], "expected m,n,k"),
        (["--gemm", "1,2,3", "--aggressive"], "is for a MODEL"),
        (["--gemm", "1,2,3", "--tuning", "off"], "measures every kernel itself"),
    ],
)
def test_wrong_usage_is_said(arguments, words, capsys):
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_work_is_known_when_the_baseline_runs_elsewhere(two_products, tmp_path, capsys):
    """Only sessions of this process are profiled; what their products are holds for all sides."""
    out = tmp_path / "report.json"
    arguments = ["--dim", "rows=8", *QUICK, "--against", f"{sys.executable}:cpu", "--json", str(out)]
    assert main(["bench", two_products, *arguments]) == 0
    stock, tuned = json.loads(out.read_text())["sides"]
    assert min(stock["gflops"], tuned["gflops"], tuned["product_gflops"]) > 0.0
    assert stock["product_gflops"] == 0.0
    capsys.readouterr()


def test_a_provider_that_is_not_there(capsys):
    assert main(["bench", "mlp", "--against", "ROCMExecutionProvider", *QUICK]) == 1
    assert "has no ROCMExecutionProvider" in capsys.readouterr().err


def test_gemm_has_a_row_for_each_kernel(tmp_path, capsys):
    out = tmp_path / "gemm.json"
    arguments = ["--duration", "0.05", "--option", "max_tuning_ms=50", "--threads", "1", "--json", str(out)]
    assert main(["bench", "--gemm", "4,32,16", *arguments, "--csv", str(tmp_path / "gemm.csv")]) == 0
    text = capsys.readouterr().out
    assert "stock:CPUExecutionProvider" in text
    assert "fp32: tuned is " in text
    rows = json.loads(out.read_text())["rows"]
    assert {"stock", "untuned", "tuned", "winner"} <= {row["role"] for row in rows}
    assert len((tmp_path / "gemm.csv").read_text().splitlines()) == len(rows) + 1


def test_nothing_to_compare_with(tmp_path):
    subject = inputs.find("mlp", tmp_path)
    with pytest.raises(OptionError, match="at least one provider"):
        model.run(model.Request(subject, [], {}), tmp_path)


def test_the_baseline_is_the_first(two_products, tmp_path):
    """Also where it comes from another Python, here our own."""
    import sys

    subject = inputs.find(two_products, tmp_path, dims={"rows": 4})
    against = [Against(Path(sys.executable), CPU), Against(None, CPU)]
    request = model.Request(subject, against, {}, iterations=12, fresh=False)
    found = model.run(request, tmp_path)
    assert found.code == 0
    assert found.baseline == f"{CPU} of {sys.executable}" == found.sides[0].name
    assert found.sides[0].provider_times == [], "another Python is not profiled"
    assert found.sides[1].provider_times


class FakeSide:
    """Measures one problem for each request while it has some, then for each question."""

    name = "tuned"

    def __init__(self, pending: int, deferred: int, stuck: bool = False) -> None:
        self.counters = {"tuning": "background", "pending": pending, "deferred": deferred, "tuned": 0}
        self.stuck = stuck

    def stats(self):
        now = dict(self.counters)
        if not self.stuck and self.counters["pending"]:
            self.counters["pending"] -= 1
            self.counters["tuned"] += 1
        return {"counters": now}

    def block(self, **_):
        if self.counters["deferred"]:
            self.counters["deferred"] -= 1
            self.counters["pending"] += 1


def test_waiting_ends_when_all_is_measured():
    side, told = FakeSide(pending=2, deferred=3), []
    waiting.until_measured(side, lambda *step: told.append(step[1:]), clock=lambda: 0.0, sleep=lambda _: None)
    assert side.counters["tuned"] == 5
    assert told[-1][1] == 5


def test_what_is_used_too_rarely_is_not_waited_for():
    side, now = FakeSide(0, 2), iter(float(second) for second in range(1000))
    side.block = lambda **_: None
    waiting.until_measured(side, lambda *_: None, clock=lambda: next(now), sleep=lambda _: None)
    assert side.counters["deferred"] == 2


def test_waiting_has_an_end():
    now = iter(float(second) for second in range(1000))
    with pytest.raises(TunableOpError, match="2 problems of tuned wait"):
        waiting.until_measured(
            FakeSide(2, 0, stuck=True), lambda *_: None, clock=lambda: next(now), sleep=lambda _: None
        )


def test_rates_of_calls_at_the_same_time_are_those_of_all_of_them(two_products, tmp_path, monkeypatch):
    """What one of four calls takes is about four times what it takes alone: no rate of the machine."""
    asked = []
    real = model.ceilings.measure

    def measured(device, threads, kind):
        asked.append(threads)
        return real(device, threads, kind)

    monkeypatch.setattr(model.ceilings, "measure", measured)
    monkeypatch.setattr(model.machine, "cores", lambda: 3)
    out = tmp_path / "report.json"
    arguments = ["--dim", "rows=8", *QUICK, "--threads", "1", "--json", str(out)]
    assert main(["bench", two_products, *arguments, "--concurrency", "4"]) == 0
    document = json.loads(out.read_text())
    for side in document["sides"]:
        calls = side["throughput"]["mean"]
        assert side["gflops"] == pytest.approx(document["work"]["flops"] * calls * 1e-9)
        assert side["gigabytes_per_second"] == pytest.approx(document["work"]["bytes"] * calls * 1e-9)
    assert asked == [3], "one thread of the pool and three callers beside, on three cores"


@pytest.mark.parametrize("iterations", [1, 4])
def test_too_few_rounds_give_no_interval_and_no_verdict(two_products, tmp_path, capsys, iterations):
    out, table = tmp_path / "report.json", tmp_path / "report.csv"
    arguments = ["--iterations", str(iterations), "--no-fresh", "--quiet", "--threads", "1"]
    files = ["--json", str(out), "--csv", str(table)]
    assert main(["bench", two_products, "--dim", "rows=8", *arguments, *files]) == 0
    text = capsys.readouterr().out
    assert "(no interval)" in text
    assert "tuned is measured too seldom to be compared with stock CPU" in text
    interval = json.loads(out.read_text())["ratios"][0]["interval"]
    assert interval["value"] > 0
    assert interval["low"] is interval["high"] is None
    assert "nan" not in table.read_text()


def test_iterations_are_met_as_nearly_as_equal_blocks_can():
    for iterations in range(1, 300):
        for concurrency in (1, 2, 7):
            if iterations < concurrency:
                continue
            rounds, calls = turns.blocks_of(iterations, concurrency)
            assert calls >= concurrency, "else fewer calls are made at the same time than was asked for"
            assert iterations <= rounds * calls <= max(1.2 * iterations, iterations + 4)
            if iterations >= 5 * concurrency:
                assert turns.LEAST_ROUNDS <= rounds <= turns.MOST_ROUNDS


def test_fewer_iterations_than_callers_are_refused(two_products, capsys):
    arguments = ["--iterations", "3", "--concurrency", "4", "--quiet"]
    assert main(["bench", two_products, "--dim", "rows=8", *arguments]) == 2
    assert "iterations: expected one for each of 4 callers, found 3" in capsys.readouterr().err


def test_json_has_no_words_for_infinity(two_products, tmp_path, monkeypatch):
    """An answer of NaN is infinitely wrong, and the file must be JSON all the same."""
    real = model.open_side

    def wrong(spec, feeds, python=None):
        made = real(spec, feeds, python)
        if spec.kind == "tunableop":
            made.outputs = lambda: {"y": np.full((8, 16), np.nan, np.float32)}
        return made

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    monkeypatch.setattr(model, "open_side", wrong)
    out = tmp_path / "report.json"
    arguments = ["--dim", "rows=8", *QUICK, "--json", str(out)]
    assert main(["bench", two_products, *arguments]) == results.ANSWERS_DIFFER
    document = json.loads(out.read_text(), parse_constant=refuse)
    assert document["sides"][1]["agreement"]["absolute"] is None
    assert document["sides"][1]["agreement"]["within"] is False


def test_the_work_is_known_where_the_baseline_is_in_another_python(two_products, tmp_path):
    out = tmp_path / "report.json"
    arguments = ["--dim", "rows=8", *QUICK, "--against", f"{sys.executable}:cpu", "--json", str(out)]
    assert main(["bench", two_products, *arguments]) == 0
    document = json.loads(out.read_text())
    assert document["work"]["flops"] == 2 * 8 * 32 * 64 + 2 * 8 * 64 * 16
    assert all(side["gflops"] > 0 for side in document["sides"])


def test_the_tolerance_is_that_of_the_type_also_without_a_profile(two_products, monkeypatch):
    """A model of fp16 must not fail by the tolerance of fp32 because nobody profiled it."""
    asked = []
    real = model.compare

    def compared(got, expected, *, element_type, rtol, atol):
        asked.append(element_type)
        return real(got, expected, element_type=element_type, rtol=rtol, atol=atol)

    monkeypatch.setattr(model, "compare", compared)
    assert main(["bench", two_products, "--dim", "rows=8", *QUICK, "--no-profile"]) == 0
    assert asked == ["fp32", "fp32"]
    halves = [{"problem": "M=8,N=4,K=2,fp16"}, {"problem": "M=8,N=4,K=2,fp16,bias"}]
    assert work.type_of(halves, "exact") == work.type_of(halves, "tf32") == "fp16"
    assert work.type_of([{"problem": "M=8,N=4,K=2,fp32"}], "tf32") == "tf32"
    assert work.type_of([], "exact") == ""


def test_agreement_on_nan_alone_is_said(two_products, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", x=np.full((8, 32), np.nan, np.float32))
    assert main(["bench", two_products, "--inputs", str(tmp_path / "in.npz"), *QUICK]) == 0
    assert "every element of output y is NaN" in capsys.readouterr().out


def test_reports_do_not_overwrite_what_is_read_nor_each_other(two_products, tmp_path, capsys):
    before = Path(two_products).read_bytes()
    there = str(tmp_path / "there")
    for files, words in (
        (["--json", two_products], "a file of its own"),
        (["--json", there, "--cache", there], "a file of its own"),
        (["--json", there, "--csv", there], "a file of its own"),
        (["--md", str(tmp_path)], "may not be written"),
        (["--md", str(tmp_path / "no" / "md")], "expected a folder"),
    ):
        assert main(["bench", two_products, "--dim", "rows=8", *QUICK, *files]) == 2
        assert words in capsys.readouterr().err
    assert Path(two_products).read_bytes() == before


def test_endless_lengths_are_wrong_usage(two_products, capsys):
    for name in ("duration", "rtol", "atol"):
        assert main(["bench", two_products, "--dim", "rows=8", f"--{name}", "inf"]) == 2
        assert f"--{name}: expected a number" in capsys.readouterr().err


@pytest.mark.parametrize("phase", ["opening tuned", "measuring tuned", "profiling tuned"])
def test_results_are_saved_before_an_interrupt_is_passed_on(two_products, tmp_path, phase):
    """Where the folder goes first, the session says, after the command, that it cannot save."""
    subject = inputs.find(two_products, tmp_path, dims={"rows": 8})
    options = {"cache": str(tmp_path / "results.json")}
    request = model.Request(subject, [Against(None, CPU)], options, threads=1, duration=0.1, fresh=False)
    sessions = []
    real = InferenceSession.run

    def run(session, *arguments):
        if not any(known() is session for known in sessions):
            sessions.append(weakref.ref(session))
        if begun:
            raise KeyboardInterrupt
        return real(session, *arguments)

    begun = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InferenceSession, "run", run)
        with pytest.raises(KeyboardInterrupt) as interrupted:
            model.run(
                request, tmp_path, lambda what, _done, _total: begun.append(1) if what == phase else None
            )
    assert interrupted.value.__traceback__ is not None, "whose frames are still there"
    assert sessions
    assert [session() for session in sessions] == [None] * len(sessions)


@on_card("cuda13")
def test_half_precision_is_compared_and_counted_as_such_beside_a_cpu_that_casts_it():
    """The CPU runs fp16 as fp32: its tolerance, bytes and ceiling are not those of a card."""
    with tempfile.TemporaryDirectory() as folder:
        _compare_half_precision(Path(folder))


def _compare_half_precision(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    path = write(
        tmp_path / "half.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT16, [32, 64])],
        [("y", TensorProto.FLOAT16, [32, 16])],
        [("w", random.standard_normal((64, 16)).astype(np.float16))],
    )
    asked, ceiling = [], []
    real = model.compare
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "compare", lambda *a, **k: asked.append(k["element_type"]) or real(*a, **k))
        patch.setattr(
            model.ceilings,
            "measure",
            lambda _device, _threads, kind: ceiling.append(kind) or model.ceilings.Ceiling(1.0, 1.0, ""),
        )
        arguments = ["--device", "cuda", *QUICK, "--json", str(tmp_path / "out.json")]
        assert main(["bench", path, *arguments]) == 0
    assert asked == ["fp16", "fp16"]
    assert ceiling == ["fp16"]
    for side in json.loads((tmp_path / "out.json").read_text())["sides"]:
        size = 4 if side["kind"] == "stock" else 2
        moved = size * (32 * 64 + 64 * 16 + 32 * 16)
        assert side["gigabytes_per_second"] == pytest.approx(moved / side["latency"]["median"] * 1e-9)


def test_short_models_are_profiled_often_enough_for_a_mean_and_long_ones_once():
    assert [profiled.runs(seconds) for seconds in (0.0, 1e-4, 0.1, 0.4, 2.0)] == [50, 50, 10, 3, 1]
