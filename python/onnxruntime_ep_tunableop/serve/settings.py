"""What a server is told: which models, how they are batched, where what they learn is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from .._options import DEFAULTS
from ..session import ORT_KEYWORDS

#: Versions of a model to serve: the highest one, every one, or those of these numbers.
Versions = str | Sequence[int]


@dataclass(frozen=True)
class ModelSettings:
    """One model. `path`: a file (version 1), or a folder with a folder for each version."""

    name: str
    path: Path
    versions: Versions = "latest"
    #: Of `InferenceSession`. Without `tuning` it is "background", without `cache` a file in the state folder.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Entries of ONNX Runtime's session configuration.
    session_config: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0  #: intra-op threads of the session; 0: the cores that this process may use
    stock: bool = False  #: without this package's provider, to compare with
    max_batch: int = 32  #: rows that are run together at most; 1: no batches
    max_delay_ms: float = 2.0  #: a request waits for company at most so long while it could run
    batch_axis: int | None = 0  #: None: no batches
    check_rows: bool = True  #: before it is ready: whether rows run together give what they give alone
    queue_size: int = 256  #: requests that wait to be run, at most
    instances: int = 1  #: runs at a time
    #: Runs before the model is ready: [{"input": [1, 128]}, ...], as `tunableop.warm` takes them.
    warm: Sequence[Mapping[str, Sequence[int]]] = ()

    def __post_init__(self) -> None:
        """Raises SettingsError where a value is none that makes sense."""
        where = f"model '{self.name}': "
        _check_whole(where, self, max_batch=1, queue_size=1, instances=1, threads=0)
        if self.batch_axis is not None:
            _check_whole(where, self, batch_axis=0)
        _check_number(where, self, "max_delay_ms", 0.0)
        for key in ("stock", "check_rows"):
            if not isinstance(value := getattr(self, key), bool):
                raise SettingsError(f"{where}{key}: expected true or false, found {value!r}")
        if not _are_versions(self.versions):
            raise SettingsError(
                f"{where}versions: expected latest, all or a list of numbers, found {self.versions!r}"
            )
        if wrong := [name for name in self.options if name not in OPTIONS]:
            raise SettingsError(
                f"{where}there is no option '{wrong[0]}'; the options are: {', '.join(OPTIONS)}"
            )
        if not _are_runs(self.warm):
            raise SettingsError(f'{where}warm: expected [{{"input": [1, 128]}}, ...], found {self.warm!r}')


@dataclass(frozen=True)
class ServerSettings:
    """The whole server's engine."""

    models: Sequence[ModelSettings] = ()
    repository: Path | None = None  #: a folder NAME/VERSION/model.onnx, with NAME/config.json perhaps
    #: For models of the repository, under what their config.json says.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    load: Sequence[str] | None = None  #: models to load at the start; None: every one
    state: Path = field(default_factory=lambda: default_state())  #: tuning results: NAME.tune.json
    save_every: float = 60.0  #: seconds between saves of what was learned; 0: only at the end
    #: The content of a shapes.json, for models whose own settings say nothing: runs, or {NAME: runs}.
    warm: Any = ()
    warm_from_cache: bool = False  #: before ready: measure what the cache has seen in use

    def __post_init__(self) -> None:
        """Raises SettingsError where a value is none that makes sense."""
        _check_number("", self, "save_every", 0.0)
        for name in self.warm if isinstance(self.warm, Mapping) else ("",):
            shapes_of(self.warm, name)
        names = [model.name for model in self.models]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"expected each model's name once, found '{name}' more than once")


class SettingsError(ValueError):
    """A setting has an unknown name or a wrong value; the message says what was expected."""


#: What `options` may name: what `InferenceSession` takes beside the model and the session's own options.
OPTIONS = (*DEFAULTS, *ORT_KEYWORDS, "providers", "provider_options")

#: What a config.json, and `ServerSettings.defaults`, may say: the rest of a model is where it lies.
CONFIGURABLE = tuple(entry.name for entry in fields(ModelSettings) if entry.name not in ("name", "path"))


def model_settings(name: str, path: Path, *layers: Mapping[str, Any]) -> ModelSettings:
    """From `layers`, of which the later ones win; of objects (`options`), each entry by itself.

    Raises:
        SettingsError: an unknown key or wrong value.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        for key in layer:
            if key not in CONFIGURABLE:
                known = ", ".join(CONFIGURABLE)
                raise SettingsError(f"model '{name}': there is no setting '{key}'; the settings are: {known}")
            if key in ("options", "session_config"):
                if not isinstance(layer[key], Mapping):
                    raise SettingsError(f"model '{name}': {key}: expected an object, found {layer[key]!r}")
                values[key] = {**values.get(key, {}), **layer[key]}
            else:
                values[key] = layer[key]
    return ModelSettings(name, path, **values)


def shapes_of(content: Any, name: str) -> Sequence[Mapping[str, Sequence[int]]]:
    """The runs for one model from the content of a shapes.json: a list of runs, or one for each model's name.

    Raises:
        SettingsError: it is neither.
    """
    if isinstance(content, Mapping) and all(isinstance(runs, Sequence) for runs in content.values()):
        first: Any = next((run for runs in content.values() for run in runs), {})
        if isinstance(first, Mapping):  # else a single run: its lists are dimensions
            content = content.get(name, [])
    runs = [content] if isinstance(content, Mapping) else content
    if not _are_runs(runs):
        raise SettingsError(f'warm: expected [{{"input": [1, 128]}}, ...], found {content!r}')
    return cast("Sequence[Mapping[str, Sequence[int]]]", runs)


def default_state() -> Path:
    """Where a user's programs keep what they learn (XDG)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tunableop" / "serve"


def _are_versions(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("latest", "all")
    return isinstance(value, Sequence) and len(value) > 0 and all(_is_whole(number, 0) for number in value)


def _are_runs(value: Any) -> bool:
    return _is_list(value) and all(
        isinstance(run, Mapping)
        and all(_is_list(shape) and all(_is_whole(size, 0) for size in shape) for shape in run.values())
        for run in value
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_whole(value: Any, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _check_whole(where: str, settings: Any, **lowest: int) -> None:
    for key, least in lowest.items():
        value = getattr(settings, key)
        if not _is_whole(value, least):
            raise SettingsError(f"{where}{key}: expected a whole number from {least} up, found {value!r}")


def _check_number(where: str, settings: Any, key: str, least: float) -> None:
    value = getattr(settings, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < float("inf"):
        raise SettingsError(f"{where}{key}: expected a number from {least:g} up, found {value!r}")
