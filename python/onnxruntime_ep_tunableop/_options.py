"""Options: names, checks, and their way into ONNX Runtime's session configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnxruntime as ort

from ._library import EP_NAME
from .errors import OptionError

PREFIX = f"ep.{EP_NAME.lower()}."
DISABLED_OPTIMIZERS = "optimization.disable_specified_optimizers"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"

#: Level-1 fusions that rewrite MatMul and Gemm before a provider is asked. ';' separates (not ',').
FUSIONS = (
    "MatMulAddFusion",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "MatmulBNFusion",
    "TransposeOptimizer",
)

#: The largest pool whose size the native side takes as an option.
MOST_THREADS = 4096

#: Every option and its default, as the native side reads it.
DEFAULTS: dict[str, Any] = {
    "tuning": "online",
    "cache": None,
    "cache_size": 2048,
    "warmup_iter": 5,
    "max_tuning_ms": 100,
    "min_gain": 0.03,
    "verify": True,
    "candidates": "default",
    "claim": "auto",
    "fusion": "auto",
    "precision": "exact",
    "device": "auto",
    "threads": 0,
    "measure_mode": 1,
    "revalidate_ms": 300_000,
    "max_tuning_bytes": 256 << 20,
    "max_session_ms": 60_000,
    "max_day_ms": 600_000,
    "background_share": 0.2,
    "background_hold_share": 0.0,
    "buckets": "off",
    "trace": None,
    "fused_groups": True,
    "enable_graph": False,
    "max_graphs": 16,
    "graph_memory": 0,
}


def check(options: dict[str, Any]) -> dict[str, str]:
    """Options as text for the native side, which checks the values. Options that are None are left out.

    Raises:
        OptionError: an unknown name, no path in `cache` or `trace`.
        TypeError: `cache` or `trace` is no path at all; the message names it.
    """
    texts: dict[str, str] = {}
    for key, value in options.items():
        if key not in DEFAULTS:
            raise OptionError(f"there is no option '{key}'; the options are: {', '.join(DEFAULTS)}")
        if value is None:
            continue
        if key in ("cache", "trace"):
            texts[key] = _file_path(key, value)
        elif isinstance(value, bool):
            texts[key] = "1" if value else "0"
        else:
            texts[key] = str(value)
    if texts.get("fusion", "auto") not in ("auto", "off", "keep"):
        raise OptionError(f"option 'fusion': expected one of auto, off, keep, found '{texts['fusion']}'")
    return texts


def _file_path(key: str, value: Any) -> str:
    """Absolute, so that the file stays the same one when the process changes its directory."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"option '{key}': expected the path of a file, found {value!r}")
    text = os.fsdecode(value)
    if not text:
        raise OptionError(f"option '{key}': expected the path of a file, found ''")
    return str(Path(text).absolute())


def config_entry(options: ort.SessionOptions, key: str) -> str:
    """A session configuration entry, '' when it is not set."""
    try:
        return str(options.get_session_config_entry(key))
    except Exception:  # onnxruntime raises a plain RuntimeError subclass for an unset key
        return ""


def keeps_fusions(options: ort.SessionOptions, texts: dict[str, str]) -> bool:
    """Whether ONNX Runtime's fusions stay on; `texts` go before what `options` hold."""
    return (texts.get("fusion") or config_entry(options, PREFIX + "fusion")) == "keep"


def fusions_to_disable(options: ort.SessionOptions) -> str:
    """The user's own list of disabled optimizers with ours added."""
    mine = list(FUSIONS)
    theirs = [name for name in config_entry(options, DISABLED_OPTIMIZERS).split(";") if name]
    return ";".join(theirs + [name for name in mine if name not in theirs])


def apply(options: ort.SessionOptions, texts: dict[str, str]) -> None:
    """Writes options into `options` as session configuration."""
    for key, value in texts.items():
        options.add_session_config_entry(PREFIX + key, value)
    if not keeps_fusions(options, texts):
        options.add_session_config_entry(DISABLED_OPTIMIZERS, fusions_to_disable(options))
    if not config_entry(options, RECORD_ASSIGNMENT):
        options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
