"""A session of one small product: what can be tried on any machine, in no time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort

from .. import _onnx
from ..session import InferenceSession

M, K, N = 8, 64, 64
_RANDOM = np.random.default_rng(0)
A = _RANDOM.uniform(-1, 1, (M, K)).astype(np.float32)
B = _RANDOM.uniform(-1, 1, (K, N)).astype(np.float32)
MODEL = _onnx.model(
    [_onnx.Node("MatMul", ["A", "B"], "Y")],
    {"A": (_onnx.FLOAT, [M, K])},
    ("Y", _onnx.FLOAT, [M, N]),
    {"B": B},
)


def settings() -> ort.SessionOptions:
    """Session options that keep onnxruntime from printing: what goes wrong is in the report."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def session(**options: Any) -> InferenceSession:
    """With options as a user gives them. Measures nothing unless told to."""
    return InferenceSession(MODEL, settings(), **({"tuning": "off"} | options))


def error(made: ort.InferenceSession) -> float:
    """Runs it; the largest difference from what is right."""
    (got,) = made.run(None, {"A": A})
    return float(np.abs(got - A.astype(np.float64) @ B).max())
