"""One side of a comparison: a session that is run and timed, in this process or in one of its own.

Stands alone, for it is copied to where another Python finds it: it imports the standard library, NumPy and
onnxruntime, and of the package around it nothing unless the side is ours. It runs on Python 3.8 and
onnxruntime 1.17 and whatever is newer.
"""

from __future__ import annotations

from .failure import WorkerError
from .runner import Runner

__all__ = ["Runner", "WorkerError"]
