"""What stands in the way of a side, in words."""

from __future__ import annotations


class WorkerError(Exception):
    """What a side cannot do, in words. `kind` is a word for what stands in the way."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def last_line(text: object) -> str:
    """The last line that says something; ONNX Runtime puts the reason there."""
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return lines[-1] if lines else type(text).__name__
