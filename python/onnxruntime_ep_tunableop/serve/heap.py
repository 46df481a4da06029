"""Memory that is free again goes back to the system."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable

_M_ARENA_MAX = -8  # malloc.h
#: Heaps. By itself each of a server's threads gets one (up to eight for each core), and each keeps what its
#: largest requests took.
_HEAPS = 2
#: Seconds between looks.
_EVERY = 10.0
#: Touched since the last time: less is not worth a walk over the heaps. What is given back costs some
#: microseconds a page when it is used again, which is a small share of the time at any load. (With 16 MiB a
#: server with ten requests a second grew as if nobody trimmed.)
_WORTHWHILE = 1 << 20


def keep_little(every: float = _EVERY) -> None:
    """Few heaps, and a thread that gives back what glibc keeps in them, now and then.

    Bodies and answers of many sizes lie there, and leave holes that the next sizes do not fit into: a server
    would grow for hours. (To give each block memory of its own, with a fixed
    M_MMAP_THRESHOLD, halts that, too, but then each request pays for fresh pages: tensors of 16 MB took 2.8
    times as long.)

    For a process that serves and is ours alone. Does nothing where the C library is not glibc, or where the
    environment tells it what to do (`MALLOC_*`, `GLIBC_TUNABLES`).
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_ARENA_MAX, _HEAPS)
        threading.Thread(target=_trim, args=(library.malloc_trim, every), name="heap", daemon=True).start()


def _trim(malloc_trim: Callable[[int], int], every: float) -> None:
    pages = _WORTHWHILE // resource.getpagesize()
    before = 0
    while True:
        time.sleep(every)
        touched = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if touched - before >= pages:
            malloc_trim(0)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
