"""Memory that is free again goes back to the system."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable

#: Seconds between looks.
_EVERY = 10.0
#: Touched since the last time: less is not worth a walk over the heaps. What is given back costs some
#: microseconds a page when it is used again, which is a small share of the time at any load.
_WORTHWHILE = 16 << 20


def keep_little(every: float = _EVERY) -> None:
    """A thread gives back what glibc keeps in its heaps, now and then.

    Bodies and answers of many sizes lie there, in one heap for each thread, and leave holes that the next
    sizes do not fit into: a server would grow for hours. (To give each block memory of its own, with a fixed
    M_MMAP_THRESHOLD, halts that, too, but then each request pays for fresh pages: tensors of 16 MB took 2.8
    times as long.)

    For a process that serves and is ours alone. Does nothing where the C library is not glibc, or where the
    environment tells it what to do (`MALLOC_*`, `GLIBC_TUNABLES`).
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
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
