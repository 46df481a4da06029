"""What stands in the way of a side, in words."""

from __future__ import annotations

LONGEST = 800  # characters of a message


class WorkerError(Exception):
    """What a side cannot do, in words. `kind` is a word for what stands in the way."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def one_line(error: object) -> str:
    """A message in one line, without the middle of a very long one."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
