"""An event loop whose clock jumps to the next timer: delays are tested exactly, and take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits, and no timer is set: nothing will ever happen")
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_virtual(work: Coroutine[Any, Any, _T]) -> _T:
    """As asyncio.run, on such a loop."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.close()
