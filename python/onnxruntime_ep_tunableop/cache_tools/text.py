"""Words and tables for a terminal."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def count(number: int, what: str, several: str = "") -> str:
    """ "1 entry", "2 entries"."""
    return f"{number} {what if number == 1 else several or what + 's'}"


def age(seconds: float) -> str:
    """ "12d", "3h", "5m", "0s": whole units, the largest that fits."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"


def moment(seconds: int) -> str:
    """UTC, to the second; years beyond 9999 as their number of seconds."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(
            "%Y-%m-%d %H:%M:%S UTC"
        )
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s after 1970"


def day(number: int) -> str:
    """Days since 1970 as a date; beyond the year 9999 as their number."""
    try:
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=number))
    except OverflowError:
        return f"day {number}"


def milliseconds(value: float) -> str:
    """Four digits that count; "-" for 0, which stands for not measured."""
    return f"{value:.4g}" if value > 0 else "-"


def seconds(value: float) -> str:
    """ "12.3 s", "3.4 ms": of a sum of times."""
    if value == 0 or abs(value) >= 1:
        return f"{value:,.1f} s"
    return f"{value * 1e3:.3g} ms"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str]) -> list[str]:
    """Lines with the columns under each other, those named in `left` to the left."""
    everything = [header, *rows]
    widths = [max(len(row[at]) for row in everything) for at in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ).rstrip()
        for row in everything
    ]


def printable(text: str) -> str:
    """Names from files and models may hold anything; a terminal shall not obey it."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
