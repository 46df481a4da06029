"""The questions that need a working library and onnxruntime: machine, options, sessions."""

from __future__ import annotations

from collections.abc import Callable

import onnxruntime as ort

from .. import _core, _devices
from . import environment, machine, options, processor, runtime
from .asked import Asked
from .check import Report


def examine(asked: Asked, report: Report, progress: Callable[[str, int, int], None]) -> None:
    """All of them, into the report."""
    from .examine import skip

    _facts(report)
    progress("machine", 1, 2)
    report.add(processor.processor())
    report.add(processor.threads(asked.root))
    report.add(machine.nvidia(asked.root, asked.device))
    report.add(machine.amd(asked.root, asked.device))
    if not report.add(machine.device(asked.device)):
        report.add(environment.second_tuner())
        skip(asked, report, "there is no such device", "clocks", "options", "model", "cache", "selftest")
        return
    chosen = _devices.choose(asked.device)
    report.facts["default"] = chosen.id
    report.add(machine.stock(chosen))
    report.add(environment.second_tuner(amd=chosen.backend == machine.AMD.backend))
    if not report.add(environment.values()):
        why = "no session can be made with these variables"
        skip(asked, report, why, "clocks", "options", "model", "cache", "selftest")
        return
    report.add(runtime.by_name())
    if not report.add(options.given(asked.options, asked.device)):
        skip(asked, report, "no session can be made with these options", "model", "cache")
        return


def _facts(report: Report) -> None:
    devices = _devices.devices()
    report.facts["versions"] = {
        "onnxruntime-ep-tunableop": _core.__version__,
        "onnxruntime": ort.__version__,
        **report.facts["versions"],
    }
    report.facts["devices"] = [vars(device) for device in devices]
    report.facts["libraries"] = [dict(line) for line in (*_core.gpu_libraries(), *_core.libraries())]
