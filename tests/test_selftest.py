"""The self-test finds what is wrong, and says what was tested where."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _core, _onnx, _selftest, _selftest_cases, cli
from onnxruntime_ep_tunableop._selftest_cases import Case
from support.built import built

CPU_CASES = list(_selftest_cases.cases(card=False, quick=False, seed=3))
BF16_CASES = [
    Case("MatMul", (5, 7), (7, 9), dtype="bf16"),
    Case("Gemm", (16, 64), (64, 24), (24,), dtype="bf16", relu=True),
]


def ask(method: str, **arguments: Any) -> Any:
    return json.loads(_core.control(tunableop.get_library_path(), method, json.dumps(arguments)))


def test_a_quick_selftest_of_the_cpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "selftest.json"
    assert cli.main(["selftest", "--device", "cpu", "--quick", "--seconds", "240", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("passed in ")
    for word in ("onnxruntime", "processor", "native", "(sessions)", "fp32"):
        assert word in printed
    found = json.loads(file.read_text())
    assert found["passed"]
    assert found["notes"] == []
    rows = {row["library"]: row for row in found["rows"]}
    assert set(rows) >= {"native", "(sessions)"}
    native = rows["native"]
    assert native["cases"] == ask("selftest_cases", device="cpu", quick=True, seed=0)["cases"]
    assert native["kernels"] > 5 * native["cases"]
    for row in rows.values():
        assert row["failures"] == []
        assert row["left_out"] == 0
        assert 0 < row["error"] <= 1


def test_a_kernel_that_is_wrong_fails_the_selftest(tmp_path: Path) -> None:
    file = tmp_path / "selftest.json"
    environment = os.environ | {
        "TUNABLEOP_CANDIDATE_LIBRARIES": str(built("libtunableop_faulty.so")),
        "FAULTY_KERNELS": "wrong_tail",
    }
    command = ["selftest", "--device", "cpu", "--quick", "--seconds", "240", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "onnxruntime_ep_tunableop", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED (sessions) fp32: " in done.stdout
    assert "faulty:wrong_tail: wrong answer: " in done.stdout
    assert not json.loads(file.read_text())["passed"]


def test_what_there_is_no_time_for_is_said() -> None:
    outcome = _selftest.run("cpu", quick=True, seconds=0, progress=lambda _: None)
    assert len(outcome.notes) == 2
    assert "no time for" in outcome.notes[0]
    assert not outcome.right  # nothing was tested: that is no success


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--device", "cuda:9999", "--quick"]) == 1
    assert "device='cuda:9999'" in capsys.readouterr().err
    assert cli.main(["selftest", "--device", "gpu"]) == 2
    assert "expected auto, cpu, cuda" in capsys.readouterr().err
    assert cli.main(["selftest", "--device", "cpu", "--json", "/no/such/folder/x.json"]) == 2
    assert "--json" in capsys.readouterr().err


def test_the_native_half_refuses_what_it_does_not_know() -> None:
    for arguments, message in (
        ({"device": "gpu"}, "device: expected cpu, cuda:<id> or hip:<id>, found 'gpu'"),
        ({}, "control argument 'device' is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            ask("selftest_cases", **arguments)
    with pytest.raises(ValueError, match="'case' is out of range"):
        ask("selftest_case", device="cpu", case=100_000)
    with pytest.raises(FileNotFoundError, match="there is no 'hip:4711'"):
        ask("selftest_case", device="hip:4711", case=0)


def test_the_same_seed_asks_for_the_same_problems() -> None:
    same = [ask("selftest_case", device="cpu", quick=True, seed=5, case=0)["problem"] for _ in range(2)]
    assert same[0] == same[1]
    count = ask("selftest_cases", device="cuda:0", quick=False)["cases"]
    assert count > 5 * 30  # the list depends on no card being there
    assert count > ask("selftest_cases", device="cuda:0", quick=True)["cases"]


@pytest.mark.parametrize("case", [*CPU_CASES, *BF16_CASES], ids=str)
def test_models_of_cases_are_valid_and_mean_what_they_say(case: Case) -> None:
    """Checked by the onnx package, and by onnxruntime's own provider, which must be right."""
    ready = _selftest_cases.make(case, seed=1)
    model = onnx.load_from_string(ready.model)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node if node.op_type == case.op] == [case.op]
    if case.dtype == "bf16":
        return  # onnxruntime's CPU provider need not have it
    session = ort.InferenceSession(ready.model, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, ready.feeds)
    assert _selftest_cases.error(got, ready) <= 1.0


