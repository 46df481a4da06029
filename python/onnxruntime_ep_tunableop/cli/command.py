"""What a subcommand is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


class UsageError(Exception):
    """The command line is wrong; the message says what was expected."""


@dataclass(frozen=True)
class Command:
    """One subcommand. `run` returns the exit code, or raises."""

    name: str
    help: str  #: a line, in lower case
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
