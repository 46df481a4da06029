"""Open files: how many connections leave enough of them for everything else."""

from __future__ import annotations

from .front import FrontSettings

#: For models, caches, libraries, logs.
_OTHERS = 256

#: Where the system sets no limit.
_MOST = 65536


def raise_limit() -> int:
    """Takes as many open files as this process may have, and says how many."""
    try:
        import resource
    except ImportError:  # Windows: sockets are no files
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):  # macOS has a lower limit of its own
            most = soft
    return min(most, _MOST)


def connection_limit(settings: FrontSettings) -> int:
    """Of each front end. A connection that cannot be accepted would wait, and a cache not be written."""
    if settings.max_connections is not None:
        return settings.max_connections
    limit = raise_limit()
    return max((limit - min(_OTHERS, limit // 2)) // 2, 1)
