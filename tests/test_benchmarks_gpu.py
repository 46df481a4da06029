"""The benchmark for cards: its parts on simulated libraries, and what it makes of results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.built import FOLDER

from benchmarks.gpu import accuracy, cases, create, end_to_end, run
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.report import Clock, Report

ROOT = Path(__file__).resolve().parent.parent
FLAVOURS = {"cuda": "cuda13", "hip": "rocm7"}
PARTS = {"cuda": [*run.PARTS], "hip": ["shapes", "end_to_end", "overhead"]}


@pytest.mark.parametrize("backend", FLAVOURS)
def test_every_part_on_simulated_libraries(backend: str, tmp_path: Path) -> None:
    folder, nowhere = FOLDER / "gpu_sim" / FLAVOURS[backend], str(tmp_path / "nowhere")
    environment = os.environ | {
        "TUNABLEOP_CUDA_PATH": str(folder) if backend == "cuda" else nowhere,
        "TUNABLEOP_ROCM_PATH": str(folder) if backend == "hip" else nowhere,
    }
    out, text = tmp_path / "out.json", tmp_path / "out.md"
    options = [
        *("--quick", "--rounds", "2", "--max-tuning-ms", "20", "--seconds", "150"),
        *("--layers", "1", "--model", "bert", "--batch", "1", "--mode", "fp32"),
        *("--shape", "mlp_small", "odd_tail", "--kind", "fp16", "tf32"),
        *("--only", *PARTS[backend]),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.run", *options, "--json", str(out), "--markdown", str(text)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    found = json.loads(out.read_text())
    assert found["machine"]["device"] == f"{backend}:0"
    assert "Simulated" in found["machine"]["card"]
    parts = found["parts"]
    assert list(parts) == PARTS[backend]
    assert all(part["wrong"] == [] for part in parts.values())
    assert [(r["kind"], r["shape"]) for r in parts["shapes"]["results"]] == [
        ("fp16", "mlp_small"),
        ("fp16", "odd_tail"),
        ("tf32", "mlp_small"),
        ("tf32", "odd_tail"),
    ]
    for result in parts["shapes"]["results"]:
        assert set(result["us"]) == {"first", "again", "list best", "tuned"}
        assert all(len(rounds) == 2 for rounds in result["rounds_us"].values())
    if any(name in ort.get_available_providers() for name in cards.STOCK[backend]):
        pytest.skip("this onnxruntime has a provider for cards, which has none to run on here")
    (why,) = parts["end_to_end"]["left_out"]
    assert "this onnxruntime has no provider of its own for the card" in why
    assert [r["contender"] for r in parts["overhead"]["results"]] == ["ours alone, tuned"]
    if backend == "cuda":
        accuracy = parts["accuracy"]["results"]
        assert [r["case"] for r in accuracy] == [f"small bert fp32 3x24 {s}" for s in ("static", "dynamic")]
        assert all(r["memcpy"] == {"ours, claim=all": 0} for r in accuracy)
        assert all(list(r["errors"]) == ["ours, claim=all", "ours, claim=all, graph"] for r in accuracy)
        (why,) = parts["accuracy"]["left_out"]
        assert "--minilm" in why
        (why,) = parts["families"]["left_out"]
        assert "torch" in why
    for part in PARTS[backend]:
        assert f"## {part}" in text.read_text()
    if backend == "hip":
        return
    assert parts["selftest"]["results"][0]["passed"]
    for result in parts["create"]["results"]:
        assert {n: len(s) for n, s in result["steps"].items()} == {
            "ours": 2,
            "ours, graph": 2,
            "ours, cold": 1,
        }
        assert all(min(figures) > 0 for samples in result["steps"].values() for figures in samples)
    assert len(parts["create"]["results"]) == 2  # sizes that are fixed, and free ones
    alone = {r["contender"]: r for r in parts["alone"]["results"]}
    assert alone["ours alone, claim=gemm"]["our_nodes"] > alone["ours alone, claim=weights"]["our_nodes"] > 0
    assert alone["ours alone, claim=gemm"]["to_card"] > 0
    assert alone["ours alone, claim=gemm"]["to_host"] > 0


def test_without_a_card_it_says_so() -> None:
    with pytest.raises(SystemExit, match="no card to measure"):
        cards.find("cuda:9999")


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Card:
    """The CPU in place of a card: contenders, counting and judging are the same."""

    def stock(
        card: Card,
        model: Path,
        mode: str,
        *,
        graph: bool = False,
        profile: Path | None = None,
        disabled: Sequence[str] = (),
    ) -> ort.InferenceSession:
        if graph:
            raise RuntimeError("no graphs here")
        return ort.InferenceSession(
            str(model), cards.session_options(profile), providers=["CPUExecutionProvider"]
        )

    def ours(
        card: Card,
        model: Path,
        mode: str,
        *,
        alone: bool = False,
        profile: Path | None = None,
        **options: Any,
    ) -> ort.InferenceSession:
        return tunableop.InferenceSession(str(model), cards.session_options(profile), device="cpu", **options)

    monkeypatch.setattr(cards, "stock_session", stock)
    monkeypatch.setattr(cards, "our_session", ours)
    monkeypatch.setattr(cards, "demand_replays", lambda session: None)
    monkeypatch.setattr(cards, "on_card", lambda card, values: ort.OrtValue.ortvalue_from_numpy(values))
    return Card("cuda", 0, "CUDAExecutionProvider", "")


def arguments(*options: str) -> Any:
    return run.parser().parse_args(["--quick", "--rounds", "2", "--max-tuning-ms", "5", *options])


def test_whole_models_with_the_cpu_in_place_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    card = stand_in(monkeypatch)
    args = arguments("--model", "bert", "--mode", "fp32", "--batch", "1", "--layers", "1")
    report = end_to_end.run(card, args, Clock(300))
    assert report.wrong == []
    assert [line for line in report.left_out if "no graphs here" not in line] == []
    assert len(report.left_out) == 4  # two of stock's, with fixed sizes and with free ones
    contenders = ["stock", "stock again", *end_to_end.OURS]
    assert [r["contender"] for r in report.results] == 2 * contenders
    for result in report.results:
        assert result.get("memcpy", 0) == 0
        assert result["error"] < 1e-4
        if "our_nodes" in result:  # not of what a graph would be
            assert (result["our_nodes"] > 0) == (result["contender"] in end_to_end.OURS)
    weights, everything = (
        next(r for r in report.results if r["contender"] == f"ours, claim={claim}")["our_nodes"]
        for claim in ("weights", "gemm")
    )
    assert (weights, everything) == (6, 8)


def test_contenders_may_be_chosen_and_time_may_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    card = stand_in(monkeypatch)
    args = arguments(
        *("--model", "bert", "--mode", "fp32", "--batch", "1", "--layers", "1"),
        *("--contender", "ours, untuned", "--sizes", "dynamic"),
    )
    report = end_to_end.run(card, args, Clock(300))
    assert [r["contender"] for r in report.results] == ["stock", "ours, untuned"]
    late = end_to_end.run(card, args, Clock(-1))
    assert late.results == []
    assert late.left_out == ["1-layer bert fp32 1x128 dynamic: no time left"]


@pytest.mark.parametrize("model", cases.MODELS)
def test_every_model_in_small_sizes(model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = stand_in(monkeypatch)
    args = arguments(
        *("--small", "--model", model, "--mode", "fp32", "--models", str(tmp_path), "--batch", "2"),
        *("--contender", "ours, as it comes", "--rounds", "1"),
    )
    report = end_to_end.run(card, args, Clock(300))
    assert report.wrong == []
    assert [r["contender"] for r in report.results] == 2 * ["stock", "ours, as it comes"]
    assert all(r["error"] < 1e-5 for r in report.results)
    assert all(r["our_nodes"] > 0 for r in report.results if r["contender"] != "stock")


def test_answers_are_kept_beside_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = cases.Case("gpt2", "fp16", 2, "static", cases.SMALL)
    first = cases.Models(tmp_path).expected(case)
    (kept,) = tmp_path.glob("*.npz")
    assert kept.name.startswith("gpt2-small-float32-any-")
    calculated: list[Path] = []
    on_cpu = cases.on_cpu

    def counted(model: Path, feed: Any) -> Any:
        calculated.append(model)
        return on_cpu(model, feed)

    monkeypatch.setattr(cases, "on_cpu", counted)
    for again in (case, replace(case, mode="tf32", sizes="dynamic")):
        for got, expected in zip(cases.Models(tmp_path).expected(again), first, strict=True):
            np.testing.assert_array_equal(got, expected)
    assert calculated == []
    kept.write_bytes(kept.read_bytes()[:1000])  # damaged: calculated anew, and kept
    models = cases.Models(tmp_path)
    models.expected(case)
    models.expected(case)
    assert len(calculated) == 1
    cases.Models(tmp_path).expected(replace(case, batch=3))  # other inputs
    assert len(calculated) == 2
    assert len(list(tmp_path.glob("*.npz"))) == 2
    (tmp_path / "gpt2-small-float32-any.onnx").unlink()  # another model may come: its answers are others
    cases.Models(tmp_path).expected(case)
    assert len(calculated) == 3
    assert len(list(tmp_path.glob("*.npz"))) == 1


def test_errors_of_minilm_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = stand_in(monkeypatch)
    real = replace(cases.SMALL, name="real")
    monkeypatch.setattr(accuracy, "REAL", real)
    file = tmp_path / "minilm.onnx"
    built = cases.KINDS["minilm"].build(real, {"batch": None, "dtype": np.float16, "seed": 5})
    onnx.save(built, file)
    args = arguments(*("--minilm", str(file), "--model", "t5", "--sizes", "dynamic", "--mode", "fp32"))
    report = accuracy.run(card, args, Clock(300))
    assert (report.wrong, report.left_out) == ([], [])
    assert [r["case"] for r in report.results] == [
        *(
            "real minilm fp32 1x24 dynamic",
            "real minilm fp32 32x24 dynamic",
            "small t5 fp32 3x24 to 9 dynamic",
        )
    ]
    for result in report.results:
        assert list(result["errors"]) == list(accuracy.CONTENDERS)
        assert max(result["errors"].values()) < 1e-5
        assert result["memcpy"] == {"stock": 0, "ours, claim=all": 0}
    padded = accuracy.Padded(tmp_path).feed(cases.Case("t5", "fp32", 2, "dynamic", cases.SMALL))
    assert padded["attention_mask"].sum(axis=1).tolist() == [24, 16]
    late = accuracy.run(card, args, Clock(-1))
    assert len(late.left_out) == 3


def test_errors_and_copies_that_are_too_many() -> None:
    def result(
        mode: str = "fp32", error: float = 1e-6, stock: float = 1e-6, copies: int = 0
    ) -> dict[str, Any]:
        errors = {"stock": stock, "ours, claim=all": error}
        memcpy = {"stock": 3, "ours, claim=all": copies}
        return {
            "case": "c",
            "errors": errors,
            "memcpy": memcpy,
            "limit": accuracy.limit(mode, errors["stock"]),
        }

    assert accuracy.judge(result()) == []
    for bad, words in (
        (result(error=1.1e-5), "c, ours, claim=all: error 1.1e-05, expected below 1e-05"),
        (result(error=1.1e-5, stock=1e-3), "error 1.1e-05"),  # of fp32 the other's error is no excuse
        (result(error=float("nan")), "error nan"),
        (result("fp16", error=0.03, stock=0.01), "error 3.0e-02, expected below 2e-02"),
        (result(copies=1), "c, ours, claim=all: 1 Memcpy nodes"),
    ):
        (line,) = accuracy.judge(bad)
        assert words in line
    assert accuracy.judge(result("fp16", error=0.015, stock=0.01)) == []
    assert accuracy.limit("tf32", None) == 5e-3


def test_sizes_of_cases_are_told() -> None:
    args = arguments("--mode", "fp16", "--sizes", "dynamic")
    assert [str(case) for case in cases.cases(args)][4:] == [
        "llama fp16 1x1 after 511 dynamic",
        "llama fp16 16x1 after 511 dynamic",
        "prompt fp16 1x128 dynamic",
        "vit fp16 1x224x224 dynamic",
        "vit fp16 16x224x224 dynamic",
        "t5 fp16 1x128 to 32 dynamic",
        "t5 fp16 16x128 to 32 dynamic",
        "whisper fp16 1x3000 frames dynamic",
        "whisper fp16 8x3000 frames dynamic",
        "gpt2 fp16 1x128 dynamic",
        "gpt2 fp16 8x128 dynamic",
    ]
    deep = cases.FULL.with_layers(3)
    assert (deep.bert.layers, deep.t5.layers, deep.llama.layers, deep.name) == (3, 3, 1, "3-layer")


def test_what_is_wrong_is_found() -> None:
    def result(contender: str, **changes: Any) -> dict[str, Any]:
        fine = {"model": "bert", "mode": "fp16", "batch": 1, "sizes": "static", "contender": contender}
        return fine | {"error": 1e-3, "memcpy": 1, "our_nodes": 3} | changes

    stock = result("stock", our_nodes=0)
    name = "ours, claim=gemm"
    assert end_to_end.judge([stock, result(name)]) == []
    assert end_to_end.judge([stock, result("stock again", error=1.0)]) == []
    for changes, word in (
        ({"error": 0.1}, "error 1.0e-01"),
        ({"error": float("nan")}, "error nan"),
        ({"memcpy": 2}, "2 Memcpy nodes, stock has 1"),
        ({"our_nodes": 0}, "no node is ours"),
    ):
        (line,) = end_to_end.judge([stock, result(name, **changes)])
        assert word in line
    assert end_to_end.judge([result("stock", error=0.02), result(name, error=0.03)]) == []


def test_a_part_that_fails_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> Report:
        raise ValueError("broken")

    monkeypatch.setattr(cards, "find", lambda _: Card("cuda", 0, "", "not here"))
    monkeypatch.setattr(run, "PARTS", {"shapes": broken, "overhead": lambda *_: Report("overhead")})
    assert run.main([]) == 1
    printed = capsys.readouterr().out
    assert "the part failed: broken" in printed
    assert "## overhead" in printed


def test_times_of_processes_are_compared_step_by_step() -> None:
    timed = create.Timed()
    for i in range(5):
        timed.add(create.STOCK, [1.0, 400.0 + i, 200.0, 2.0])
        timed.add(create.OURS, [2.0, 300.0 + i, 30.0, 1.0])
    assert timed.of(create.OURS, "create", "first") == [330.0 + i for i in range(5)]
    ratio = timed.ratio(create.OURS, "create")
    assert ratio.value == pytest.approx(302 / 402)
    assert ratio.low <= ratio.value <= ratio.high < 1
    assert timed.order == [create.STOCK, create.OURS] * 5
