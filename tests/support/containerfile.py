"""A container file as a list of instructions, stage by stage."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str  #: what follows, its lines joined
    line: int

    @property
    def words(self) -> list[str]:
        """What follows, without flags (--chown=...)."""
        return [word for word in self.text.split() if not word.startswith("--")]

    @property
    def array(self) -> list[str]:
        """Of the exec form; ValueError where it is the shell form."""
        content = json.loads(self.text[self.text.index("[") :])
        assert isinstance(content, list)
        assert all(isinstance(word, str) for word in content)
        return content


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [entry for entry in self.instructions if entry.name == name]

    def only(self, name: str) -> Instruction:
        (entry,) = self.all(name)
        return entry


def read(path: Path) -> tuple[list[Instruction], list[Stage]]:
    """What stands before the first stage, and the stages."""
    before: list[Instruction] = []
    stages: list[Stage] = []
    for entry in _instructions(path.read_text(encoding="utf-8")):
        if entry.name == "FROM":
            found = re.fullmatch(r"(\S+)(?:\s+AS\s+(\S+))?", entry.text)
            assert found, entry
            stages.append(Stage(found[1], found[2] or ""))
        elif stages:
            stages[-1].instructions.append(entry)
        else:
            before.append(entry)
    return before, stages


def _instructions(text: str) -> list[Instruction]:
    found: list[Instruction] = []
    pending = ""
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (not line.strip() and not pending):
            continue
        if not pending:
            start = number
        pending += line.rstrip().removesuffix("\\") + " "
        if not line.rstrip().endswith("\\"):
            name, _, rest = pending.strip().partition(" ")
            found.append(Instruction(name, " ".join(rest.split()), start))
            pending = ""
    assert not pending, "the last line goes on"
    return found
