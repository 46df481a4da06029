"""Threads for what blocks: runs, loads, saves."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Workers:
    """Threads of a pool of their own, and results in the event loop.

    They are daemons, other than those of `concurrent.futures`: a run that never ends must not keep the
    process from ending once its grace time is over.
    """

    def __init__(self, count: int, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._open: set[object] = set()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, function: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
    ) -> asyncio.Future[_T]:
        """Calls it in a thread, after what was submitted before. Cancelling the result only forgets it.

        After `close` each call gets a thread of its own: there is always something to be cleaned up.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_T] = loop.create_future()

        def call() -> None:
            try:
                value = function(*arguments, **named)
            except BaseException as error:
                self._open.discard(result)
                _tell(loop, _set_exception, result, error)
            else:
                self._open.discard(result)
                _tell(loop, _set_result, result, value)

        self._open.add(result)

        if self._closed:
            threading.Thread(target=call, name="late", daemon=True).start()
        else:
            self._calls.put(call)
        return result

    @property
    def busy(self) -> bool:
        """Whether something that was submitted has not come back, wanted or not."""
        return bool(self._open)

    def close(self) -> None:
        """The threads end after what was submitted."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # and with it the request's tensors, which would live until the next one


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *arguments)


def _set_result(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
