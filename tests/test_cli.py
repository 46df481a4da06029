"""The command `tunableop`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import cli
from onnxruntime_ep_tunableop.cli import progress, tune
from support.graphs import matmul_model

SUMMARY = tunableop.TuneSummary(tuned=2, seconds=0.25, denied=1, restarts=1, lines=["one", "two"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(matmul_model(["m", 8], [8, 5]), str(path))
    return path


class FakeTune:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.error: BaseException | None = None

    def __call__(self, model: str, *, progress: Any, **asked: Any) -> tunableop.TuneSummary:
        self.asked = {"model": model, **asked}
        if self.error is not None:
            raise self.error
        progress(tunableop.TuneProgress(1, 1, 0.1, "one"))
        progress(tunableop.TuneProgress(2, 0, 0.2, "two"))
        return SUMMARY


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> FakeTune:
    fake = FakeTune()
    monkeypatch.setattr(tune, "tune", fake)
    return fake


def test_tune(tuned: FakeTune, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = model.parent / "shapes.json"
    file.write_text('{"A": [3, 8], "B": [8, 5]}')
    arguments = [
        *("tune", str(model), "--cache", "x.json", "--shape", "A:1x8,B:8x5", "--shape", "A:2x8"),
        *("--shapes", str(file), "--dim", "m=4", "--isolate", "--hang-seconds", "5"),
        *("--max-tuning-ms", "20", "--candidates", "all", "--threads", "2", "--min-gain", "0.1"),
        *("--claim", "weights", "--fusion", "keep", "--buckets", "pow2"),
        *("--device", "cuda:1", "--precision", "tf32"),
    ]
    assert cli.main(arguments) == 0
    assert tuned.asked == {
        "model": str(model),
        "shapes": [{"A": [1, 8], "B": [8, 5]}, {"A": [2, 8]}, {"A": [3, 8], "B": [8, 5]}],
        "dims": {"m": 4},
        "cache": "x.json",
        "isolate": True,
        "hang_seconds": 5.0,
        "max_tuning_ms": 20.0,
        "candidates": "all",
        "device": "cuda:1",
        "precision": "tf32",
        "threads": 2,
        "claim": "weights",
        "fusion": "keep",
        "buckets": "pow2",
        "min_gain": 0.1,
    }
    output = capsys.readouterr()
    assert output.err == "[1/2] one\n[2/2] two\n"
    assert output.out == ("2 problems measured in 0.2 s, saved to x.json; 1 kernel denied; 1 worker died\n")


def test_defaults_are_the_librarys(tuned: FakeTune, model: Path) -> None:
    assert cli.main(["tune", str(model), "--cache", "x.json"]) == 0
    given = {key: value for key, value in tuned.asked.items() if value}
    assert given == {"model": str(model), "cache": "x.json", "hang_seconds": 30.0}


def test_json_and_quiet(tuned: FakeTune, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", str(model), "--cache", "x.json"]
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "tuned": 2,
        "seconds": 0.25,
        "denied": 1,
        "restarts": 1,
        "lines": ["one", "two"],
    }
    assert cli.main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("a:1x8", {"a": [1, 8]}),
        ("a:7", {"a": [7]}),
        ("a:0:1x8,b:2", {"a:0": [1, 8], "b": [2]}),
        ("scalar:", {"scalar": []}),
    ],
)
def test_shapes(text: str, shapes: dict[str, list[int]]) -> None:
    assert tune.parse_shape(text) == shapes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["tuna"], "invalid choice: 'tuna' (choose from"),
        (["tune"], "required: MODEL, --cache"),
        (["tune", "MODEL"], "required: --cache"),
        (["tune", "none.onnx", "--cache", "x"], "MODEL: expected a file, found none at 'none.onnx'"),
        (["tune", "MODEL", "--cache", "x", "--shape", "A"], "expected INPUT:1x128, found 'A'"),
        (["tune", "MODEL", "--cache", "x", "--shape", "A:1,8"], "expected INPUT:1x128, found '8'"),
        (["tune", "MODEL", "--cache", "x", "--shape", ":1x8"], "expected INPUT:1x128, found ':1x8'"),
        (["tune", "MODEL", "--cache", "x", "--shape", "A:1x-8"], "expected INPUT:1x128, found 'A:1x-8'"),
        (["tune", "MODEL", "--cache", "x", "--shape", "A:1,A:2"], "'A' stands twice in 'A:1,A:2'"),
        (["tune", "MODEL", "--cache", "x", "--dim", "m"], "--dim: expected NAME=SIZE, found 'm'"),
        (["tune", "MODEL", "--cache", "x", "--dim", "m=x"], "--dim: expected NAME=SIZE, found 'm=x'"),
        (["tune", "MODEL", "--cache", "x", "--shapes", "none.json"], "cannot read 'none.json': No such"),
        (["tune", "MODEL", "--cache", "x", "--shapes", "MODEL"], "is not JSON"),
        (["tune", "MODEL", "--cache", "x", "--shapes", "JSON"], 'expected [{"input": [1, 128]}, ...]'),
        (["tune", "MODEL", "--cache", "x", "--threads", "many"], "invalid int value: 'many'"),
        (["tune", "MODEL", "--cache", "x", "--min-gain", "7"], "TunableOp option"),
        (["tune", "MODEL", "--cache", "x", "--isolate", "--hang-seconds", "0"], "expected more than 0"),
    ],
)
def test_wrong_usage(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    file = model.parent / "shapes.json"
    file.write_text('[{"A": "1x8"}]')
    places = {"MODEL": str(model), "JSON": str(file), "x": str(model.parent / "x")}
    assert cli.main([places.get(argument, argument) for argument in arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_unknown_commands_name_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tuna"]) == 2
    error = capsys.readouterr().err
    assert all(command.name in error for command in cli.COMMANDS)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (tunableop.TunableOpError("the model does not run"), 1, "tunableop tune: the model does not run\n"),
        (OSError("disk full"), 1, "tunableop tune: disk full\n"),
        (MemoryError(), 1, "tunableop tune: MemoryError\n"),
        (tunableop.OptionError("shapes: wrong"), 2, "tunableop tune: shapes: wrong\n"),
        (KeyboardInterrupt(), 130, "tunableop tune: interrupted\n"),
    ],
)
def test_failures(
    tuned: FakeTune,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    message: str,
) -> None:
    tuned.error = error
    assert cli.main(["tune", str(model), "--cache", "x.json"]) == code
    assert capsys.readouterr().err == message


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress.shown(quiet=False) as step:
        step(tunableop.TuneProgress(1, 3, 0.1, "tuned [M=1]"))
    assert "tuned [M=1]" in capsys.readouterr().err


def test_lines_without_rich(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich", None)
    with progress.shown(quiet=False) as step:
        step(tunableop.TuneProgress(1, 3, 0.1, "tuned"))
    assert capsys.readouterr().err == "[1/4] tuned\n"


@pytest.mark.parametrize("how", ["module", "script"])
def test_as_users_call_it(how: str) -> None:
    script = Path(sys.executable).with_name("tunableop")
    command = [sys.executable, "-m", "onnxruntime_ep_tunableop"] if how == "module" else [str(script)]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tunableop {tunableop.__version__}\n"
    done = subprocess.run([*command, "tuna"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "tune" in done.stderr


def test_doctor_says_what_there_is_and_why_something_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ids = [device["id"] for device in found["devices"]]
    assert ids[-1] == "cpu"
    assert found["default"] in ids
    names = [line["library"] for line in found["libraries"]]
    assert {"libcudart", "libcublasLt", "libamdhip64", "libhipblaslt", "librocblas", "native"} <= set(names)
    for line in found["libraries"]:
        assert bool(line["identity"]) == line["available"]
        assert line["available"] or line["reason"]
    assert cli.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for line in found["libraries"]:
        if line["available"]:
            assert f" {line['library']} {line['identity']}" in printed
    assert f"device='auto' is {found['default']}" in printed
    for check in found["checks"]:
        # Not its verdict: clocks and load are looked at anew, and may be others a second later.
        assert re.search(rf"^  \w+ +{re.escape(check['question'])}$", printed, re.MULTILINE), check
