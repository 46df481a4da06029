"""The command `tunableop`. A subcommand is one file here and one line in COMMANDS."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from .. import _core
from ..errors import OptionError
from . import bench, cache, doctor, selftest, serve, tune
from .command import Command, UsageError
from .ending import Ended, tidy

COMMANDS: tuple[Command, ...] = (
    bench.COMMAND,
    doctor.COMMAND,
    tune.COMMAND,
    selftest.COMMAND,
    cache.COMMAND,
    serve.COMMAND,
)

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells say it


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tunableop",
        description="Measure the matrix products of ONNX models, and keep what was learned.",
        epilog="'tunableop COMMAND --help' says more of a command.",
    )
    parser.add_argument("--version", action="version", version=f"tunableop {_core.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        added = commands.add_parser(command.name, help=command.help, description=command.description)
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code: 0 done, 1 failed, 2 wrong usage."""
    parser = make_parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as end:  # argparse has said why, or printed what was asked for
        return int(end.code or 0)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    try:
        with tidy():
            return int(given.run(given))
    except Ended as end:
        print(f"tunableop {given.command}: told to end", file=sys.stderr)
        return int(end.code or FAILED)
    except (UsageError, OptionError) as error:
        print(f"tunableop {given.command}: {error}", file=sys.stderr)
        return WRONG_USAGE
    except KeyboardInterrupt:
        print(f"tunableop {given.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        print(f"tunableop {given.command}: {str(error) or type(error).__name__}", file=sys.stderr)
        return FAILED
