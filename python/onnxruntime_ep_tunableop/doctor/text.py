"""The report as text."""

from __future__ import annotations

from .check import Check, Report, Verdict, count

_WIDTH = 8  # of a verdict
_COMPLAINTS: tuple[Verdict, ...] = ("problem", "warning", "note")


def text(report: Report) -> str:
    """The report for a person: every question, then what is to be done, the worst first."""
    lines = ["tunableop doctor"]
    width = max(map(len, report.facts.get("versions", {})), default=0)
    lines += [f"  {key:<{width}}  {value}" for key, value in report.facts.get("versions", {}).items()]
    part = ""
    for check in report.checks:
        if check.name.partition(".")[0] != part:
            part = check.name.partition(".")[0]
            lines += ["", part]
        lines.append(f"  {check.verdict:<{_WIDTH}}{check.question}")
        lines += [f"  {'':<{_WIDTH}}  {line}" for line in check.evidence]
    for why in dict.fromkeys(report.not_asked.values()):
        parts = ", ".join(part for part, reason in report.not_asked.items() if reason == why)
        lines += ["", f"not asked: {parts}: {why}"]
    return "\n".join([*lines, "", *summary(report)])


def summary(report: Report) -> list[str]:
    """What is to be done, the worst first."""
    lines = []
    for verdict in _COMPLAINTS:
        for check in report.of(verdict):
            if check.remedy:
                lines.append(f"{verdict:<{_WIDTH}}{check.name}: {_headline(check)}")
                lines.append(f"{'':<{_WIDTH}}  -> {check.remedy}")
    counts = ", ".join(count(len(found), verdict) for verdict in _COMPLAINTS if (found := report.of(verdict)))
    return [*lines, f"{len(report.checks)} questions: {counts or 'nothing to complain of'}"]


def _headline(check: Check) -> str:
    """The one fact that matters most."""
    return check.evidence[0] if check.evidence else check.question
