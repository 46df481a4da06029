"""How the C library keeps memory that is free again."""

from __future__ import annotations

import ctypes
import os

# malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
#: glibc's own before it adapts it. It grows to the largest block ever freed, up to 32 MiB, and from then on bodies
#: and answers lie in heaps, of which each thread has one, and leave holes that the next sizes do not fit into.
_LARGE = 128 << 10


def keep_little() -> None:
    """Bodies and answers get memory of their own, which goes back to the system with them.

    For a process that serves and is ours alone. Does nothing where the C library is not glibc, or where the
    environment tells it what to do (`MALLOC_*`, `GLIBC_TUNABLES`).
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE)
