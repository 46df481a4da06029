"""`tunableop cache`: look at files of tuning results, and look after them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..cache_tools import diff, document, here, merge, prune, show, validate
from ..cache_tools.text import printable
from . import cache_plot
from .command import Command, UsageError

DONE, FAILED, TROUBLE = 0, 1, 2


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="WHAT", dest="what", required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], int], line: str, more: str
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}. {more}")
        added.set_defaults(run_cache=run)
        return added

    one = add("show", _show, "say what a file holds", "Times are medians; the most worth comes first.")
    one.add_argument("file", metavar="FILE")
    one.add_argument("--json", action="store_true", help="print all of it as JSON")
    one.add_argument("--csv", metavar="OUT", help="write the entries to OUT; - is the standard output")
    one.add_argument(
        "--all", action="store_true", help=f"all lines, not the first {show.MOST_ROWS} of a part"
    )

    one = add(
        "merge",
        _merge,
        "merge files into one",
        "By the rules of saves, under the lock of OUT, which is created if it is missing. Says what came in, "
        "what was replaced and what was refused. When one IN cannot be used, nothing is merged.",
    )
    one.add_argument("out", metavar="OUT")
    one.add_argument("sources", metavar="IN", nargs="+")
    one.add_argument("--quiet", action="store_true", help="print nothing but errors")

    one = add(
        "diff",
        _diff,
        "say how two files differ",
        "In entries, kernels, times, denials and verdicts on nodes; uses are weights, and not compared. "
        "Exit code 0: they do not, 1: they do, 2: a file cannot be read.",
    )
    one.add_argument("first", metavar="A")
    one.add_argument("second", metavar="B")
    one.add_argument(
        "--ratio", metavar="R", type=float, default=1.05, help="times this far apart are the same (1.05)"
    )
    one.add_argument(
        "--across", action="store_true", help="compare the first machines of both, the same or not"
    )

    one = add(
        "prune",
        _prune,
        "take out of a file what is no longer wanted",
        "What any of the criteria names goes, under the file's lock. Denials go with --denied or with their "
        "whole machine only.",
    )
    one.add_argument("file", metavar="FILE")
    one.add_argument("--older-than", metavar="AGE", help="measured longer ago: 30d, 12h, 2w")
    one.add_argument("--unused", action="store_true", help="entries without a known use")
    one.add_argument("--other-machines", action="store_true", help="sections that no device here has")
    one.add_argument(
        "--other-libraries",
        action="store_true",
        help="entries of this machine of libraries that are not loaded, or in another version",
    )
    one.add_argument("--keep", metavar="N", type=int, help="of each machine all entries but the N most used")
    one.add_argument("--denied", action="store_true", help="denials: their kernels may be tried again")
    one.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")

    one = add(
        "validate",
        _validate,
        "judge files",
        "Prints every line that the loader would say, each section judged as its own machine would. "
        "Exit code 1: there is one.",
    )
    one.add_argument("files", metavar="FILE", nargs="+")
    one.add_argument("--schema", action="store_true", help="against the JSON schema, too (needs jsonschema)")
    one.add_argument("--here", action="store_true", help="say what this machine would use")

    cache_plot.add_to(commands)


def _run(given: argparse.Namespace) -> int:
    run: Callable[[argparse.Namespace], int] = given.run_cache
    return run(given)


def _show(given: argparse.Namespace) -> int:
    if given.json and given.csv == "-":
        raise UsageError("show: expected --json or --csv - on the standard output, found both")
    found = document.read(given.file)
    if given.csv == "-":
        show.write_csv(found, sys.stdout)
        return DONE
    if given.csv is not None:
        with Path(given.csv).open("w", newline="", encoding="utf-8") as file:
            show.write_csv(found, file)
    if given.json:
        print(json.dumps(show.as_json(found, time.time()), indent=1))
    else:
        print(show.report(found, time.time(), given.all))
    return DONE


def _merge(given: argparse.Namespace) -> int:
    try:
        merged = merge.merge(Path(given.out), [Path(source) for source in given.sources])
    except merge.SourceError as error:
        print(f"{error}\nnothing was merged", file=sys.stderr)
        return FAILED
    if not given.quiet:
        print(merge.report(merged, Path(given.out)))
    return DONE


def _diff(given: argparse.Namespace) -> int:
    if not given.ratio >= 1:
        raise UsageError(f"diff: --ratio: expected a number from 1 up, found {given.ratio:g}")
    try:
        first, second = document.read(given.first), document.read(given.second)
    except (OSError, document.UnusableError) as error:
        print(error, file=sys.stderr)
        return TROUBLE
    for line in (*first.problems, *second.problems):
        print(f"refused: {printable(line)}", file=sys.stderr)
    difference = diff.compare(first, second, given.ratio, given.across)
    print(diff.report(difference))
    return FAILED if difference.differs else DONE


def _prune(given: argparse.Namespace) -> int:
    try:
        older_than = None if given.older_than is None else prune.duration(given.older_than)
    except ValueError as error:
        raise UsageError(f"prune: --older-than: {error}") from error
    if given.keep is not None and given.keep < 0:
        raise UsageError(f"prune: --keep: expected a number from 0 up, found {given.keep}")
    criteria = prune.Criteria(
        older_than=older_than,
        unused=given.unused,
        other_machines=given.other_machines,
        other_libraries=given.other_libraries,
        keep=given.keep,
        denied=given.denied,
    )
    if not criteria:
        raise UsageError(
            "prune: expected one of --older-than, --unused, --other-machines, --other-libraries, --keep, "
            "--denied, found none"
        )
    targets = here.targets() if given.other_machines or given.other_libraries else []
    pruned = prune.prune(Path(given.file), criteria, targets, time.time(), given.dry_run)
    print(prune.report(pruned, Path(given.file), given.dry_run))
    return DONE


def _validate(given: argparse.Namespace) -> int:
    wrong = False
    targets = here.targets() if given.here else []
    for name in given.files:
        path = Path(name)
        try:
            verdict = validate.check(path)
        except FileNotFoundError as error:
            print(error)
            wrong = True
            continue
        lines = list(verdict.problems)
        if given.schema:
            try:
                lines += validate.against_schema(path)
            except validate.NoSchemaError as error:
                raise RuntimeError(f"--schema: {error}") from error
        print("\n".join(map(printable, lines)) if lines else f"{name}: {verdict}")
        wrong = wrong or bool(lines)
        for usable in validate.usable_here(path, targets):
            print(printable(f"{name}: {usable}"))
    return FAILED if wrong else DONE


COMMAND = Command(
    name="cache",
    help="look at files of tuning results: show, merge, diff, prune, validate, plot",
    description="Looks at the files that save_cache, the option cache and 'tunableop tune' write, and looks "
    "after them (docs/cache-tools.md).",
    add_arguments=_add_arguments,
    run=_run,
)
