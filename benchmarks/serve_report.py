"""What `benchmarks.serve` measured, as tables, and what of it is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.measure import Interval

TOLERANCE = 1e-3  # relative to the largest number, as in end_to_end


def line(r: Mapping[str, Any]) -> str:
    """One kind of load, for who waits."""
    ours, stock = r["sides"]["ours"], r["sides"]["stock"]
    return (
        f"{r['requests']}, {r['protocol']}, {r['concurrency']}: {ours['rate']:.0f} requests/s, "
        f"stock {stock['rate']:.0f}; {Interval(**r['speed_up'])}"
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for each side of each kind of load."""
    rows: list[list[object]] = []
    for r in results:
        if r["part"] != "load":
            continue
        calls = r["calls"]["hits"] + r["calls"]["misses"]
        for name in ("stock", "ours"):
            side = r["sides"][name]
            rows.append(
                [
                    f"{_WORDS[r['requests']]}, {r['protocol']}, {r['concurrency']}: {name}",
                    f"{side['rate']:.0f}",
                    _ms(side["p50"]),
                    _ms(side["p99"]),
                    Interval(**r["speed_up"]) if name == "ours" else "1",
                    f"{1e3 * side['server_cpu']:.2f}",
                    f"{1e3 * side['client_cpu']:.2f}",
                    f"{100 * r['calls']['hits'] / calls:.0f} %" if calls and name == "ours" else "-",
                    len(side["errors"]),
                ]
            )
    header = ("", "requests/s", "p50 ms", "p99 ms", "speed-up", "server ms", "client ms", "hits", "errors")
    return common.table(header, rows)


_WORDS = {"mix": "mixed lengths", "128": "128 tokens"}
_MODES = {"stock": "stock", "empty": "nothing known", "cached": "with saved results"}


def first_table(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for each kind of fresh server."""
    rows = [
        [
            _MODES[r["mode"]],
            _ms(r["median"]["first"]),
            _ms(r["p90"]["first"]),
            _ms(r["worst"]["first"]),
            Interval(**r["ratio"]["first"]),
            _ms(r["median"]["second"]),
            f"{r['median']['ready']:.2f}",
            f"{r['median']['from_start']:.2f}",
        ]
        for r in results
        if r["part"] == "first"
    ]
    header = ("", "first ms", "p90", "worst", "/stock", "second ms", "ready after s", "first answer after s")
    return common.table(header, rows)


def wrong(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Requests that failed, and answers that differ."""
    lines: list[str] = []
    for r in results:
        named = r["sides"] if r["part"] == "load" else {r.get("mode", "ours"): r}
        where = " ".join(str(r[key]) for key in ("requests", "protocol", "concurrency") if key in r)
        for name, side in named.items():
            if errors := side.get("errors"):
                lines.append(f"{where} {name}: {len(errors)} errors, the first: {errors[0]}")
            if not side["difference"] <= TOLERANCE:
                lines.append(f"{where} {name}: an answer differs by {side['difference']:.1e}")
    return lines
