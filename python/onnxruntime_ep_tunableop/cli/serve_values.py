"""Values of the options of `tunableop serve`: from text, or ArgumentTypeError."""

from __future__ import annotations

import argparse


def port(text: str) -> int | None:
    """None: no port."""
    if text == "off":
        return None
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, or off, found '{text}'")
    return int(text)


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found '{text}'")
    return value


def count(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 up, found '{text}'")
    return int(text)


def versions(text: str) -> str | list[int]:
    """As `ModelSettings.versions` has them."""
    if text in ("latest", "all"):
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected latest, all, or numbers, found '{text}'") from None
