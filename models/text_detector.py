"""PP-OCRv6's small text detector: convolutions only, not one MatMul or Gemm. Somebody else's file.

What this project does for such a model is nothing, and that is what it is for: nothing may break and nothing
may become slower.

Input: x, fp32 [batch, 3, height, width], height and width multiples of 32. Output: a map of the same size.
"""

from __future__ import annotations

from pathlib import Path

from .fetch import RAPIDOCR, fetch


def path() -> Path:
    """The model file; downloads it the first time (27 MB). Raises models.fetch.FetchError."""
    return fetch(RAPIDOCR) / "rapidocr" / "models" / "PP-OCRv6_det_small.onnx"
