"""The self-test: every kernel of a device's libraries, and sessions of small models, against references.

Two halves. The native one calls each kernel of each library on made-up operands and compares with a
reference in fp64 (docs/tuning.md, "The check"). The other makes sessions of one MatMul or Gemm each, lets
them measure all candidates, and compares with numpy in float64.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort

from . import _control, _core, _devices, _selftest_cases
from ._devices import Device
from ._library import get_library_path, register
from ._selftest_cases import Case
from .session import InferenceSession

logger = logging.getLogger("tunableop")

#: Stand for a library: the rows of the other half, and problems for which no library has a kernel.
SESSIONS, NOBODY = "(sessions)", "(no library)"


@dataclass
class Row:
    """What became of one library with one type."""

    library: str
    kind: str
    cases: int = 0  #: problems, or models
    kernels: int = 0  #: calls that were checked
    error: float = 0.0  #: the largest |got - exact| / tolerance of those that were right
    failures: list[str] = field(default_factory=list)
    refused: int = 0  #: kernels that said themselves that they cannot run a problem
    #: kernels found by searching that are wrong or too inexact: elections refuse them
    inexact: int = 0
    left_out: int = 0  #: kernels for which there was no time


@dataclass
class Outcome:
    """All of it. `right` when nothing failed and something ran."""

    device: Device
    machine: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)  #: kernels, with reasons, that sessions found wrong
    seconds: float = 0.0
    seed: int = 0

    @property
    def right(self) -> bool:
        """Nothing failed, and something was tested."""
        return bool(self.rows) and not any(row.failures for row in self.rows)

    def row(self, library: str, kind: str) -> Row:
        """The row of that name; a new one if need be."""
        for row in self.rows:
            if (row.library, row.kind) == (library, kind):
                return row
        self.rows.append(Row(library, kind))
        return self.rows[-1]


Progress = Callable[[str], None]


def run(
    device: str = "auto", *, quick: bool = False, seed: int = 0, seconds: float = 60.0, progress: Progress
) -> Outcome:
    """Tests one device. Starts nothing new after `seconds`, half of them for kernels; says what it left out.

    Raises:
        OptionError, NoDeviceError: as option `device`.
    """
    register()
    chosen = _devices.choose(device)
    described = next(entry for entry in _devices.devices() if entry.id == chosen.id)
    outcome = Outcome(described, _machine(), seed=seed)
    started = time.monotonic()
    _kernels(outcome, quick, started + seconds / 2, progress)
    _sessions(outcome, chosen.is_card, quick, started + seconds, progress)
    outcome.seconds = time.monotonic() - started
    return outcome


def _machine() -> dict[str, str]:
    cpu = _core.cpu_fingerprint()
    return {
        "package": _core.__version__,
        "onnxruntime": ort.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": f"{cpu['model']}, {cpu['cores']} processors",
    }


def _kernels(outcome: Outcome, quick: bool, end: float, progress: Progress) -> None:
    """The native half."""
    arguments = {"device": outcome.device.id, "quick": quick, "seed": outcome.seed}
    count = int(_ask("selftest_cases", arguments)["cases"])
    for at in range(count):
        if time.monotonic() > end:
            outcome.notes.append(f"no time for {count - at} of {count} problems of single kernels")
            return
        answer = _ask("selftest_case", {**arguments, "case": at})
        progress(f"[{at + 1}/{count}] {answer['problem']}")
        for found in answer["libraries"]:
            row = outcome.row(found["library"], answer["kind"])
            row.cases += 1
            row.kernels += int(found["kernels"])
            row.refused += int(found["refused"])
            row.inexact += int(found["inexact"])
            row.left_out += int(found["left_out"])
            row.error = max(row.error, float(found["error"]))
            row.failures += [f"{answer['problem']}: {line}" for line in found["failures"]]
        if not any(found[count] for found in answer["libraries"] for count in ("kernels", "failures")):
            row = outcome.row(NOBODY, answer["kind"])
            row.cases += 1
            if answer["asked_by_provider"]:
                row.failures.append(f"{answer['problem']}: no library has a kernel")
        if answer["stopped"]:
            outcome.notes.append(
                f"single kernels: {answer['stopped']}; {count - at - 1} problems were left out"
            )
            return


def _ask(method: str, arguments: dict[str, Any]) -> Any:
    return json.loads(_core.control(get_library_path(), method, json.dumps(arguments)))


def _sessions(outcome: Outcome, card: bool, quick: bool, end: float, progress: Progress) -> None:
    """The half with sessions."""
    cases = list(_selftest_cases.cases(card, quick, outcome.seed))
    # Mixed, so that whatever there is no time for is something of everything.
    np.random.default_rng(outcome.seed).shuffle(cases)
    for at, case in enumerate(cases):
        if time.monotonic() > end:
            outcome.notes.append(f"no time for {len(cases) - at} of {len(cases)} sessions")
            return
        progress(f"[{at + 1}/{len(cases)}] session: {case}")
        _session(outcome, case, quick)


def _session(outcome: Outcome, case: Case, quick: bool) -> None:
    row = outcome.row(SESSIONS, case.kind)
    row.cases += 1
    ready = _selftest_cases.make(case, outcome.seed)
    try:
        session = InferenceSession(
            ready.model,
            _quiet(),
            providers=["CPUExecutionProvider"],
            device=outcome.device.id,
            tuning="online",
            claim="all",
            candidates="all",
            precision=case.precision,
            max_tuning_ms=300 if quick else 500,  # most elections end long before
            warmup_iter=1,
        )
        for run in ("measuring", "tuned"):
            (got,) = session.run(None, ready.feeds)
            worst = _selftest_cases.error(got, ready)
            if not worst <= 1.0:
                row.failures.append(f"{case}: {run}: an error of {worst:.3g} tolerances, {_kernel(session)}")
            else:
                row.error = max(row.error, worst)
    except Exception as error:  # whatever it is, the other cases are still to be run
        row.failures.append(f"{case}: {error}")
        return
    row.kernels += len(_control.explain(session).shapes)
    for line in _denied(session):
        if line not in outcome.denied:  # a kernel is denied for the whole process, and said once
            outcome.denied.add(line)
            row.failures.append(f"{case}: {line}")
    if not any(node.claimed for node in _control.explain(session).nodes):
        row.failures.append(f"{case}: the provider did not take the node")


def _quiet() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def _kernel(session: ort.InferenceSession) -> str:
    return ", ".join(sorted({shape.kernel for shape in _control.explain(session).shapes}))


def _denied(session: ort.InferenceSession) -> list[str]:
    """Kernels that gave a wrong answer or failed while the session measured."""
    found = _control.get_tuning_results(session)["machines"]
    entries = [entry for section in found for entry in section.get("denied", [])]
    return [f"{entry['library']}:{entry['kernel']}: {entry['reason']}" for entry in entries]
