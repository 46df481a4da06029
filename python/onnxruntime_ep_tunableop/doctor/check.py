"""What the doctor says: one question, its verdict, what it rests on, and what to do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, ParamSpec

Verdict = Literal["ok", "note", "warning", "problem"]

#: From the best to the worst.
VERDICTS: tuple[Verdict, ...] = ("ok", "note", "warning", "problem")

#: What to do about something that nobody has thought of.
REPORT = "keep the output of `tunableop doctor --json`, and report it with what you did"


@dataclass(frozen=True)
class Check:
    """One question and its answer.

    note: nothing is wrong, but one may want to know. warning: works, but slower or otherwise than expected.
    problem: does not take effect.
    """

    name: str  #: part.question, for scripts: "runtime.version"
    question: str
    verdict: Verdict
    evidence: list[str]  #: what was found, a fact a line, the most telling first
    remedy: str = ""  #: one command, setting or action; with a warning or problem always

    def __post_init__(self) -> None:
        """A complaint without a way out is a mistake of ours."""
        if self.verdict in ("warning", "problem") and not self.remedy:
            raise ValueError(f"{self.name}: a {self.verdict} without a remedy")


@dataclass
class Report:
    """All checks, and the facts that they were made from."""

    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  #: ready for JSON
    #: questions that could not be asked, by their part: why
    not_asked: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return max((check.verdict for check in self.checks), key=VERDICTS.index, default="ok")

    def add(self, check: Check | None) -> bool:
        """Takes a check, if the question arose. False: it is a problem."""
        if check is not None:
            self.checks.append(check)
        return check is None or check.verdict != "problem"

    def of(self, *verdicts: Verdict) -> list[Check]:
        """The checks with one of these verdicts."""
        return [check for check in self.checks if check.verdict in verdicts]

    def document(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "tool": "tunableop doctor",
            "verdict": self.verdict,
            "checks": [asdict(check) for check in self.checks],
            "not_asked": self.not_asked,
            **self.facts,
        }


def count(number: int, what: str) -> str:
    """ "1 node", "2 nodes"."""
    if number != 1:
        what = f"{what[:-1]}ies" if what.endswith("y") else what + ("es" if what.endswith("ss") else "s")
    return f"{number} {what}"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several findings of one check."""
    return max(verdicts, key=VERDICTS.index, default="ok")


@dataclass(frozen=True)
class Finding:
    """The answer to a question: a check but for its name and question."""

    verdict: Verdict
    evidence: list[str]
    remedy: str = ""


_P = ParamSpec("_P")


def asks(name: str, question: str) -> Callable[[Callable[_P, Finding | None]], Callable[_P, Check | None]]:
    """Makes a check of a function that finds something, or None: the question does not arise.

    The check is fenced: a function that raises is a problem with the exception's text.
    """

    def decorate(find: Callable[_P, Finding | None]) -> Callable[_P, Check | None]:
        @functools.wraps(find)
        def ask(*args: _P.args, **kwargs: _P.kwargs) -> Check | None:
            try:
                finding = find(*args, **kwargs)
            except Exception as error:  # whatever it is: the other questions are still to be asked
                text = f"the check itself failed: {type(error).__name__}: {error}"
                return Check(name, question, "problem", [text], REPORT)
            if finding is None:
                return None
            return Check(name, question, finding.verdict, finding.evidence, finding.remedy)

        return ask

    return decorate