def test_an_answer_that_is_off_is_beyond_the_tolerance() -> None:
    ready = _selftest_cases.make(Case("MatMul", (5, 7), (7, 9)), seed=0)
    right = ready.exact.astype(np.float32)
    assert _selftest_cases.error(right, ready) < 0.5
    for change in (1.001, np.nan, np.inf):
        wrong = right.copy()
        wrong[3, 4] *= np.float32(change)
        assert _selftest_cases.error(wrong, ready) > 1
    assert _selftest_cases.error(right[:4], ready) == np.inf


def test_bf16_is_rounded_to_the_nearest_and_ties_to_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -1.004, 3.0e38, 1e-40], np.float32)
    expected = np.array([1.0, 1.0, 1.015625, -1.0078125, 3.0041e38, 1e-40], np.float32)
    np.testing.assert_allclose(_selftest_cases.rounded(values, "bf16"), expected, rtol=1e-3, atol=1e-40)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    drawn = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    np.testing.assert_array_equal(
        _selftest_cases.rounded(drawn, "bf16"), drawn.astype(ml_dtypes.bfloat16).astype(np.float32)
    )


def test_cards_are_asked_for_every_type() -> None:
    kinds = {case.kind for case in _selftest_cases.cases(card=True, quick=True, seed=0)}
    assert kinds == {"fp32", "fp16", "bf16", "fp32 as tf32", "fp32 as bf16"}
    again = list(_selftest_cases.cases(card=True, quick=True, seed=0))
    assert again == list(_selftest_cases.cases(card=True, quick=True, seed=0))
    assert again != list(_selftest_cases.cases(card=True, quick=True, seed=1))


def test_attributes_are_written_as_onnx_reads_them() -> None:
    weights = {"W": np.arange(6, dtype=np.float32).reshape(2, 3)}
    node = _onnx.Node("Gemm", ["X", "W"], "Y", {"alpha": -0.5, "transA": 1, "transB": 0})
    text = _onnx.model([node], {"X": (_onnx.FLOAT, [2, 300])}, ("Y", _onnx.FLOAT, [300, 3]), weights)
    model = onnx.load_from_string(text)
    onnx.checker.check_model(model)
    found = {a.name: onnx.helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    assert found == {"alpha": -0.5, "transA": 1, "transB": 0}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weights["W"])
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [2, 300]
    negative = _onnx.Node("Transpose", ["X"], "Y", {"perm": [1, 0]})
    model = onnx.load_from_string(
        _onnx.model([negative], {"X": (_onnx.FLOAT16, [2, 3])}, ("Y", _onnx.FLOAT16, [3, 2]), {})
    )
    assert list(model.graph.node[0].attribute[0].ints) == [1, 0]


def test_a_failing_row_is_printed_and_not_without_end() -> None:
    device = tunableop.devices()[-1]
    outcome = _selftest.Outcome(device, {"package": "1"})
    row = outcome.row("lib", "fp16")
    assert outcome.row("lib", "fp16") is row
    row.failures += [f"problem {at}: wrong" for at in range(50)]
    printed = cli.selftest.text(outcome)
    assert "FAILED lib fp16: problem 19: wrong" in printed
    assert "problem 20: wrong" not in printed
    assert "FAILED lib fp16: and 30 more" in printed
    assert printed.splitlines()[-1] == "FAILED in 0 s"
    assert len(cli.selftest.document(outcome)["rows"][0]["failures"]) == 50
    assert dataclasses.replace(outcome, rows=[]).right is False
