"""Documents of tuning results, made by hand: what a test says of them is all that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

HERE: Fields = {"device": "cpu", "model": "Test CPU", "features": "avx avx2", "cores": 4}
THERE: Fields = {"device": "cpu", "model": "Other CPU", "features": "avx", "cores": 64}
NOW = 1_800_000_000  # seconds since 1970
DAY = 86_400


def problem(m: int = 8, n: int = 64, k: int = 32, **more: Any) -> Fields:
    return {
        "m": m,
        "n": n,
        "k": k,
        "batch": 1,
        "lda": k,
        "ldb": n,
        "ldc": n,
        "stride_a": 0,
        "stride_b": 0,
        "stride_c": 0,
        "a_type": "fp32",
        "b_type": "fp32",
        "c_type": "fp32",
        "trans_a": False,
        "trans_b": False,
        "b_layout": "plain",
        "b_constant": False,
        "alpha": "1",
        "beta": "0",
        "epilogue": "none",
        "precision": "exact",
        "align_a": 4,
        "align_b": 4,
        "align_c": 4,
        "threads": 1,
        **more,
    }


def entry(
    m: int = 8,
    n: int = 64,
    k: int = 32,
    kernel: str = "fast",
    ms: float = 1.0,
    default_ms: float = 2.0,
    measured_at: int = 1_700_000_000,
    library: str = "native",
    **more: Any,
) -> Fields:
    """A valid entry; `more` overrides and adds fields."""
    return {
        **problem(m, n, k),
        "winner": {"library": library, "kernel": kernel, "opaque_id": -1, "workspace_bytes": 0},
        "library_identity": "1.0",
        "winner_ms": ms,
        "default_ms": default_ms,
        "default_kernel": "native:plain",
        "error": 0.125,
        "tried": 3,
        "budget_ms": 0,
        "measured_at": measured_at,
        **more,
    }


def denied(kernel: str = "killer", until: int = 0, reason: str = "wrong answer") -> Fields:
    return {
        "library": "native",
        "kernel": kernel,
        "library_identity": "1.0",
        "reason": reason,
        "deaths": 1,
        "denied_at": 1_700_000_000,
        "until": until,
    }


def node(name: str = "/up", stock: bool = False, measured_at: int = 1_700_000_000) -> Fields:
    return {
        "op": "MatMul",
        "name": name,
        "k": 32,
        "n": 64,
        "uses": 5,
        "ours_ms": 1.0,
        "stock_ms": 2.0,
        "stock": stock,
        "measured_at": measured_at,
    }


def form(shape: str = "M=8,N=64,K=32,fp16", chosen: str = "two kernels", **fields: Any) -> Fields:
    return {
        "group": "MatMul+Add",
        "shape": shape,
        "form": chosen,
        "usual_form": "epilogue",
        "library_identity": "1.0 native 1.0",
        "form_ms": 0.5,
        "usual_ms": 0.75,
        "cold": False,
        "measured_at": 1_700_000_000,
        **fields,
    }


def section(*entries: Fields, machine: Fields = HERE, **parts: Any) -> Fields:
    return {"fingerprint": machine, "entries": list(entries), **parts}


def document(*sections: Fields, **more: Any) -> Fields:
    return {"schema": 2, "machines": list(sections), **more}


def write(path: Path, *sections: Fields) -> Path:
    path.write_text(json.dumps(document(*sections)))
    return path


def read(path: Path) -> Fields:
    content: Fields = json.loads(path.read_text())
    return content


def kernels(path: Path, machine: int = 0) -> list[str]:
    """Of a machine's entries, in their order."""
    return [one["winner"]["kernel"] for one in read(path)["machines"][machine]["entries"]]
