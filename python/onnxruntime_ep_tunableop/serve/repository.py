"""Where models lie: files and folders named one by one, and a folder of models as Triton has it.

    FOLDER/NAME/VERSION/model.onnx
    FOLDER/NAME/config.json        perhaps: settings of that model

A model's folder without versions may hold the model itself, as downloads from an object store leave it.

Names come from listings of folders, and a wanted name is looked up among them: no request makes a path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .settings import ModelSettings, ServerSettings, SettingsError, model_settings

FILE = "model.onnx"
CONFIG = "config.json"
#: Triton's own settings, which are not read here.
TRITON_CONFIG = "config.pbtxt"

#: What file systems of their own have at their root (ext4 does): a volume for models may be one.
_NO_MODEL = "lost+found"

#: What may be in a URL and a file's name as it is, and is no hidden file.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Found:
    """A model that is there. `reason` says why it cannot be loaded, '' if it can."""

    name: str
    settings: ModelSettings | None
    versions: Mapping[str, Path]  #: those to serve, the lowest first
    reason: str = ""


class Repository:
    """What is there to be loaded. `scan` blocks."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings

    def scan(self) -> dict[str, Found]:
        """Every model, by name. Those that were named one by one go before those of the folder."""
        found: dict[str, Found] = {}
        folder = self._settings.repository
        if folder is not None:
            try:
                entries = sorted(entry for entry in folder.iterdir() if entry.is_dir())
            except OSError as error:
                raise SettingsError(f"repository '{folder}': {error.strerror}") from error
            for entry in entries:
                if not entry.name.startswith(".") and entry.name != _NO_MODEL:
                    found[entry.name] = self._in_folder(entry)
        for model in self._settings.models:
            found[model.name] = _found(model)
        return found

    def _in_folder(self, folder: Path) -> Found:
        try:
            settings = model_settings(
                folder.name, folder, self._settings.defaults, _read_config(folder / CONFIG)
            )
        except SettingsError as error:
            return Found(folder.name, None, {}, str(error))
        return _found(settings)


def triton_config(folder: Path) -> bool:
    """Whether a model has settings that only Triton would read. Does not raise."""
    try:
        return (folder / TRITON_CONFIG).is_file() and not (folder / CONFIG).exists()
    except OSError:
        return False


def _found(settings: ModelSettings) -> Found:
    try:
        return _look(settings)
    except OSError as error:  # of this one: the others are there all the same
        return Found(settings.name, settings, {}, f"'{settings.path}' cannot be read: {error.strerror}")


def _look(settings: ModelSettings) -> Found:
    name, path = settings.name, settings.path
    if not _NAME.fullmatch(name):
        return Found(name, None, {}, "expected a name of letters, digits, '_', '.' and '-'")
    if path.is_file():
        return Found(name, settings, {"1": path})
    if not path.is_dir():
        return Found(name, settings, {}, f"expected a file or a folder, found none at '{path}'")
    there = {
        int(entry.name): entry / FILE
        for entry in path.iterdir()
        if _VERSION.fullmatch(entry.name) and (entry / FILE).is_file()
    }
    if not there and (alone := _without_versions(path)) is not None:
        there = {1: alone}
    wanted = settings.versions
    if not there:
        return Found(
            name, settings, {}, f"expected VERSION/{FILE} or a single .onnx file in '{path}', found neither"
        )
    if wanted == "latest":
        chosen = [max(there)]
    elif isinstance(wanted, str):
        chosen = sorted(there)
    else:
        chosen = sorted({int(number) for number in wanted})
        if missing := [str(number) for number in chosen if number not in there]:
            return Found(name, settings, {}, f"there is no version {', '.join(missing)} in '{path}'")
    return Found(name, settings, {str(number): there[number] for number in chosen})


def _without_versions(folder: Path) -> Path | None:
    """The model that lies in `folder` itself: `FILE`, or the only one there is."""
    files = [entry for entry in folder.iterdir() if entry.suffix == ".onnx" and entry.is_file()]
    named = [entry for entry in files if entry.name == FILE]
    chosen = named or files
    return chosen[0] if len(chosen) == 1 else None


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"'{path}' cannot be read: {error}") from error
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"'{path}' is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"'{path}': expected an object, found {json.dumps(content)[:80]}")
    return content
