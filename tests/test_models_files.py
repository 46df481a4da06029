from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `models` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

import onnxruntime as ort  # noqa: E402

from models import bert, fetch, weights  # noqa: E402
from models.__main__ import main  # noqa: E402
from models.encoder import EncoderConfig  # noqa: E402
from models.retype import retyped  # noqa: E402

# --- downloads


def fake_pip(monkeypatch, content: bytes | None, complaint: str = ""):
    """Stands in for `pip download`: leaves a wheel of that content, or fails."""

    def run(command, **_):
        assert "--no-deps" in command
        assert "--only-binary=:all:" in command
        if content is not None:
            folder = Path(command[command.index("--dest") + 1])
            (folder / "thing-1.0-py3-none-any.whl").write_bytes(content)
        return subprocess.CompletedProcess(command, 0 if content is not None else 1, "", complaint)

    monkeypatch.setattr(fetch.subprocess, "run", run)


def wheel_bytes(tmp_path: Path) -> bytes:
    import zipfile

    with zipfile.ZipFile(tmp_path / "made.whl", "w") as archive:
        archive.writestr("thing/data.txt", "hello")
    return (tmp_path / "made.whl").read_bytes()


def test_fetch_unpacks_once(tmp_path, monkeypatch):
    content = wheel_bytes(tmp_path)
    pin = fetch.Pin("thing", "1.0", hashlib.sha256(content).hexdigest(), 1)
    fake_pip(monkeypatch, content)
    cache = tmp_path / "cache"
    folder = fetch.fetch(pin, cache)
    assert (folder / "thing" / "data.txt").read_text() == "hello"
    assert list(cache.iterdir()) == [folder], "nothing half done is left"
    fake_pip(monkeypatch, None)  # a second call must not need pip
    assert fetch.fetch(pin, cache) == folder


def test_fetch_refuses_another_file(tmp_path, monkeypatch):
    content = wheel_bytes(tmp_path)
    pin = fetch.Pin("thing", "1.0", "0" * 64, 1)
    fake_pip(monkeypatch, content)
    with pytest.raises(fetch.FetchError) as caught:
        fetch.fetch(pin, tmp_path / "cache")
    message = str(caught.value)
    assert "0" * 64 in message
    assert hashlib.sha256(content).hexdigest() in message
    assert "do not use it" in message
    assert list((tmp_path / "cache").iterdir()) == [], "a wrong file is not kept"


def test_fetch_says_why_pip_failed(tmp_path, monkeypatch):
    fake_pip(monkeypatch, None, "WARNING: retrying\nERROR: No matching distribution found for thing==1.0")
    with pytest.raises(fetch.FetchError, match=r"No matching distribution(.|\n)*TUNABLEOP_MODEL_CACHE"):
        fetch.fetch(fetch.Pin("thing", "1.0", "0" * 64, 1), tmp_path / "cache")


def test_cache_dir_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path))
    assert fetch.cache_dir() == tmp_path
    monkeypatch.delenv(fetch.CACHE_VARIABLE)
    assert fetch.cache_dir() == ROOT / ".cache" / "models"


# --- safetensors


