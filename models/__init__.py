"""Builders of the ONNX models that the demo, the tests and the benchmarks run.

Real weights come from pinned packages (`fetch`), trained or synthetic ones from a fixed seed. Every builder
returns an `onnx.ModelProto` or writes a file, and runs on any ONNX Runtime: nothing here knows the execution
provider.
"""

from __future__ import annotations
