"""The doctor's parts: checks and their fence, the text, the command line, clocks, variables, versions."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnxruntime_ep_tunableop import _core, _devices, _selftest, cli
from onnxruntime_ep_tunableop._devices import Device
from onnxruntime_ep_tunableop.doctor import (
    Check,
    Report,
    clocks,
    environment,
    library,
    processor,
    runtime,
    text,
)
from onnxruntime_ep_tunableop.doctor.check import REPORT, Finding, asks, count
from support.built import ROOT
from support.doctor import distribution


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(clocks, "WARM_SECONDS", 0.0)


# Checks


def test_a_check_that_raises_is_a_problem_with_its_words() -> None:
    @asks("part.question", "does it?")
    def fails(words: str) -> Finding:
        raise ValueError(words)

    assert fails("no such thing") == Check(
        "part.question", "does it?", "problem", ["the check itself failed: ValueError: no such thing"], REPORT
    )


def test_a_question_that_does_not_arise_is_no_check() -> None:
    @asks("part.question", "does it?")
    def nothing() -> None:
        return None

    report = Report()
    assert report.add(nothing())
    assert report.checks == []


@pytest.mark.parametrize("verdict", ["warning", "problem"])
def test_a_complaint_needs_a_remedy(verdict: Any) -> None:
    with pytest.raises(ValueError, match="without a remedy"):
        Check("a.b", "is it?", verdict, ["no"])


def some() -> Report:
    return Report(
        checks=[
            Check("a.fine", "is it fine?", "ok", ["it is"]),
            Check("a.odd", "is it odd?", "note", ["a little"]),
            Check("b.slow", "is it slow?", "warning", ["it is slow", "by 3 %"], "make it fast"),
            Check("c.off", "is it on?", "problem", ["it is off"], "switch it on"),
        ],
        facts={"versions": {"python": "3"}},
        not_asked={"d": "c is off", "e": "c is off"},
    )


def test_the_report() -> None:
    report = some()
    assert report.verdict == "problem"
    assert Report().verdict == "ok"
    document = report.document()
    assert document["checks"][2] == {
        "name": "b.slow",
        "question": "is it slow?",
        "verdict": "warning",
        "evidence": ["it is slow", "by 3 %"],
        "remedy": "make it fast",
    }
    assert document["versions"] == {"python": "3"}


def test_the_text_ends_with_what_is_to_be_done() -> None:
    lines = text.text(some()).splitlines()
    assert lines[:2] == ["tunableop doctor", "  python  3"]
    assert "  warning is it slow?" in lines
    assert "            by 3 %" in lines
    assert "not asked: d, e: c is off" in lines
    assert lines[-5:] == [
        "problem c.off: it is off",
        "          -> switch it on",
        "warning b.slow: it is slow",
        "          -> make it fast",
        "4 questions: 1 problem, 1 warning, 1 note",
    ]


@pytest.mark.parametrize(
    ("number", "what", "words"),
    [
        (1, "entry", "1 entry"),
        (0, "entry", "0 entries"),
        (2, "process", "2 processes"),
        (3, "node", "3 nodes"),
    ],
)
def test_counts(number: int, what: str, words: str) -> None:
    assert count(number, what) == words


# The command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "none.onnx"], "--model: expected a file, found none at 'none.onnx'"),
        (["--shape", "A:1x8"], "--shape is about a model"),
        (["--dim", "m=4"], "--dim is about a model"),
        (["--quick"], "--quick is about the self-test"),
        (["--option", "tuning"], "--option: expected KEY=VALUE, found 'tuning'"),
        (["--option", "=online"], "--option: expected KEY=VALUE, found '=online'"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", *arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


@pytest.mark.usefixtures("fast")
def test_exit_codes_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json", "--option", "tunning=online"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["tool"] == "tunableop doctor"
    assert document["verdict"] == "problem"
    assert document["not_asked"] == {}
    assert {"versions", "providers", "devices", "libraries", "default", "log"} <= set(document)
    parts = [check["name"].partition(".")[0] for check in document["checks"]]
    assert parts == sorted(parts, key=parts.index)  # each part stands together
    assert cli.main(["doctor", "--option", "tuning=online"]) == 0
    assert "-> --option" not in capsys.readouterr().out


def outcome(failure: str | None) -> _selftest.Outcome:
    device = Device("cpu", "Processor", "avx2", {"native": "1", "openblas": "2"}, {})
    row = _selftest.Row("native", "fp32", cases=2, kernels=9, failures=[failure] if failure else [])
    return _selftest.Outcome(device, {"python": "3"}, [row], seconds=1.0)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("failure", "code", "remedy"),
    [(None, 0, ""), ("M=1: avx2:4x16: wrong", 1, f"candidates='openblas', and {REPORT}")],
)
def test_the_selftest_is_one_of_the_questions(
    failure: str | None,
    code: int,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: dict[str, Any] = {}

    def run(device: str, **how: Any) -> _selftest.Outcome:
        asked.update(how, device=device)
        return outcome(failure)

    monkeypatch.setattr(_selftest, "run", run)
    assert cli.main(["doctor", "--json", "--selftest", "--quick", "--device", "cpu"]) == code
    assert (asked["device"], asked["quick"], asked["seconds"]) == ("cpu", True, 15.0)
    document = json.loads(capsys.readouterr().out)
    (check,) = [check for check in document["checks"] if check["name"] == "selftest.kernels"]
    assert check["remedy"] == remedy
    assert check["evidence"][-1] == "9 calls checked in 1 s on cpu"
    assert document["selftest"]["rows"][0]["kernels"] == 9


# Clocks


class VirtualClock:
    """Time passes when the product runs."""

    def __init__(self, durations: Iterator[float]) -> None:
        self.now = 0.0
        self._durations = durations

    def __call__(self) -> float:
        return self.now

    def run(self) -> None:
        self.now += next(self._durations)


def test_the_probe_keeps_every_call_after_the_warm_up() -> None:
    clock = VirtualClock(iter([0.5] * 4 + [0.25] * 8))
    assert clocks.probe(clock.run, clock, warm=2.0, seconds=2.0) == [0.25] * 8
    clock = VirtualClock(iter([10.0] * 5))
    assert clocks.probe(clock.run, clock, warm=1.0, seconds=0.5) == [10.0] * 3


def test_stability_of_known_times() -> None:
    steady = clocks.Stability.of([2.0] * 30)
    assert (steady.samples, steady.median, steady.spread, steady.drift) == (30, 2.0, 0.0, 0.0)
    slower = clocks.Stability.of([1.0] * 10 + [1.5] * 10 + [2.0] * 10)
    assert (slower.median, slower.drift) == (1.5, 1.0)
    assert slower.spread == pytest.approx(1 / 3)
    outliers = clocks.Stability.of([1.0] * 8 + [4.0] * 2)
    assert (outliers.median, outliers.spread) == (1.0, 3.0)


STEADY = clocks.Stability(100, 1e-3, 0.02, 0.01)
RISING = clocks.Stability(100, 1e-3, 0.02, 0.2)
QUIET, BUSY = clocks.Load(0.01, 0.0), clocks.Load(0.5, 0.0)


@pytest.mark.parametrize(
    ("measured", "load", "stops", "verdict", "words"),
    [
        (STEADY, QUIET, 0, "ok", ""),
        (STEADY, None, 0, "ok", ""),
        (STEADY, BUSY, 0, "note", "tune when nothing else runs"),
        (RISING, BUSY, 0, "warning", "tune when nothing else runs"),
        (RISING, QUIET, 0, "warning", "hold the clock: sudo cpupower frequency-set -g performance"),
        (clocks.Stability(9, 1e-3, 0.3, 0.0), QUIET, 0, "warning", "hold the clock"),
        (STEADY, clocks.Load(0.0, 0.1), 0, "note", "tune when nothing else runs"),
        (STEADY, QUIET, 3, "warning", "give the container more processor time"),
    ],
)
def test_what_is_made_of_a_probe(
    measured: clocks.Stability, load: clocks.Load | None, stops: int, verdict: str, words: str
) -> None:
    finding = clocks.judge(measured, load, stops)
    assert finding.verdict == verdict
    assert finding.remedy.startswith(words)


def test_the_load_of_others(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    tick = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "proc/stat"
    stat.write_text(f"cpu  {4 * tick} {tick} {tick} {90 * tick} 0 {tick} {tick} {tick} 0 0\ncpu0 1 1\n")
    now = clocks.work(tmp_path)
    assert now is not None
    assert (now.busy, now.stolen) == (8.0, 1.0)
    before = clocks.Work(busy=10.0, stolen=0.0, own=1.0, at=100.0)
    after = clocks.Work(busy=14.0, stolen=0.4, own=2.0, at=102.0)
    load = clocks.Load.between(before, after, processors=2)
    assert load.others == pytest.approx(3 / 4)
    assert load.stolen == pytest.approx(0.1)
    stat.write_text("")
    assert clocks.work(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "driver", "verdict"),
    [
        ("performance", "acpi-cpufreq", "ok"),
        ("schedutil", "acpi-cpufreq", "ok"),
        ("powersave", "acpi-cpufreq", "warning"),
        ("powersave", "intel_pstate", "ok"),
        ("conservative", "acpi-cpufreq", "warning"),
    ],
)
def test_governors(tmp_path: Path, name: str, driver: str, verdict: str) -> None:
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_governor").write_text(f"{name}\n")
    (folder / "scaling_driver").write_text(f"{driver}\n")
    check = clocks.governor(tmp_path)
    assert check is not None
    assert check.verdict == verdict
    assert f"{name} (driver {driver})" in check.evidence


# Variables


def test_variables_that_are_read() -> None:
    check = environment.names({"TUNABLEOP_VERBOSE": "1", "TUNABLEOP_ENABLE": "", "HOME": "/"})
    assert check is not None
    assert (check.verdict, check.evidence) == (
        "ok",
        ["TUNABLEOP_VERBOSE=1 (1: a line for each call on stderr)"],
    )


@pytest.mark.parametrize(
    ("name", "verdict", "remedy"),
    [
        ("TUNABLEOP_CACHESIZE", "problem", "unset TUNABLEOP_CACHESIZE; export TUNABLEOP_CACHE_SIZE='a b'"),
        ("TUNEABLEOP_VERBOSE", "problem", "unset TUNEABLEOP_VERBOSE; export TUNABLEOP_VERBOSE='a b'"),
        ("TUNABLE_OP_ENABLE", "problem", "unset TUNABLE_OP_ENABLE; export TUNABLEOP_ENABLE='a b'"),
        ("TUNABLEOP_QUUX_ZAP", "warning", "unset TUNABLEOP_QUUX_ZAP"),
    ],
)
def test_variables_that_nobody_reads(name: str, verdict: str, remedy: str) -> None:
    check = environment.names({name: "a b"})
    assert check is not None
    assert (check.verdict, check.remedy) == (verdict, remedy)


@pytest.mark.parametrize(
    "name", ["PYTORCH_TUNABLEOP_ENABLED", "ORT_ROCM_TUNABLE_OP_ENABLE", "VLLM_TUNE_GEMM"]
)
def test_variables_of_others_are_not_ours_misspelt(name: str) -> None:
    check = environment.names({name: "1"})
    assert check is not None
    assert check.verdict == "ok"


def test_a_misspelt_variable_does_not_overwrite_the_right_one() -> None:
    check = environment.names({"TUNABLEOP_ENABEL": "0", "TUNABLEOP_ENABLE": "1"})
    assert check is not None
    assert check.remedy == "unset TUNABLEOP_ENABEL"


def test_a_variable_that_only_python_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNABLEOP_VERBOSE", "0")
    os.unsetenv("TUNABLEOP_VERBOSE")  # behind Python's back
    check = environment.names()
    assert check is not None
    assert check.verdict == "problem"
    assert check.remedy == "export TUNABLEOP_VERBOSE=0"
    monkeypatch.setenv("TUNABLEOP_VERBOSE", "0")
    check = environment.names()
    assert check is not None
    assert "the native side does not see it" not in "".join(check.evidence)


def test_every_variable_that_the_project_reads_is_known() -> None:
    found = set()
    for folder, pattern in (("ep", "*.cc"), ("python", "*.py"), ("models", "*.py")):
        for file in (ROOT / folder).rglob(pattern):
            found |= set(re.findall(r'"(TUNABLEOP_[A-Z_]+)"', file.read_text(encoding="utf-8")))
    assert len(found) >= 10
    assert found <= set(environment.KNOWN)


def test_values_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNABLEOP_ENABLE", "perhaps")
    check = environment.values()
    assert check is not None
    assert (check.verdict, check.remedy) == ("problem", "unset TUNABLEOP_ENABLE")
    assert os.environ["TUNABLEOP_ENABLE"] == "perhaps"


@pytest.mark.parametrize(
    ("environ", "verdict", "remedy"),
    [
        ({}, "ok", ""),
        ({"TUNABLEOP_CUDA_PATH": "/nowhere"}, "warning", "unset TUNABLEOP_CUDA_PATH"),
        ({"TUNABLEOP_CUDA_PATH": "/nowhere:/usr"}, "ok", ""),
        ({"TUNABLEOP_NVML_LIBRARY": "/nowhere/x.so"}, "warning", "unset TUNABLEOP_NVML_LIBRARY"),
        ({"TUNABLEOP_NVML_LIBRARY": "libnvidia-ml.so.1"}, "ok", ""),
        ({"LD_LIBRARY_PATH": "/usr/lib:/cuda/lib64/stubs"}, "warning", "export LD_LIBRARY_PATH=/usr/lib"),
        ({"LD_LIBRARY_PATH": "/cuda/lib64/stubs"}, "warning", "unset LD_LIBRARY_PATH"),
        ({"LD_LIBRARY_PATH": "/nowhere"}, "note", ""),
        ({"TUNABLEOP_MODEL_CACHE": "/made/when/missing", "LD_LIBRARY_PATH": "/usr"}, "ok", ""),
    ],
)
def test_paths_in_variables(environ: dict[str, str], verdict: str, remedy: str) -> None:
    check = environment.paths(environ)
    assert check is not None
    assert (check.verdict, check.remedy) == (verdict, remedy)
    if verdict == "ok":
        named = [f"{key}={value}" for key, value in environ.items()]
        assert list(check.evidence) == (named or ["none names a path"])


@pytest.mark.parametrize(
    ("environ", "amd", "verdict"),
    [
        ({"PYTORCH_TUNABLEOP_ENABLED": "0"}, False, "ok"),
        ({"PYTORCH_TUNABLEOP_TUNING": "1"}, False, "ok"),
        ({"PYTORCH_TUNABLEOP_ENABLED": "1"}, True, "warning"),
        ({"HIPBLASLT_TUNING_FILE": "/x"}, False, "warning"),
        ({"HIPBLASLT_TUNING_FILE": "/x"}, True, "problem"),
        ({"HIPBLASLT_TUNING_OVERRIDE_FILE": "/x"}, True, "warning"),
        ({"MIGRAPHX_PROBLEM_CACHE": "/x"}, True, "warning"),
        ({"ROCBLAS_TENSILE_LIBPATH": "/x"}, True, "warning"),
    ],
)
def test_tuners_of_others(environ: dict[str, str], amd: bool, verdict: str) -> None:
    check = environment.second_tuner(environ, amd=amd)
    assert check is not None
    assert check.verdict == verdict
    assert check.remedy == ("" if verdict == "ok" else f"unset {next(iter(environ))}")


# Versions


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        ([], 'pip install "onnxruntime>=1.25"'),
        (
            [("onnxruntime", "1.32.0"), ("onnxruntime-gpu", "1.32.0")],
            "pip uninstall -y onnxruntime-gpu onnxruntime && "
            'pip install --force-reinstall "onnxruntime-gpu>=1.25"',
        ),
        (
            [("onnxruntime-rocm", "1.22.2"), ("onnxruntime", "1.32.0")],
            "pip uninstall -y onnxruntime-rocm onnxruntime && "
            'pip install --force-reinstall "onnxruntime>=1.25"',
        ),
    ],
)
def test_which_build_of_onnxruntime_stays(tmp_path: Path, names: list[tuple[str, str]], remedy: str) -> None:
    import importlib.metadata

    for name, number in names:
        distribution(tmp_path, name, number)
    distribution(tmp_path, "onnxruntime-extensions", "0.14.0")
    distribution(tmp_path, "onnxruntime-ep-tunableop", "0.1.0")
    installed = runtime.builds(importlib.metadata.distributions(path=[str(tmp_path)]))
    assert {build.name for build in installed} == {name for name, _ in names}
    assert runtime.reinstall(installed) == remedy


@pytest.mark.parametrize(
    ("number", "verdict", "words"),
    [
        ("1.23.2", "problem", ">=1.24"),
        ("1.24.4", "warning", ">=1.25"),
        ("1.25.0", "ok", ""),
        ("2.0", "ok", ""),
    ],
)
def test_versions_of_onnxruntime(
    number: str, verdict: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnxruntime.__version__", number)
    check = runtime.onnxruntime()
    assert check is not None
    assert check.verdict == verdict
    assert words in check.remedy


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("/x.so: file too short", library.REINSTALL),
        ("/lib/libc.so.6: version `GLIBC_2.99' not found (required by /x.so)", library.BUILD_HERE),
        ("/x.so: version `GLIBCXX_3.4.99' not found", library.BUILD_HERE),
        (
            "libstdc++.so.6: cannot open shared object file: No such file or directory",
            "apt-get install libstdc++6",
        ),
        ("libodd.so.1: cannot open shared object file: No such file", "install the library libodd.so.1"),
        ("/x.so: undefined symbol: f", library.REINSTALL),
    ],
)
def test_what_helps_when_a_library_is_not_loaded(why: str, remedy: str) -> None:
    assert library._remedy(why) == remedy


# The processor


def states(**changed: Any) -> list[dict[str, Any]]:
    found = {
        "native": {"available": True, "identity": "0.1.0+avx2", "path": "", "reason": ""},
        "openblas": {"available": True, "identity": "0.3", "path": "/x.so", "reason": ""},
    }
    for name, change in changed.items():
        found.setdefault(name, {"available": False, "identity": "", "path": "", "reason": ""}).update(change)
    return [{"library": name, **state} for name, state in found.items()]


@pytest.mark.parametrize(
    ("changed", "chosen", "verdict", "remedy"),
    [
        ({}, "", "ok", ""),
        ({"native": {"identity": "0.1.0+sse42"}}, "", "note", ""),
        ({"native": {"available": False, "reason": "none"}}, "", "problem", "run on a processor with SSE4.2"),
        ({"openblas": {"available": False, "reason": "no"}}, "", "note", 'pip install "onnxruntime-ep-tunab'),
        (
            {"openblas": {"available": False, "reason": "no"}},
            "/y.so",
            "problem",
            "unset TUNABLEOP_OPENBLAS_LIB",
        ),
        (
            {"/x/mine.so": {"reason": "no symbol"}},
            "",
            "problem",
            "remove /x/mine.so from TUNABLEOP_CANDIDATE",
        ),
    ],
)
def test_libraries_of_the_processor(
    changed: dict[str, Any], chosen: str, verdict: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core, "libraries", lambda: states(**changed))
    monkeypatch.setenv("TUNABLEOP_OPENBLAS_LIBRARY", chosen)
    check = processor.processor()
    assert check is not None
    assert check.verdict == verdict
    assert check.remedy.startswith(remedy)


@pytest.mark.usefixtures("fast")
def test_it_never_crashes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever breaks is a problem in the report, and the other questions are asked."""

    def broken(*_args: object, **_more: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(_core, "libraries", broken)
    monkeypatch.setattr(_devices, "choose", broken)
    assert cli.main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    failed = {check["name"] for check in document["checks"] if "out of order" in check["evidence"][0]}
    assert {"machine.processor", "machine.device"} <= failed


# The page


def test_the_page_names_every_question() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", page, re.MULTILINE))
    asked = set()
    for file in (ROOT / "python" / "onnxruntime_ep_tunableop" / "doctor").glob("*.py"):
        asked |= set(re.findall(r'@asks\("([a-z]+\.[a-z_]+)"', file.read_text(encoding="utf-8")))
    assert told == asked


def test_a_token_is_not_shown() -> None:
    found = environment.names({"TUNABLEOP_SERVE_TOKEN": "s3cret"})
    assert "s3cret" not in str(found)
    assert "TUNABLEOP_SERVE_TOKEN=(not shown)" in str(found)
