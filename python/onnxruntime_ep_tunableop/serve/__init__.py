"""A server for ONNX models that speaks the Open Inference Protocol v2: `tunableop serve` (extra `serve`).

`protocol` holds what both front ends (`rest`, `grpc_service`) and the engine agree on; `engine` runs
requests; `repository`, `model` and `batcher` are below it; `server` starts and stops it all. Rooms point
downwards: nothing below `engine` knows HTTP or gRPC.
"""

from __future__ import annotations
