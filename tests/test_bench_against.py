"""A stock side in another Python: how it is named, and one with an onnxruntime that loads no plugins."""

from __future__ import annotations

import ast
import os
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop
import pytest
from onnxruntime_ep_tunableop import OptionError
from onnxruntime_ep_tunableop.bench.fresh import probe
from onnxruntime_ep_tunableop.bench.sides import (
    Against,
    SideError,
    open_side,
    parse_against,
    stock_providers,
)
from support.graphs import matmul_model
from support.other_python import script
from support.sides import THIS, ours, product, stock


@pytest.mark.parametrize(
    ("text", "provider"),
    [
        ("CPUExecutionProvider", "CPUExecutionProvider"),
        ("cpuexecutionprovider", "CPUExecutionProvider"),
        ("cpu", "CPUExecutionProvider"),
        ("CUDA", "CUDAExecutionProvider"),
        ("rocm", "ROCMExecutionProvider"),
        ("MIGraphX", "MIGraphXExecutionProvider"),
        ("tensorrt", "TensorrtExecutionProvider"),
        ("openvino", "OpenVINOExecutionProvider"),
        ("dnnl", "DnnlExecutionProvider"),
        ("xnnpackexecutionprovider", "XnnpackExecutionProvider"),
        ("TheirOwnExecutionProvider", "TheirOwnExecutionProvider"),
    ],
)
def test_a_provider_here_and_elsewhere(text: str, provider: str) -> None:
    assert parse_against(text) == Against(None, provider)
    assert parse_against(f"{sys.executable}:{text}") == Against(THIS.absolute(), provider)


def test_the_ways_to_name_a_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "en:vironment" / "bin" / "python"
    inside.parent.mkdir(parents=True)
    inside.symlink_to(sys.executable)
    expected = Against(inside, "ROCMExecutionProvider")  # not where the link leads
    assert parse_against(f"{inside}:rocm") == expected
    assert parse_against(f"{tmp_path}/en:vironment:rocm") == expected
    monkeypatch.chdir(tmp_path)
    assert parse_against("./en:vironment/bin/python:rocm") == expected
    assert parse_against("en:vironment:rocm") == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_against("~/en:vironment:rocm") == expected
    (tmp_path / "pythonofthistest").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert parse_against("pythonofthistest:rocm").python == tmp_path / "pythonofthistest"


