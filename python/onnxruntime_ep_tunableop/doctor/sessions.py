"""The questions that need a working library and onnxruntime: machine, clocks, options, cache, model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnxruntime as ort

from .. import _core, _devices
from . import cache, clocks, environment, machine, model, options, processor, runtime, selftest, vendors
from .asked import Asked
from .check import Report, asks
from .vendors import Vendor


def examine(
    asked: Asked, report: Report, progress: Callable[[str, int, int], None], deadly: Sequence[Vendor] = ()
) -> None:
    """All of them, into the report. `deadly`: whose libraries have been kept away from this process."""
    from .examine import skip

    parts = ["machine", "clocks"]
    parts += [part for part in ("cache", "model", "selftest") if getattr(asked, part)]

    def begin(part: str) -> None:
        progress(part, 1 + parts.index(part), 1 + len(parts))

    begin("machine")
    report.add(_facts(report))
    chosen, why = _machine(asked, report, deadly)
    if chosen is None:
        report.add(environment.second_tuner())
        skip(asked, report, why, "clocks", "options", "cache", "model", "selftest")
        return
    report.add(environment.second_tuner(amd=chosen.backend == vendors.AMD.backend))
    if not report.add(environment.values()):
        why = "no session can be made with these variables"
        skip(asked, report, why, "clocks", "options", "cache", "model", "selftest")
        return
    first = _devices.listed()[0]  # which the name alone means, whatever was asked for
    if not first.is_card or machine.usable(first):
        report.add(runtime.by_name())
    begin("clocks")
    report.add(clocks.readable(chosen.id))
    report.add(clocks.governor(asked.root))
    report.add(clocks.stable(chosen.id, asked.root))
    if not report.add(options.given(asked.options, asked.device)):
        skip(asked, report, "no session can be made with these options", "cache", "model")
    else:
        useful = True
        if asked.cache is not None:
            begin("cache")
            useful = _cache(asked, report)
        if asked.model is not None:
            begin("model")
            _model(asked, report, useful)
    if asked.selftest:
        begin("selftest")
        check, report.facts["selftest"] = selftest.run(asked.device, quick=asked.quick)
        report.add(check)


@asks("machine.list", "can devices and libraries be listed?")
def _facts(report: Report) -> None:
    """For JSON; a check only when it fails."""
    devices = _devices.devices()
    report.facts["versions"] = {
        "onnxruntime-ep-tunableop": _core.__version__,
        "onnxruntime": ort.__version__,
        **report.facts["versions"],
    }
    report.facts["devices"] = [vars(device) for device in devices]
    report.facts["libraries"] = [dict(line) for line in (*_core.gpu_libraries(), *_core.libraries())]


def _machine(asked: Asked, report: Report, deadly: Sequence[Vendor]) -> tuple[_devices.Listed | None, str]:
    """The device that was asked for; None, and why it cannot be used."""
    report.add(processor.processor())
    report.add(processor.threads(asked.root))
    usable = {}
    for vendor, cards in ((vendors.NVIDIA, machine.nvidia), (vendors.AMD, machine.amd)):
        if vendor not in deadly:
            usable[vendor.backend] = report.add(cards(asked.root, asked.device))
        elif asked.device.startswith(vendor.backend):
            return None, f"the libraries of {vendor.name} end the process"
    if not report.add(machine.device(asked.device, asked.root)):
        return None, "there is no such device"
    chosen = _devices.choose(asked.device)
    report.facts["default"] = chosen.id
    if not usable.get(chosen.backend, True):
        return None, f"no library can run on {chosen.id}"
    report.add(machine.stock(chosen))
    report.add(machine.kernels(chosen))
    return chosen, ""


def _cache(asked: Asked, report: Report) -> bool:
    """False: nothing in it can be used here, for a reason that was told."""
    assert asked.cache is not None
    loaded: list[cache.Loaded] = []
    tuning = asked.options.get("tuning", "online")
    right = report.add(cache.file(asked.cache, asked.device, loaded.append, tuning))
    if loaded:
        right &= report.add(cache.machine(asked.cache, loaded[0]))
        report.facts["cache"] = vars(loaded[0])
    if asked.cache.absolute().parent.is_dir():
        report.add(cache.writable(asked.cache, tuning))
        report.add(cache.leftovers(asked.cache))
    return right and bool(loaded)


def _model(asked: Asked, report: Report, useful: bool) -> None:
    patient = model.Patient(asked)
    kept: list[model.Seen] = []
    try:
        if not report.add(model.made(patient, kept)):
            return
        seen = kept[0]
        report.add(model.nodes(seen, asked))
        report.add(model.fusions(seen, asked))
        report.add(model.others(seen))
        report.add(model.run(seen, asked))
        if asked.cache is not None and useful and seen.stats is not None:
            tuned = [shape for shape in seen.shapes if shape.tuned]
            missing = [shape.problem for shape in seen.shapes if not shape.tuned]
            sizes = model.template(seen.inputs) if model.guessed(seen.inputs, asked) else ""
            report.add(cache.hit(asked.cache, len(tuned), missing, asked.words(), sizes))
        report.facts["model"] = seen.document()
    finally:
        kept.clear()
        patient.close()
