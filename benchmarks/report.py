"""Makes the tables of the README from one JSON file, so that no figure is copied by hand.

    python -m benchmarks.report collect docs/figures.json RESULT.json...   # what benchmarks wrote with --json
    python -m benchmarks.report add docs/figures.json RESULT...       # in place of those benchmarks' old ones
    python -m benchmarks.report show docs/figures.json
    python -m benchmarks.report write docs/figures.json README.md          # between the markers
    python -m benchmarks.report check docs/figures.json README.md          # exits with 1 when they differ

A result is the file that `--json` of `benchmarks.shapes`, `benchmarks.end_to_end`, `benchmarks.overhead`,
`benchmarks.serve` or `tunableop bench` writes; several files of one benchmark add up (other threads, other
models). `collect` keeps medians and spreads, and leaves raw samples out. A document holds a table between two
lines, NAME being one of TABLES:

    <!-- figures: NAME -->
    <!-- end of figures -->
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnxruntime_ep_tunableop.bench.figures import Interval
from onnxruntime_ep_tunableop.bench.report import megabytes, seconds

from benchmarks import common, serve_report
from benchmarks.measure import Ratio

Figures = dict[str, Any]

#: Samples, and what only a reader of samples wants.
_RAW = ("rounds_us", "rounds_ms", "rounds", "order", "samples", "slopes_ns", "problems", "nodes", "plan")
_MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)

_MODELS = {
    "bert-1x128": "BERT-base, 1 x 128 tokens",
    "minilm-1x128": "all-MiniLM-L6-v2, 1 x 128 tokens",
    "minilm-8x128": "all-MiniLM-L6-v2, 8 x 128 tokens",
    "llama-decode": "Llama-7B block, one token",
}


class ReportError(Exception):
    """A file is not what was expected."""


def collect(paths: list[Path]) -> Figures:
    """One document of the results of several benchmarks."""
    figures: Figures = {}
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReportError(f"{path}: {error}") from error
        if found.get("tool") == "tunableop bench":
            figures.setdefault("bench", []).append(_without_raw(found))
        elif found.get("benchmark") in ("shapes", "end_to_end", "overhead", "serve"):
            part = figures.setdefault(
                found["benchmark"], {"machine": found["machine"], "arguments": [], "results": []}
            )
            part["arguments"].append(found["arguments"])
            part["results"] += [_without_raw(result) for result in found["results"]]
        else:
            raise ReportError(
                f"{path}: expected what --json of a benchmark writes, found {sorted(found)[:4]}"
            )
    return figures


def _without_raw(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in _RAW}


def summary(figures: Figures) -> str:
    """Whole models, single products and the cost of a node, by threads."""
    threads = sorted({int(result["threads"]) for result in figures["end_to_end"]["results"]})
    rows: list[list[object]] = []
    for model, words in _MODELS.items():
        cells: list[object] = []
        for count in threads:
            (one,) = (
                result
                for result in figures["end_to_end"]["results"]
                if (result["model"], result["threads"]) == (model, count)
                and result["claim"] == result["fusion"] == "auto"
            )
            cells.append(Ratio(**one["ratio"]))
        rows.append([words, *cells])
    cells = []
    for count in threads:
        ratios = [
            result["ratio"]["tuned"]["value"]
            for result in figures["shapes"]["results"]
            if result["threads"] == count
        ]
        cells.append(f"{common.geomean(ratios):.3f} ({min(ratios):.3f})")
    products = len({result["shape"] for result in figures["shapes"]["results"]})
    rows.append([f"{products} single products, geometric mean (worst)", *cells])
    cells = []
    for count in threads:
        cost = {
            result["contender"]: result["ns_per_node_min"]
            for result in figures["overhead"]["results"]
            if result["threads"] == count and result["constant_b"]
        }
        cells.append(f"{cost['ours, tuned']:.0f} / {cost['stock']:.0f}")
    rows.append(["one node, 8x8x8 product: ours / stock ns", *cells])
    header = ["", *(f"{count} thread{'' if count == 1 else 's'}" for count in threads)]
    return common.table(header, rows)


def _ratio(interval: Figures) -> str:
    """A file has null where too few rounds gave no interval."""
    ends = (math.nan if interval[end] is None else float(interval[end]) for end in ("low", "high"))
    return str(Interval(float(interval["value"]), *ends))


def bench(figures: Figures) -> str:
    """`tunableop bench`: a line for each side of each model."""
    rows: list[list[object]] = []
    for found in figures["bench"]:
        ratios = {ratio["side"]: ratio["interval"] for ratio in found["ratios"]}
        best = (found["ceiling"] or {}).get("gflops", 0.0)
        for side in found["sides"]:
            ratio, first, again = ratios.get(side["name"]), side["first"], side["first_with_results"]
            share = f" ({100 * side['gflops'] / best:.0f} %)" if best and side["gflops"] else ""
            starts = seconds(first["first_request_seconds"]) if first else "-"
            if again:
                starts += f", with saved results {seconds(again['first_request_seconds'])}"
            rows.append(
                [
                    f"{found['model']}: {side['name']}",
                    seconds(side["latency"]["median"]),
                    seconds(side["latency"]["p99"]),
                    _ratio(ratio) if ratio else "1",
                    f"{side['gflops']:.0f}{share}",
                    seconds(side["tuning_seconds"]) if side["tuning_seconds"] else "-",
                    starts,
                    megabytes(first["peak_bytes"]) if first else "-",
                    f"{side['agreement']['relative']:.0e}" if ratio else "-",
                ]
            )
    header = (
        "",
        "median",
        "p99",
        "speed-up",
        "GFLOP/s",
        "tuning",
        "first request",
        "peak memory",
        "max error",
    )
    return common.table(header, rows)


def bert(figures: Figures) -> str:
    """BERT-base by `tunableop bench bert --aggressive`, short."""
    (found,) = (one for one in figures["bench"] if one["model"] == "bert")
    ratios = {ratio["side"]: ratio["interval"] for ratio in found["ratios"]}
    rows: list[list[object]] = []
    for side in found["sides"]:
        ratio, first, again = ratios.get(side["name"]), side["first"], side["first_with_results"]
        rows.append(
            [
                side["name"] if ratio else "stock CPU",
                seconds(side["latency"]["median"]),
                f"{ratio['value']:.3f} ({ratio['low']:.3f}-{ratio['high']:.3f})" if ratio else "1",
                f"{side['gflops']:.0f}",
                seconds(first["first_request_seconds"]),
                seconds(again["first_request_seconds"]) if again else "-",
                megabytes(first["peak_bytes"]),
            ]
        )
    header = (
        "BERT-base, 16 x 128",
        "a run",
        "speed-up",
        "GFLOP/s",
        "first request",
        "with results",
        "memory",
    )
    return common.table(header, rows)


def serve_load(figures: Figures) -> str:
    """The server under load."""
    return serve_report.table(figures["serve"]["results"])


def serve_first(figures: Figures) -> str:
    """Fresh servers."""
    return serve_report.first_table(figures["serve"]["results"])


def serve_machine(figures: Figures) -> str:
    """That the server was measured on."""
    return _facts(figures["serve"]["machine"])


def machine(figures: Figures) -> str:
    """The machine in a line; without what differs from minute to minute."""
    return _facts(figures["end_to_end"]["machine"])


def _facts(facts: Figures) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items() if key not in ("load", "time"))


TABLES: dict[str, Callable[[Figures], str]] = {
    "summary": summary,
    "bench": bench,
    "bert": bert,
    "machine": machine,
    "serve": serve_load,
    "serve-first": serve_first,
    "serve-machine": serve_machine,
}


def filled(document: str, figures: Figures) -> str:
    """The document with every marked place made anew. Raises ReportError for an unknown name, or none."""
    if not _MARKED.search(document):
        raise ReportError("expected '<!-- figures: NAME -->' and '<!-- end of figures -->', found neither")

    def fill(match: re.Match[str]) -> str:
        name = match[2]
        if name not in TABLES:
            raise ReportError(f"figures: expected one of {', '.join(TABLES)}, found '{name}'")
        return f"{match[1]}{TABLES[name](figures)}\n{match[4]}"

    return _MARKED.sub(fill, document)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("collect", "add", "show", "write", "check"):
        command = commands.add_parser(name)
        command.add_argument("figures", type=Path)
        if name in ("collect", "add"):
            command.add_argument("results", type=Path, nargs="+")
        elif name != "show":
            command.add_argument("document", type=Path)
    args = parser.parse_args(arguments)
    try:
        if args.command == "collect":
            args.figures.write_text(json.dumps(collect(args.results), indent=1) + "\n", encoding="utf-8")
            return 0
        figures = json.loads(args.figures.read_text(encoding="utf-8"))
        if args.command == "add":
            figures |= collect(args.results)
            args.figures.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            return 0
        if args.command == "show":
            for name, made in TABLES.items():
                print(f"{name}:\n\n{made(figures)}\n")
            return 0
        now = args.document.read_text(encoding="utf-8")
        wanted = filled(now, figures)
        if args.command == "write":
            args.document.write_text(wanted, encoding="utf-8")
        elif now != wanted:
            print(f"{args.document} is not what {args.figures} says: run 'write'", file=sys.stderr)
            return 1
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
