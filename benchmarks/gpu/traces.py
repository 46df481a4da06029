"""What ran on a card during a call, by torch's profiler, and which family of work each kernel belongs to.

Nothing of torch is used but its profiler, which reads the times of a card that the vendor's tracing library
(CUPTI, roctracer) gives: of everything that the process runs there, also inside a captured graph.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRODUCTS, ATTENTION, NORMS = "products", "attention", "norms"
MOVES, ACTIVATIONS, REST = "transpositions and other moves", "activations", "rest"
COPIES = "copies and fills by the driver"
FAMILIES = (PRODUCTS, ATTENTION, MOVES, NORMS, ACTIVATIONS, REST, COPIES)

#: In this order, looked for in a kernel's name without its template's and function's arguments: what fused
#: attention is made of would pass for a product, and a product with an epilogue for an activation.
_NAMES = (
    (ATTENTION, r"fmha|flash|attention|sdpa|softmax|^kv_"),
    (
        PRODUCTS,
        r"gemm|gemv|nvjet|xmma|cutlass|cublas|splitk(?!ernel)|wgmma|^cijk_|tensile|dot_kernel"
        r"|convol|fprop|winograd|scudnn|im2col",
    ),
    (NORMS, r"norm"),
    (MOVES, r"transpose|permute|nchw|nhwc|concat|slice|expand|split|tilememcpy|padkernel|^copy"),
    (ACTIVATIONS, r"gelu|silu|swish|relu|^(bias|unary)_(tanh|sigmoid|erf|elu|softplus|hard_)"),
)
#: ONNX Runtime's elementwise kernels tell the operator in an argument of the template.
_OPERATORS = re.compile(r"\bop_(\w*gelu|erf|tanh|sigmoid|\w*relu|silu|swish|elu|softplus|hardsigmoid)\b")


def family(name: str) -> str:
    """The family of a kernel, ours or a library's, by its (demangled) name."""
    whole = name.lower()
    bare = function_of(name).lower()
    for found, pattern in _NAMES:
        if re.search(pattern, bare):
            return found
    return ACTIVATIONS if _OPERATORS.search(whole) else REST


def family_of(event: str) -> str:
    """The family of what a trace names: a kernel, or what the driver does itself."""
    return COPIES if re.match(r"Mem(cpy|set)\b", event) else family(event)


def function_of(name: str) -> str:
    """A kernel's name without its return type, arguments and template arguments."""
    bare = re.sub(r"\((anonymous namespace|anonymous)\)", "anonymous", name)
    bare = re.sub(r"^void\s+", "", bare.strip())
    return re.split(r"[<(]", bare, maxsplit=1)[0].strip() or name


@dataclass(frozen=True)
class Work:
    """What one kernel, or all of a family, took in one run."""

    microseconds: float
    count: float

    def __add__(self, other: Work) -> Work:
        """Both."""
        return Work(self.microseconds + other.microseconds, self.count + other.count)

    def __str__(self) -> str:
        """For example "393.0 (108)"; "-" where nothing ran."""
        return f"{self.microseconds:.1f} ({self.count:.4g})" if self.count else "-"


NOTHING = Work(0.0, 0.0)


def by_kernel(trace: Mapping[str, Any], runs: int) -> dict[str, Work]:
    """Of a trace in Chrome's format over `runs` equal runs: each kernel's time and number in one of them.

    Copies and fills that the driver does itself count as kernels of their names ("Memcpy DtoD ...").
    """
    sums: dict[str, Work] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            name = str(event["name"])
            sums[name] = sums.get(name, NOTHING) + Work(float(event["dur"]), 1)
    ordered = sorted(sums.items(), key=lambda one: -one[1].microseconds)
    return {name: Work(work.microseconds / runs, work.count / runs) for name, work in ordered}


def by_family(kernels: Mapping[str, Work]) -> dict[str, Work]:
    """Every family's time and number, in the order of FAMILIES, also of those that nothing ran of."""
    sums = dict.fromkeys(FAMILIES, NOTHING)
    for name, work in kernels.items():
        sums[family_of(name)] += work
    return sums


def missing() -> str:
    """Why nothing can be profiled; "": it can."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed, whose profiler reads the times of kernels"
    import torch

    if not torch.cuda.is_available():
        return "this build of torch finds no card, whose profiler reads the times of kernels"
    return ""


def record(call: Callable[[], object], runs: int) -> dict[str, Work]:
    """What one of `runs` calls runs on the card, slowest kernel first.

    Kernels of graphs that were captured before the tracing library was started may be missing: see `start`.
    """
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory(prefix="gpu-trace-") as folder:
        path = Path(folder) / "trace.json"
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            for _ in range(runs):
                call()
        recorded.export_chrome_trace(str(path))
        return by_kernel(json.loads(path.read_text(encoding="utf-8")), runs)


def start() -> None:
    """Starts the tracing library, and keeps it: graphs that are captured while it is off are not traced."""
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
    import torch

    record(lambda: torch.zeros(1, device="cuda").add_(1).item(), 1)
