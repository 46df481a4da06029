"""A small model, what to feed it, and sides that run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime_ep_tunableop.bench.sides import Feeds, SideSpec

from support.graphs import matmul_model
from support.sessions import random

CPU = (("CPUExecutionProvider", {}),)
THIS = Path(sys.executable)
#: In this process, and in another one of the same Python.
everywhere = pytest.mark.parametrize("python", [None, THIS], ids=["here", "other"])


def product(folder: Path, m: int = 4, n: int = 32, k: int = 16) -> tuple[Path, Feeds, Any]:
    """A model file Y = A @ B with B constant, feeds, and the exact answer."""
    a, b = random((m, k), 1), random((k, n), 2)
    path = folder / f"product-{m}x{n}x{k}.onnx"
    onnx.save(matmul_model(["m", k], None, constants={"B": b}), path)
    return path, {"A": a}, a.astype(np.float64) @ b.astype(np.float64)


def stock(model: Path, **more: Any) -> SideSpec:
    return SideSpec("stock", "stock", model, **{"providers": CPU, "threads": 1, **more})


def ours(model: Path, **options: Any) -> SideSpec:
    return SideSpec("tuned", "tunableop", model, options=options, threads=1)


def exists(pid: int) -> bool:
    """Whether there is such a process, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
