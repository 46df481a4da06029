"""Operators that hold matrix products under another name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

QUANTISED = "quantised"
FUSED = "fused"
OTHER = "another form"

_QUANTISED = (
    *("MatMulNBits", "MatMulBnb4", "MatMulInteger", "MatMulInteger16", "MatMulIntegerToFloat"),
    *("QLinearMatMul", "QGemm", "DynamicQuantizeMatMul", "GemmFloat8", "MatMulFpQ4"),
    *("QAttention", "QOrderedMatMul", "QOrderedAttention", "QMoE", "DynamicQuantizeLSTM"),
)
_FUSED = (
    *("FusedMatMul", "FusedGemm", "FusedMatMulActivation", "TransposeMatMul", "GemmFastGelu"),
    *("Attention", "MultiHeadAttention", "GroupQueryAttention", "PackedAttention"),
    *("PackedMultiHeadAttention", "DecoderAttention", "DecoderMaskedSelfAttention"),
    *("DecoderMaskedMultiHeadAttention", "SparseAttention", "LongformerAttention", "MoE"),
)
_OTHER = ("Einsum", "LSTM", "GRU", "RNN")

_HIDING = dict.fromkeys(_QUANTISED, QUANTISED)
_HIDING |= dict.fromkeys(_FUSED, FUSED)
_HIDING |= dict.fromkeys(_OTHER, OTHER)


def is_ours(op: str) -> bool:
    """A product that the provider may claim."""
    return op in ("MatMul", "Gemm")


def what_hides(op: str) -> str | None:
    """How an operator hides products: QUANTISED, FUSED or OTHER; None: it does not."""
    return _HIDING.get(op)


def hidden(operators: Iterable[str]) -> dict[str, int]:
    """Of these, those that hide products, with their number."""
    return dict(Counter(op for op in operators if what_hides(op)))


def words(counts: Mapping[str, int]) -> str:
    """ "2 MatMulNBits (quantised), 1 Attention (fused)"."""
    return ", ".join(f"{count} {op} ({what_hides(op)})" for op, count in counts.items())
