"""A command that is told to end (SIGTERM, SIGHUP) puts away what it made, and then ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

GRACE_SECONDS = 5.0  # for a call that does not return: the process ends without putting away
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """The process was told to end; the exit code is the one that shells know."""


def _raise(number: int, _frame: FrameType | None) -> None:
    raise Ended(128 + number)


@contextlib.contextmanager
def tidy(grace: float = GRACE_SECONDS) -> Iterator[None]:
    """Raises Ended in the main thread at a signal, so that files and processes are put away.

    Python's own handlers wait until the call of the main thread returns, which a hung kernel never does: a
    thread hears of the signal at once, and after `grace` seconds ends the process as the signal would have.
    Does nothing outside of the main thread, and to signals that somebody else handles or ignores.
    """
    mine = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread() or not mine:
        yield
        return
    heard, told = socket.socketpair()
    told.setblocking(False)
    before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(heard, mine, over, grace), daemon=True)
    watch.start()
    for number in mine:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        over.set()
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(before)
        told.close()  # ends the thread
        watch.join(1.0)
        heard.close()


def _watch(heard: socket.socket, mine: list[signal.Signals], over: threading.Event, grace: float) -> None:
    while numbers := heard.recv(16):
        if not set(numbers) & set(mine):
            continue  # Ctrl-C, a child that ended: not ours
        if not over.wait(grace):
            os._exit(128 + numbers[0])