def test_what_is_no_against(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    for text, words in [
        ("", "expected PROVIDER or PYTHON:PROVIDER"),
        (":cpu", "expected PROVIDER or PYTHON:PROVIDER"),
        (f"{sys.executable}:", "expected PROVIDER or PYTHON:PROVIDER"),
        (sys.executable, f"it names no provider; .* such as {sys.executable}:cpu"),
        (f"{tmp_path}/none/python", "it names no provider"),
        ("gpu", "'gpu' is no provider; expected PROVIDER or PYTHON:PROVIDER, a provider being cpu, cuda"),
        ("ExecutionProvider", "is no provider"),
        (f"{sys.executable}:gpu", "'gpu' is no provider"),
        ("TunableOpExecutionProvider", "that is the provider to be compared; name a stock one"),
        (f"{tmp_path}/none/python:cpu", f"the Python {tmp_path}/none/python does not exist"),
        (f"{tmp_path}/text:cpu", f"the Python {tmp_path}/text cannot be executed"),
        (f"{tmp_path}:cpu", f"the folder {tmp_path} has no bin/python: no environment"),
        ("nopythonofthisname:cpu", "the Python nopythonofthisname does not exist"),
    ]:
        with pytest.raises(OptionError, match=words) as failed:
            parse_against(text)
        assert str(failed.value).startswith(f"against '{text}': ")


def test_stock_providers_are_those_here_the_cpu_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stock_providers()[-1] == "CPUExecutionProvider"
    names = [
        name + "ExecutionProvider" for name in ("Tensorrt", "CPU", "MIGraphX", "Azure", "ROCM", "TunableOp")
    ]
    monkeypatch.setattr(ort, "get_available_providers", lambda: names)
    assert stock_providers() == [name + "ExecutionProvider" for name in ("ROCM", "MIGraphX", "CPU")]


def test_it_answers_as_the_same_provider_does_here(tmp_path: Path, onnxruntime_1_22: Path) -> None:
    path, feeds, exact = product(tmp_path, 33, 65, 129)
    with open_side(stock(path), feeds) as here, open_side(stock(path), feeds, onnxruntime_1_22) as there:
        facts = there.facts()
        assert facts["onnxruntime"] == "1.22.1"
        assert facts["executable"] == str(onnxruntime_1_22)
        np.testing.assert_allclose(there.outputs()["Y"], here.outputs()["Y"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(there.outputs()["Y"], exact, rtol=1e-4, atol=1e-4)
        assert len(there.block(seconds=None, calls=4, warmup_calls=1).latencies) == 4
        assert there.stats()["counters"] == {}
        assert there.peak_bytes() > 10 << 20
    found = probe(stock(path), feeds, onnxruntime_1_22)
    assert min(found.import_seconds, found.creation_seconds, found.second_request_seconds) > 0.0


def test_what_that_onnxruntime_cannot_do(tmp_path: Path, onnxruntime_1_22: Path) -> None:
    path, feeds, _ = product(tmp_path)
    with pytest.raises(SideError) as failed:
        open_side(ours(path), feeds, onnxruntime_1_22)
    assert str(failed.value) == (
        f"tuned ({onnxruntime_1_22}): onnxruntime 1.22.1 cannot load plugin execution providers: "
        "1.24 or newer can"
    )
    rocm = (("ROCMExecutionProvider", {}),)
    with pytest.raises(SideError, match=r"onnxruntime 1\.22\.1 has no ROCMExecutionProvider; it has .*CPU"):
        open_side(stock(path, providers=rocm), feeds, onnxruntime_1_22)
    new = matmul_model(["m", 16], [16, 32])
    new.ir_version = 12
    onnx.save(new, tmp_path / "new.onnx")
    with pytest.raises(SideError, match=r"no session of .*new\.onnx: .*Unsupported model IR version: 12"):
        open_side(stock(tmp_path / "new.onnx"), feeds, onnxruntime_1_22)


def test_a_python_without_onnxruntime(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = parse_against(f"{tmp_path}/bare:cpu").python
    with pytest.raises(SideError, match="there is no onnxruntime that can be imported: No module named"):
        open_side(stock(path), feeds, python)


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    with pytest.raises(SideError, match=f"there is no Python {tmp_path}/none"):
        open_side(stock(path), feeds, tmp_path / "none")
    with pytest.raises(SideError, match=f"the Python {tmp_path} cannot be run: Permission denied"):
        open_side(stock(path), feeds, tmp_path)


def test_another_python_sees_nothing_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, feeds, _ = product(tmp_path)
    (tmp_path / "numpy.py").write_text("raise ImportError('that of the directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TUNABLEOP_WARMUP_ITER", "3")
    other = script(tmp_path / "other", 'env >"$0.environment"; exec "$PYTHON" "$@"')
    with open_side(stock(path), feeds, other) as side:
        assert Path(side.facts()["executable"]).samefile(sys.executable)
    seen = (tmp_path / "other.environment").read_text()
    assert "HOME=" in seen
    assert "PYTHONPATH=" not in seen
    assert "TUNABLEOP_" not in seen
    with open_side(ours(path), feeds, other):  # to these they are addressed
        pass
    seen = (tmp_path / "other.environment").read_text()
    assert "TUNABLEOP_WARMUP_ITER=3" in seen
    assert "PYTHONPATH=" not in seen
    with open_side(stock(path), feeds, THIS) as side:  # the modules of this process, none of the directory's
        assert side.facts()["onnxruntime"] == ort.__version__


def test_what_is_copied_to_another_python_needs_no_newer_one() -> None:
    folder = Path(onnxruntime_ep_tunableop.__file__).parent / "bench" / "worker"
    sources = list(folder.glob("*.py"))
    assert len(sources) > 4
    for source in sources:
        tree = ast.parse(source.read_text(), str(source), feature_version=(3, 8))
        above = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level > 1]
        assert not above, f"{source.name} imports from outside its folder"
