"""`tunableop cache plot`."""

from __future__ import annotations

from typing import Any


def add_to(commands: Any) -> None:
    """Adds the command."""
    commands.metavar = "WHAT"
