"""What a figure depends on: the machine, its load, the versions."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime as ort


def facts() -> dict[str, str]:
    """Processor, cores this process may use, versions, and load and time when it was asked."""
    return {
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "onnxruntime": ort.__version__,
        "onnxruntime-ep-tunableop": version("onnxruntime-ep-tunableop"),
        "numpy": np.__version__,
        "load": f"{os.getloadavg()[0]:.2f}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def cores() -> int:
    """Cores that this process may use: two threads of one core count once, as ONNX Runtime counts them."""
    mine = os.sched_getaffinity(0)
    seen = set()
    for processor in mine:
        path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        try:
            seen.add(path.read_text(encoding="ascii").strip())
        except OSError:
            return len(mine)
    return len(seen)


def version(distribution: str) -> str:
    """Of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