def write_safetensors(path: Path, header: dict, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_safetensors_reads_what_was_written(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    header = {"__metadata__": {"a": "b"}, "x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [1, 25]}}
    write_safetensors(tmp_path / "f", header, b"\0" + values.tobytes())  # at an odd address
    assert list(weights.read_safetensors(tmp_path / "f")) == ["x"]
    np.testing.assert_array_equal(weights.read_safetensors(tmp_path / "f")["x"], values)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, "x: shape"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}, "x: shape"),
        ({"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}, "x: dtype BF16"),
    ],
)
def test_safetensors_refuses_a_wrong_header(tmp_path, entry, message):
    write_safetensors(tmp_path / "f", {"x": entry}, bytes(8))
    with pytest.raises(ValueError, match=message):
        weights.read_safetensors(tmp_path / "f")


def test_safetensors_refuses_another_file(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="not a safetensors file"):
        weights.read_safetensors(tmp_path / "f")


# --- the command, and the builder itself


def test_command_builds_a_model(tmp_path, capsys):
    out = tmp_path / "new" / "model.onnx"
    assert main(["build", "minilm-int8", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    onnx.checker.check_model(str(out))


def test_command_fixes_sizes_and_types(tmp_path, capsys):
    out = tmp_path / "m.onnx"
    sizes = ["--layers", "1", "--batch", "2", "--sequence", "6"]
    assert main(["build", "whisper", *sizes, "--dtype", "fp16", "--out", str(out), "--external"]) == 0
    made = onnx.load(out, load_external_data=False)
    assert {tensor.data_type for tensor in made.graph.initializer if tensor.external_data} == {
        onnx.TensorProto.FLOAT16
    }
    (sound,) = made.graph.input
    assert [dim.dim_value for dim in sound.type.tensor_type.shape.dim] == [2, 80, 6]
    assert main(["build", "t5", *sizes, "--target", "5", "--out", str(out)]) == 0
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in onnx.load(out).graph.input
    }
    assert shapes == {"input_ids": [2, 6], "attention_mask": [2, 6], "decoder_input_ids": [2, 5]}
    capsys.readouterr()
    assert main(["build", "digits", "--dtype", "fp16", "--out", str(out)]) == 1
    assert "digits is there as it is only" in capsys.readouterr().err


# --- another type


def small_bert(dtype):
    config = EncoderConfig(layers=1, hidden=32, heads=2, intermediate=64, vocabulary=50, positions=16)
    return bert.build(config, seed=2, dtype=dtype)


def test_a_model_in_another_type_is_the_one_that_is_built_so():
    single = small_bert(np.float32)
    for dtype in (np.float16, np.float32):
        got, expected = retyped(small_bert(np.float16), dtype), small_bert(dtype)
        onnx.checker.check_model(got, full_check=True)
        ours, theirs = (
            {t.name.partition("const")[0]: onnx.numpy_helper.to_array(t) for t in m.graph.initializer}
            for m in (got, expected)
        )
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            assert values.dtype == theirs[name].dtype
            np.testing.assert_allclose(values, theirs[name], rtol=1e-3, atol=1e-6)
    half = retyped(single, np.float16)
    assert single.SerializeToString() == small_bert(np.float32).SerializeToString(), "a copy"
    assert not [
        t.name
        for t in half.graph.initializer
        if t.data_type == onnx.TensorProto.FLOAT or not np.isfinite(onnx.numpy_helper.to_array(t)).all()
    ]
    ids = np.ones((1, 4), np.int64)
    feed = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids * 0}
    (close,), (exact,) = (
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
        for m in (half, single)
    )
    assert close.dtype == np.float16
    np.testing.assert_allclose(close, exact, atol=2e-2)


def test_a_model_of_two_types_or_of_two_files_is_refused(tmp_path):
    mixed = small_bert(np.float32)
    mixed.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float16), "other"))
    with pytest.raises(ValueError, match="fp32 and in fp16"):
        retyped(mixed, np.float16)
    onnx.save(small_bert(np.float32), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=64)
    with pytest.raises(ValueError, match="in another file"):
        retyped(onnx.load(tmp_path / "m.onnx", load_external_data=False), np.float16)


def test_command_lists_and_reports_errors(tmp_path, capsys, monkeypatch):
    assert main(["list"]) == 0
    assert "minilm-int8" in capsys.readouterr().out
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path))
    fake_pip(monkeypatch, None, "ERROR: no route to host")
    assert main(["build", "minilm-int8", "--out", str(tmp_path / "m.onnx")]) == 1
    assert "no route to host" in capsys.readouterr().err


def test_command_says_which_package_is_missing(tmp_path, capsys, monkeypatch):
    import models

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    # Another test may have had it already: then it is an attribute of its package, too.
    monkeypatch.delitem(sys.modules, "models.digits", raising=False)
    monkeypatch.delattr(models, "digits", raising=False)
    assert main(["build", "digits", "--out", str(tmp_path / "m.onnx")]) == 1
    assert "onnxruntime-ep-tunableop[models]" in capsys.readouterr().err
    hidden = "import runpy, sys; sys.modules['onnx'] = None; runpy.run_module('models', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hidden, "list"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "the package onnx is missing: pip install" in done.stderr
