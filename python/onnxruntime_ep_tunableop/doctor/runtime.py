"""Which onnxruntime is this, can it load plugin providers, and are several installed over each other?"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .check import REPORT, Finding, Verdict, asks
from .library import DISTRIBUTION

MIN_ORT = (1, 24)
BY_NAME_ORT = (1, 25)
MIN_NUMPY = (1, 24)

#: Distributions that bring the folder `onnxruntime`, with what each is installed for; the most special first.
BUILDS = {
    "onnxruntime-gpu": "CUDAExecutionProvider",
    "ort-nightly-gpu": "CUDAExecutionProvider",
    "onnxruntime-rocm": "ROCMExecutionProvider",
    "onnxruntime-migraphx": "MIGraphXExecutionProvider",
    "onnxruntime-training": "",
    "onnxruntime-openvino": "OpenVINOExecutionProvider",
    "onnxruntime-qnn": "QNNExecutionProvider",
    "onnxruntime-cann": "CANNExecutionProvider",
    "onnxruntime-directml": "DmlExecutionProvider",
    "onnxruntime-azure": "AzureExecutionProvider",
    "ort-nightly": "",
    "onnxruntime": "",
}
#: Those whose newest release is older than what is needed here.
NEVER_NEW_ENOUGH = ("onnxruntime-rocm",)


@dataclass(frozen=True)
class Build:
    """One installed distribution of onnxruntime."""

    name: str
    version: str
    folder: Path  #: where it has put `onnxruntime`

    def __str__(self) -> str:
        """As pip names it."""
        return f"{self.name}=={self.version}"


def builds(distributions: Iterable[Any] | None = None) -> list[Build]:
    """The installed distributions that bring the folder `onnxruntime`, the most special first."""
    seen: dict[str, Build] = {}
    for distribution in importlib.metadata.distributions() if distributions is None else distributions:
        name = re.sub(r"[-_.]+", "-", str(distribution.metadata["Name"] or "")).lower()
        if name in BUILDS or (_is_one(name) and _brings_onnxruntime(distribution)):
            seen.setdefault(name, Build(name, distribution.version, _folder(distribution)))
    order = list(BUILDS)
    return sorted(seen.values(), key=lambda build: order.index(build.name) if build.name in order else -1)


def _folder(distribution: Any) -> Path:
    return Path(str(distribution.locate_file("onnxruntime"))).resolve()


def _is_one(name: str) -> bool:
    return name.startswith(("onnxruntime", "ort-nightly")) and name != DISTRIBUTION


def _brings_onnxruntime(distribution: Any) -> bool:
    return any(str(file) == "onnxruntime/__init__.py" for file in distribution.files or ())


def version(text: str) -> tuple[int, int] | None:
    """(major, minor); None: not a version."""
    parts = re.match(r"(\d+)\.(\d+)", text)
    return (int(parts[1]), int(parts[2])) if parts else None


@asks("runtime.version", "which onnxruntime is this, and can it load this provider?")
def onnxruntime() -> Finding:
    """Imported, and of a version that can load this provider."""
    installed = builds()
    try:
        import onnxruntime as ort

        text = str(getattr(ort, "__version__", "without a version"))
        # What pip left of a folder has no file of its own.
        folder = Path(ort.__file__).parent if ort.__file__ else Path(next(iter(ort.__path__)))
        missing = [word for word in ("InferenceSession", "SessionOptions") if not hasattr(ort, word)]
    except Exception as error:
        why = f"onnxruntime cannot be imported: {type(error).__name__}: {error}"
        return Finding("problem", [why, *_listed(installed)], reinstall(installed))
    evidence = [f"onnxruntime {text}, {folder}"]
    number = version(text)
    if missing or number is None:
        evidence.insert(
            0, f"it has no {' and no '.join(missing)}" if missing else "it is of no known version"
        )
        hides = bool(installed) and folder.resolve() not in {build.folder for build in installed}
        if hides:
            evidence.insert(0, f"{folder} hides the installed {installed[0]}")
        remedy = f"rename {folder}, or take it off PYTHONPATH" if hides else reinstall(installed)
        return Finding("problem", evidence + _listed(installed), remedy)
    evidence.append(f"needed: {_dotted(MIN_ORT)} or newer; by name alone {_dotted(BY_NAME_ORT)}")
    if number < MIN_ORT:
        evidence.insert(0, "it is too old to load plugin providers of this kind")
        return Finding("problem", evidence, upgrade(installed, MIN_ORT))
    if number < BY_NAME_ORT:
        evidence.insert(
            0,
            'providers=["TunableOpExecutionProvider"] falls back to the CPU silently with it; '
            "tunableop.InferenceSession works",
        )
        return Finding("warning", evidence, upgrade(installed, BY_NAME_ORT))
    return Finding("ok", evidence)


def _dotted(number: tuple[int, int]) -> str:
    return f"{number[0]}.{number[1]}"


def _listed(installed: Iterable[Build]) -> list[str]:
    names = ", ".join(map(str, installed))
    return [f"installed: {names}" if names else "no distribution of onnxruntime is installed"]


def _kept(installed: list[Build]) -> str:
    """Of several, the one that its owner chose for a reason: the others come as dependencies."""
    usable = [build.name for build in installed if build.name not in NEVER_NEW_ENOUGH]
    return usable[0] if usable else "onnxruntime"


def upgrade(installed: list[Build], needed: tuple[int, int]) -> str:
    """The command that brings a version that is new enough."""
    kept = _kept(installed)
    command = f'pip install -U "{kept}>={_dotted(needed)}"'
    others = [build.name for build in installed if build.name != kept]
    return f"pip uninstall -y {' '.join(others)} && {command}" if others else command


def reinstall(installed: list[Build]) -> str:
    """The command that leaves one whole onnxruntime, and this package untouched."""
    kept = _kept(installed)
    command = f'pip install --force-reinstall "{kept}>={_dotted(BY_NAME_ORT)}"'
    names = [build.name for build in installed]
    if not names:
        return f'pip install "{kept}>={_dotted(BY_NAME_ORT)}"'
    return f"pip uninstall -y {' '.join(names)} && {command}"


@asks("runtime.distributions", "is one onnxruntime installed, or several over each other?")
def distributions(available: list[str] | None = None) -> Finding:
    """One onnxruntime, or several that overwrote each other's files.

    `available`: the providers of the onnxruntime that is imported; None: it cannot be asked.
    """
    installed = builds()
    if len(installed) < 2:
        return Finding("ok", _listed(installed))
    evidence: list[str] = []
    if len({version(build.version) for build in installed}) > 1:
        evidence.append("they are of different versions")
    for build in installed:
        provider = BUILDS.get(build.name, "")
        if available is not None and provider and provider not in available:
            evidence.append(f"{build.name} has {provider}; what is imported has not: it was overwritten")
    verdict: Verdict = "problem" if evidence else "warning"
    evidence.append("they write into the same folder: what is imported is a mixture, or the last installed")
    return Finding(verdict, evidence + _listed(installed), reinstall(installed))


@asks("runtime.numpy", "which numpy is this?")
def numpy() -> Finding:
    """Imported, and new enough."""
    remedy = f'pip install -U "numpy>={_dotted(MIN_NUMPY)}"'
    try:
        import numpy as np

        text = str(np.__version__)
    except Exception as error:
        return Finding("problem", [f"numpy cannot be imported: {error}"], remedy)
    evidence = [f"numpy {text}, {Path(np.__file__).parent}"]
    number = version(text)
    if number is not None and number < MIN_NUMPY:
        return Finding("problem", [*evidence, f"needed: {_dotted(MIN_NUMPY)}"], remedy)
    return Finding("ok", evidence)


@asks("runtime.registration", "does onnxruntime take the library, and list its devices?")
def registration() -> Finding:
    """ONNX Runtime takes the library and lists its devices."""
    from .. import _devices, _library, errors
    from .library import REINSTALL

    try:
        _library.register()
        listed = [str(device) for device in _devices.listed()]
    except errors.TunableOpError as error:
        return Finding("problem", [str(error)], REINSTALL)
    return Finding("ok", [f"devices, the first of which the name alone means: {', '.join(listed)}"])


@asks("runtime.by_name", "does a session made with the provider's name alone run on it?")
def by_name() -> Finding | None:
    """A session that plain onnxruntime makes with the provider's name."""
    import onnxruntime as ort

    from .. import _control, _library
    from . import trial

    if _library.ort_version() < BY_NAME_ORT:
        return None  # said with the version
    session = ort.InferenceSession(
        trial.MODEL, trial.settings(), providers=[_library.EP_NAME, "CPUExecutionProvider"]
    )
    providers = session.get_providers()
    if _library.EP_NAME not in providers:
        evidence = [f"onnxruntime made it with {', '.join(providers)} only"]
        return Finding("problem", evidence, reinstall(builds()))
    error = trial.error(session)
    refused = [node.reason for node in _control.explain(session).nodes if not node.claimed]
    if refused:
        return Finding("problem", [f"the product of a small model is {refused[0]}"], REPORT)
    evidence = [f"a product of {trial.M}x{trial.N}x{trial.K} ran on {_control.stats(session).device}"]
    if not error <= 1e-4:
        from .library import REINSTALL

        return Finding("problem", [f"its answer is off by {error:.3g}", *evidence], REINSTALL)
    return Finding("ok", [*evidence, "and its answer is right"])
