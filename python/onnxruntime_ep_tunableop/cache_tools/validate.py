"""Whether a file of tuning results is right, and what this machine would use of it."""

from __future__ import annotations

import importlib
import importlib.resources
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import _core
from . import text
from .document import of_reading
from .here import Target

SCHEMA = "tuning-results.schema.json"


class NoSchemaError(Exception):
    """The schema cannot be applied; the message says what is missing."""


@dataclass(frozen=True)
class Verdict:
    """One file."""

    problems: tuple[str, ...]  #: what the loaders of its machines would say
    machines: int
    entries: int

    def __str__(self) -> str:
        """Of a file that is right."""
        entries = text.count(self.entries, "entry", "entries")
        return f"right; {text.count(self.machines, 'machine')}, {entries}"


@dataclass(frozen=True)
class UsableHere:
    """What one device of this machine would take from a file."""

    device: str
    entries: int
    used: int  #: whose library is loaded, in the same version
    seen: int
    denied: int
    other: dict[str, int] = field(default_factory=dict)  #: entries not used, by reason
    problems: tuple[str, ...] = ()  #: what the loader says

    def __str__(self) -> str:
        """For a person, on one line."""
        said = f"{self.device}: {self.used} of {text.count(self.entries, 'entry', 'entries')} used"
        for reason, number in sorted(self.other.items()):
            said += f", {number} not: {reason}"
        if self.seen:
            said += f"; {text.count(self.seen, 'problem')} seen"
        return said + (f"; {text.count(self.denied, 'kernel')} denied" if self.denied else "")


def check(path: Path) -> Verdict:
    """Every section judged as its own machine would judge it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    document = of_reading(_core.read_results(path))
    return Verdict(
        problems=document.problems,
        machines=len(document.sections),
        entries=sum(len(section.entries) for section in document.sections),
    )


def usable_here(path: Path, targets: Sequence[Target]) -> list[UsableHere]:
    """What sessions on these devices would take, and say."""
    return [_usable(path, target) for target in targets]


def _usable(path: Path, target: Target) -> UsableHere:
    fingerprint: _core.Fingerprint = {
        "device": target.machine.device,
        "model": target.machine.model,
        "features": target.machine.features,
        "cores": target.machine.cores,
    }
    section, problems = _core.load_results(path, fingerprint)
    content = json.loads(section)
    reasons: Counter[str] = Counter()
    for entry in content["entries"]:
        library, identity = entry["winner"]["library"], entry["library_identity"]
        if library not in target.libraries:
            reasons[f"{library} is not loaded"] += 1
        elif identity != target.libraries[library]:
            reasons[f"of {library} {identity}, and {target.libraries[library]} is loaded"] += 1
    return UsableHere(
        device=target.device,
        entries=len(content["entries"]),
        used=len(content["entries"]) - reasons.total(),
        seen=len(content.get("seen", [])),
        denied=len(content.get("denied", [])),
        other=dict(reasons),
        problems=tuple(problems),
    )


def against_schema(path: Path, schema: Path | None = None) -> list[str]:
    """One line for each place where a file breaks the JSON schema.

    Raises:
        NoSchemaError: jsonschema is not installed, or the schema is not there.
    """
    try:
        jsonschema = importlib.import_module("jsonschema")  # which carries no types
    except ImportError as error:
        raise NoSchemaError(f"{error}: pip install jsonschema") from error
    validator = jsonschema.Draft202012Validator(_schema(schema))
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return [f"{os.fspath(path)}: not JSON: {error}"]
    except OSError as error:
        return [f"{os.fspath(path)}: cannot open: {error.strerror}"]
    found = sorted(validator.iter_errors(document), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{os.fspath(path)}: {error.json_path}: {error.message[:200]}" for error in found]


def _schema(path: Path | None) -> Any:
    if path is not None:
        return json.loads(path.read_text(encoding="utf-8"))
    packaged = importlib.resources.files(__package__) / SCHEMA
    try:
        return json.loads(packaged.read_text(encoding="utf-8"))
    except OSError as error:
        raise NoSchemaError(f"{SCHEMA} is not in this installation") from error
