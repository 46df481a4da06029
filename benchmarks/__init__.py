"""Measurements against stock ONNX Runtime: `python -m benchmarks.shapes`, `.end_to_end`, `.overhead`."""

from __future__ import annotations
