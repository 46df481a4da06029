"""Settings, the folder of models, shapes to warm with, counters."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnxruntime_ep_tunableop.serve.counters import Histogram
from onnxruntime_ep_tunableop.serve.repository import Repository, triton_config
from onnxruntime_ep_tunableop.serve.settings import (
    ModelSettings,
    ServerSettings,
    SettingsError,
    default_state,
    model_settings,
    shapes_of,
)


def touch(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_batch": 0}, "max_batch: expected a whole number from 1 up, found 0"),
        ({"queue_size": True}, "queue_size: expected a whole number from 1 up, found True"),
        ({"instances": 1.5}, "instances: expected a whole number from 1 up, found 1.5"),
        ({"threads": -1}, "threads: expected a whole number from 0 up, found -1"),
        ({"batch_axis": -1}, "batch_axis: expected a whole number from 0 up, found -1"),
        ({"max_delay_ms": -1.0}, "max_delay_ms: expected a number from 0 up, found -1.0"),
        ({"max_delay_ms": float("inf")}, "max_delay_ms: expected a number from 0 up, found inf"),
        ({"max_delay_ms": float("nan")}, "max_delay_ms: expected a number from 0 up, found nan"),
        ({"max_delay_ms": "2"}, "max_delay_ms: expected a number from 0 up, found '2'"),
        ({"versions": "newest"}, "versions: expected latest, all or a list of numbers, found 'newest'"),
        ({"versions": []}, "versions: expected latest, all or a list of numbers, found []"),
        ({"versions": ["1"]}, "versions: expected latest, all or a list of numbers, found ['1']"),
        ({"versions": 1}, "versions: expected latest, all or a list of numbers, found 1"),
        ({"path": "x"}, "there is no setting 'path'; the settings are: versions, options"),
        ({"options": []}, "options: expected an object, found []"),
        ({"stock": "yes"}, "stock: expected true or false, found 'yes'"),
        ({"warm": {"x": [1]}}, "warm: expected [{\"input\": [1, 128]}, ...], found {'x': [1]}"),
        ({"warm": [{"x": 1}]}, "warm: expected [{\"input\": [1, 128]}, ...], found [{'x': 1}]"),
    ],
)
def test_a_wrong_setting_is_an_error_that_says_what_is_right(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        model_settings("m", Path("m.onnx"), values)
    assert f"model 'm': {message}" in str(caught.value)


def test_later_settings_win() -> None:
    made = model_settings("m", Path("p"), {"max_batch": 4, "instances": 2}, {"max_batch": 8})
    assert (made.max_batch, made.instances, made.batch_axis) == (8, 2, 0)


def test_server_settings_are_checked() -> None:
    entry = ModelSettings("m", Path("m.onnx"))
    with pytest.raises(SettingsError, match="each model's name once, found 'm' more than once"):
        ServerSettings(models=[entry, entry])
    with pytest.raises(SettingsError, match="save_every: expected a number from 0 up, found -1"):
        ServerSettings(save_every=-1)


def test_the_state_is_where_a_users_programs_keep_theirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_state() == tmp_path / "tunableop" / "serve"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_state() == tmp_path / ".local" / "state" / "tunableop" / "serve"


def scan(folder: Path, **more: Any) -> dict[str, tuple[list[str], str]]:
    found = Repository(ServerSettings(repository=folder, state=folder, **more)).scan()
    return {name: (list(entry.versions), entry.reason) for name, entry in found.items()}


def test_a_folder_of_models(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "a/1/model.onnx",
        "a/2/model.onnx",
        "a/10/model.onnx",
        "a/11/other.onnx",
        "a/07/model.onnx",
        "a/next/model.onnx",
        "a/-1/model.onnx",
        "empty/1/readme",
        ".hidden/1/model.onnx",
        "two words/1/model.onnx",
        "lost+found/readme",
        "file.onnx",
    )
    assert scan(tmp_path) == {
        "a": (["10"], ""),
        "empty": (
            [],
            f"expected VERSION/model.onnx or a single .onnx file in '{tmp_path}/empty', found neither",
        ),
        "two words": ([], "expected a name of letters, digits, '_', '.' and '-'"),
    }


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["model.onnx"], "model.onnx"),
        (["model.onnx", "model.onnx.data", "other.onnx"], "model.onnx"),
        (["encoder.onnx", "vocabulary.txt", "config.json"], "encoder.onnx"),
        (["one.onnx", "two.onnx"], None),
        (["model.onnx", "2/model.onnx"], "2/model.onnx"),
        (["folder.onnx/weights"], None),
    ],
)
def test_a_folder_without_versions_holds_the_model_itself(
    tmp_path: Path, files: list[str], chosen: str | None
) -> None:
    folder = touch(tmp_path / "models", *files)
    (found,) = Repository(ServerSettings(models=[ModelSettings("m", folder)])).scan().values()
    assert list(found.versions.values()) == ([] if chosen is None else [folder / chosen])
    assert (chosen is None) == ("found neither" in found.reason)


@pytest.mark.parametrize(
    ("config", "versions", "reason"),
    [
        ('{"versions": "all"}', ["1", "2"], ""),
        ('{"versions": [1]}', ["1"], ""),
        ('{"versions": [2, 1, 2]}', ["1", "2"], ""),
        ('{"versions": [1, 3]}', [], "there is no version 3"),
        ('{"max_batch": "8"}', [], "max_batch: expected a whole number"),
        ("[1]", [], "expected an object, found [1]"),
        ("{", [], "is not JSON"),
        ("\x80", [], "is not JSON"),
        ('{"options": {"tunning": "off"}}', [], "there is no option 'tunning'; the options are: tuning, "),
    ],
)
def test_what_config_json_says(tmp_path: Path, config: str, versions: list[str], reason: str) -> None:
    touch(tmp_path, "a/1/model.onnx", "a/2/model.onnx", "b/1/model.onnx")
    (tmp_path / "a" / "config.json").write_text(config, encoding="utf-8")
    found = scan(tmp_path)
    assert found["a"][0] == versions
    assert reason in found["a"][1]
    assert found["b"] == (["1"], ""), "a wrong neighbour does no harm"


def test_config_json_goes_before_the_defaults(tmp_path: Path) -> None:
    touch(tmp_path, "a/1/model.onnx", "b/1/model.onnx")
    (tmp_path / "a" / "config.json").write_text(json.dumps({"max_batch": 3}))
    told = ServerSettings(repository=tmp_path, state=tmp_path, defaults={"max_batch": 5, "instances": 2})
    found = Repository(told).scan()
    batches = {
        name: (entry.settings.max_batch, entry.settings.instances)
        for name, entry in found.items()
        if entry.settings
    }
    assert batches == {"a": (3, 2), "b": (5, 2)}


def test_options_of_config_json_stand_beside_those_of_the_defaults(tmp_path: Path) -> None:
    touch(tmp_path, "a/1/model.onnx")
    (tmp_path / "a" / "config.json").write_text(json.dumps({"options": {"buckets": "pow2", "tuning": "off"}}))
    defaults = {"options": {"max_tuning_bytes": 1 << 20, "tuning": "online"}}
    told = ServerSettings(repository=tmp_path, state=tmp_path, defaults=defaults)
    settings = Repository(told).scan()["a"].settings
    assert settings is not None
    assert settings.options == {"max_tuning_bytes": 1 << 20, "buckets": "pow2", "tuning": "off"}


def test_a_folder_that_cannot_be_read_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a/1/model.onnx", "b/1/model.onnx")
    there = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        # Root, as whom tests may run, may read everything.
        if path.name == "a":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return there(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert scan(tmp_path) == {
        "a": ([], f"'{tmp_path}/a' cannot be read: Permission denied"),
        "b": (["1"], ""),
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["config.pbtxt"], True),
        (["config.pbtxt", "config.json"], False),
        (["config.json"], False),
        ([], False),
    ],
)
def test_settings_that_only_triton_would_read(tmp_path: Path, files: list[str], expected: bool) -> None:
    assert triton_config(touch(tmp_path, *files)) == expected
    assert not triton_config(tmp_path / ("a" * 400))


def test_models_named_one_by_one(tmp_path: Path) -> None:
    touch(tmp_path, "models/a/1/model.onnx", "alone.onnx", "versions/3/model.onnx")
    told = ServerSettings(
        models=[
            ModelSettings("a", tmp_path / "alone.onnx"),
            ModelSettings("v", tmp_path / "versions"),
            ModelSettings("gone", tmp_path / "gone.onnx"),
            ModelSettings("../a", tmp_path / "alone.onnx"),
        ],
        repository=tmp_path / "models",
        state=tmp_path,
    )
    found = Repository(told).scan()
    assert dict(found["a"].versions) == {"1": tmp_path / "alone.onnx"}
    assert dict(found["v"].versions) == {"3": tmp_path / "versions" / "3" / "model.onnx"}
    assert "expected a file or a folder, found none" in found["gone"].reason
    assert "expected a name of letters" in found["../a"].reason


def test_shapes_for_one_model_or_for_each() -> None:
    runs = [{"x": [1, 2]}, {"x": [4, 2]}]
    assert shapes_of(runs, "m") == runs
    assert shapes_of({"x": [1, 2]}, "m") == [{"x": [1, 2]}]
    assert shapes_of({"m": runs, "n": []}, "m") == runs
    assert shapes_of({"m": runs, "n": []}, "n") == []
    assert shapes_of({"m": runs}, "other") == []
    for wrong in (3, "x", [3], [{"x": 3}], [{"x": "12"}], [{"x": [1.5]}], {"m": {"x": [1]}}):
        with pytest.raises(SettingsError, match="warm: expected"):
            shapes_of(wrong, "m")
        with pytest.raises(SettingsError, match="warm: expected"):
            ServerSettings(warm=wrong)


def test_a_histogram_counts_up_to_and_with_a_bound() -> None:
    histogram = Histogram((1, 2))
    for value in (0, 1, 1.5, 2, 3, 100):
        histogram.add(value)
    assert histogram.snapshot() == {"bounds": [1, 2], "counts": [2, 2, 2], "number": 6, "total": 107.5}
