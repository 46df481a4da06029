"""`tunableop doctor`: what there is on this machine, and why something is not."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping
from typing import Any

import onnxruntime as ort

from .. import _core, _devices
from .._library import get_library_path
from .command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _run(given: argparse.Namespace) -> int:
    found = findings()
    print(json.dumps(found, indent=1) if given.json else text(found))
    return 0


def findings() -> dict[str, Any]:
    """All of it, ready for JSON. Registers the provider."""
    devices = _devices.devices()
    cpu = _core.cpu_fingerprint()
    return {
        "versions": {
            "onnxruntime-ep-tunableop": _core.__version__,
            "onnxruntime": ort.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processor": f"{cpu['model']}, {cpu['cores']} processors",
            "library": get_library_path(),
        },
        "providers": ort.get_available_providers(),
        "devices": [vars(device) for device in devices],
        "libraries": [dict(line) for line in (*_core.gpu_libraries(), *_core.libraries())],
        "default": _devices.choose("auto").id,
    }


def text(found: Mapping[str, Any]) -> str:
    """The report for a person."""
    lines = [f"{name}: {value}" for name, value in found["versions"].items()]
    lines.append(f"providers of this onnxruntime: {', '.join(found['providers'])}")
    lines.append("devices:")
    for device in found["devices"]:
        state = ", ".join(f"{name} {identity}" for name, identity in device["libraries"].items())
        chosen = "  <- device='auto'" if device["id"] == found["default"] else ""
        lines.append(f"  {device['id']}: {device['name']}, {device['arch']}{chosen}")
        versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items())
        lines += [f"    {versions}"] if versions else []
        lines.append(f"    {state}" if state else "    cannot be used: no library can run on it")
    lines.append("libraries:")
    for line in found["libraries"]:
        if line["available"]:
            where = f" ({line['path']})" if line["path"] else ""
            lines.append(f"  {line['library']}: {line['identity']}{where}")
        else:
            lines.append(f"  {line['library']}: not used: {line['reason']}")
    return "\n".join(lines)


COMMAND = Command(
    name="doctor",
    help="say which devices and libraries there are, and why others are not",
    description="Prints the versions, the devices that sessions can run on, and each library that the "
    "provider knows: its version and file, or why it is not used. Measures nothing; `tunableop selftest` "
    "tells whether its answers are right.",
    add_arguments=_add_arguments,
    run=_run,
)
