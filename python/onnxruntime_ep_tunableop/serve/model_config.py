"""A model's configuration as Triton's clients read it: what the metadata say, in Triton's words."""

from __future__ import annotations

from typing import Any

from .protocol import ModelMetadata, TensorMetadata

_OWN_WORDS = {"BYTES": "TYPE_STRING"}


def data_type(datatype: str) -> str:
    """TYPE_FP32 for FP32."""
    return _OWN_WORDS.get(datatype, f"TYPE_{datatype}")


def model_config(model: ModelMetadata) -> dict[str, Any]:
    """As of max_batch_size 0: shapes are whole; a batch is a first dimension of -1."""

    def tensor(of: TensorMetadata) -> dict[str, Any]:
        return {"name": of.name, "data_type": data_type(of.datatype), "dims": list(of.shape)}

    return {
        "name": model.name,
        "platform": model.platform,
        "backend": "onnxruntime",
        "max_batch_size": 0,
        "input": [tensor(of) for of in model.inputs],
        "output": [tensor(of) for of in model.outputs],
    }
