"""How the sides of a comparison are profiled: for how many runs, in which sessions."""

from __future__ import annotations

import onnxruntime as ort

from ..session import InferenceSession
from .sides import SideSpec

#: At least that many unless a run takes longer than a second, and more of short ones, for few are chance.
_LEAST_PROFILED, _MOST_PROFILED, _PROFILED_SECONDS = 3, 50, 1.0


def runs(slowest: float) -> int:
    """For a model whose slowest run took so many seconds."""
    if slowest > _PROFILED_SECONDS:
        return 1
    return max(_LEAST_PROFILED, min(_MOST_PROFILED, int(_PROFILED_SECONDS / max(slowest, 1e-9))))


def session(spec: SideSpec, options: ort.SessionOptions) -> ort.InferenceSession:
    """A side's session once more, with options that profile."""
    options.intra_op_num_threads = spec.threads or 0
    options.log_severity_level = 3
    # As the sessions that are timed, so that the time in products can be held against that of whole runs.
    options.inter_op_num_threads = 1
    if spec.kind == "tunableop":
        return InferenceSession(str(spec.model), options, **dict(spec.options))
    providers = [(name, dict(given)) for name, given in spec.providers]
    return ort.InferenceSession(str(spec.model), options, providers=providers)
