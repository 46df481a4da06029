"""The devices that the provider can run on, and which other providers belong beside each."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnxruntime as ort

from . import _core
from ._library import EP_NAME, _ep_devices, register
from ._options import config_entry
from .errors import NoDeviceError, OptionError, TunableOpError

logger = logging.getLogger("tunableop")

Provider = str | tuple[str, dict[Any, Any]]

CPU = "cpu"
CPU_PROVIDER = "CPUExecutionProvider"
EXPECTED = "auto, cpu, cuda, cuda:<id>, hip or hip:<id>"
_DEVICE = re.compile(r"auto|cpu|(cuda|hip)(:\d{1,4})?")

#: The providers of ONNX Runtime that run the rest of a model on a card, the best first, by backend.
STOCK = {
    "cuda": ("CUDAExecutionProvider",),
    "hip": ("ROCMExecutionProvider", "MIGraphXExecutionProvider"),
}
#: How each of them is told to run from a captured graph, which takes no nodes of other providers.
_GRAPHS = {"CUDAExecutionProvider": "enable_cuda_graph", "ROCMExecutionProvider": "enable_hip_graph"}
_TRUE = ("1", "true")

_VENDORS = {
    "cuda": ("CUDA", ("libcudart", "libcublasLt")),
    "hip": ("ROCm", ("libamdhip64", "libhipblaslt", "librocblas")),
}
_warned: set[str] = set()


def has_stock(providers: Sequence[str]) -> bool:
    """Whether a provider of ONNX Runtime's own for a card is among them."""
    return any(name in names for names in STOCK.values() for name in providers)


@dataclass(frozen=True)
class Listed:
    """A device of ours as ONNX Runtime lists it: what a session can be put on."""

    ep_device: Any
    backend: str
    ordinal: int
    name: str
    arch: str
    first: bool  #: what our provider's name alone means to ONNX Runtime

    @property
    def id(self) -> str:
        """What option `device` calls it: "cpu", "cuda:0"."""
        return self.backend if self.backend == CPU else f"{self.backend}:{self.ordinal}"

    @property
    def is_card(self) -> bool:
        """It has memory of its own."""
        return self.backend != CPU

    def __str__(self) -> str:
        """For example "cuda:0 (NVIDIA H200, sm_90)"."""
        words = ", ".join(word for word in (self.name, self.arch) if word)
        return f"{self.id} ({words})" if self.is_card and words else self.id


def listed() -> list[Listed]:
    """In the order of ONNX Runtime: cards first, the CPU last."""
    return [_listed(device, at == 0) for at, device in enumerate(_ep_devices())]


def _listed(device: Any, first: bool) -> Listed:
    told = dict(device.ep_metadata)
    return Listed(
        ep_device=device,
        backend=told.get("backend", CPU),
        ordinal=int(told.get("device_id", 0)),
        name=told.get("name", ""),
        arch=told.get("arch", ""),
        first=first,
    )


def choose(device: str) -> Listed:
    """The device that option `device` means; "auto" is the first card that can be used, else the CPU.

    Raises:
        OptionError: the text is none of the allowed ones.
        NoDeviceError: there is no such device; the message says which there are, and why no card is.
    """
    if not _DEVICE.fullmatch(device):
        raise OptionError(f"option 'device': expected {EXPECTED}, found '{device}'")
    there = listed()
    if device == "auto":
        if not there[0].is_card:
            _warn_of_a_card_without_libraries()
        return next((entry for entry in there if not _warn_if_unusable(entry)), there[-1])
    reasons: list[str] = []
    for entry in there:
        if device in (entry.id, entry.backend):
            reason = _why_unusable(entry)
            if not reason:
                return entry
            reasons.append(f"{entry} cannot be used: {reason}")
    if reasons:
        raise NoDeviceError(f"device='{device}': {'; '.join(reasons)}")
    backend = device.partition(":")[0]
    names = ", ".join(map(str, there))
    if backend != CPU and not any(entry.backend == backend for entry in there):
        raise NoDeviceError(f"device='{device}': {_why_no_card(backend)}; this machine offers {names}")
    raise NoDeviceError(f"device='{device}': there is no such device; this machine offers {names}")


def _why_no_card(backend: str) -> str:
    """What stands between this process and the cards of a vendor."""
    vendor, names = _VENDORS[backend]
    without = [gpu for gpu in _core.gpus() if gpu["backend"] == backend and gpu["reason"]]
    if without:
        # Equal cards have equal reasons.
        return "; ".join(dict.fromkeys(f"{g['name']} cannot be used: {g['reason']}" for g in without))
    lines = [
        f"{entry['library']}: {entry['reason']}"
        for entry in _core.gpu_libraries()
        if entry["library"] in names and not entry["available"]
    ]
    if lines:
        return f"no card is found through {vendor} ({'; '.join(lines)})"
    return f"{vendor} finds no card"


def _why_unusable(entry: Listed) -> str:
    """Some libraries say only when they are made ready for a card that they have nothing for it."""
    return _core.why_card_is_unusable(entry.backend, entry.ordinal) if entry.is_card else ""


def _warn_if_unusable(entry: Listed) -> bool:
    reason = _why_unusable(entry)
    if reason:
        _warn_once(f"device='auto' does not take {entry}: it cannot be used: {reason}")
    return bool(reason)


def _warn_of_a_card_without_libraries() -> None:
    """Whoever has a card and says nothing expects it to be used."""
    for gpu in _core.gpus():
        if gpu["reason"]:
            _warn_once(
                f"device='auto' takes the CPU: {gpu['backend']}:{gpu['ordinal']} ({gpu['name']}) "
                f"cannot be used: {gpu['reason']}"
            )


def _warn_once(line: str) -> None:
    """In a process."""
    if line not in _warned:
        _warned.add(line)
        logger.warning("%s", line)


def name_of(provider: Provider) -> str:
    """Of an entry of `providers`."""
    return provider if isinstance(provider, str) else provider[0]


def beside(device: Listed, precision: str) -> list[Provider]:
    """ONNX Runtime's own provider for the rest of a model on this card, where this build has it.

    Its precision is ours: left to itself, CUDAExecutionProvider runs fp32 products in TF32.
    """
    available = ort.get_available_providers()
    for name in STOCK.get(device.backend, ()):
        if name in available:
            options = {"device_id": str(device.ordinal)}
            if name == "CUDAExecutionProvider":
                options["use_tf32"] = "1" if precision == "tf32" else "0"
            return [(name, options)]
    return []


def refuse_graphs(options: ort.SessionOptions, others: Sequence[Provider]) -> None:
    """A stock provider that captures graphs fails on any node of ours, in words that tell nobody why.

    Raises:
        OptionError: one of `others`, or of the providers in `options`, is to capture graphs.
    """
    given = {name_of(entry): {} if isinstance(entry, str) else entry[1] for entry in others}
    for name, key in _GRAPHS.items():
        # What was added to session options stands there as configuration, too.
        value = given.get(name, {}).get(key) or config_entry(options, f"ep.{name.lower()}.{key}")
        if str(value).lower() in _TRUE:
            raise OptionError(
                f"{name} has {key}={value}: a captured graph takes no nodes of other providers, so "
                f"onnxruntime could not make a session with {EP_NAME} in it; leave {key} out, or make the "
                f"session without {EP_NAME}"
            )


def check_company(device: Listed, others: Sequence[Provider]) -> None:
    """Warns when products would leave a card that the rest of the model is on, and come back."""
    cards = {name for names in STOCK.values() for name in names}
    on_cards = [name_of(entry) for entry in others if name_of(entry) in cards]
    if on_cards and not device.is_card:
        logger.warning(
            "%s runs on the CPU beside %s: the operands of every product are copied to the host and back",
            EP_NAME,
            on_cards[0],
        )


def check_stock(device: Listed, added: Sequence[Provider], present: Sequence[str]) -> None:
    """Warns when the provider added for the rest of the model is not in the session after all."""
    for entry in added:
        if name_of(entry) not in present:
            logger.warning(
                "onnxruntime made the session without %s (its log says why): what is not %s's runs on "
                "the CPU, and is copied from and to %s",
                name_of(entry),
                EP_NAME,
                device.id,
            )


@dataclass(frozen=True)
class Device:
    """A device that the provider can run on, with the GEMM libraries found for it."""

    backend: str  #: "cpu", "cuda", "hip"
    name: str
    arch: str  #: "sm_90", "gfx942"; of a CPU its instruction sets
    libraries: dict[str, str]  #: name to identity; `candidates` takes these names
    missing: dict[str, str]  #: name to the reason why it is not there
    id: str = CPU  #: for option `device`
    memory_bytes: int = 0  #: of a card
    versions: dict[str, str] = field(default_factory=dict)  #: of a card's driver and runtime
    compiler: str = ""  #: what compiles kernels for a card; empty: nothing, see `missing`


def devices() -> list[Device]:
    """What this machine offers: its cards, then the CPU. A card without `libraries` cannot be used."""
    register()
    return [*(_card(gpu) for gpu in _core.gpus()), _cpu()]


def _cpu() -> Device:
    fingerprint = _core.cpu_fingerprint()
    found = _core.libraries()
    return Device(
        backend=CPU,
        name=fingerprint["model"],
        arch=fingerprint["features"],
        libraries={entry["library"]: entry["identity"] for entry in found if entry["available"]},
        missing={entry["library"]: entry["reason"] for entry in found if not entry["available"]},
    )


def _card(gpu: _core.Gpu) -> Device:
    names = _VENDORS[gpu["backend"]][1]
    missing = {
        entry["library"]: entry["reason"]
        for entry in _core.gpu_libraries()
        if entry["library"] in names and not entry["available"]
    }
    if gpu["reason"] and not missing:
        missing = {"all": gpu["reason"]}
    compiler = _core.kernel_compiler(gpu["backend"], gpu["ordinal"])
    if not compiler["available"]:
        missing[compiler["library"]] = compiler["reason"]
    return Device(
        backend=gpu["backend"],
        name=gpu["name"],
        arch=gpu["arch"],
        libraries=dict(gpu["libraries"]),
        missing=missing,
        id=f"{gpu['backend']}:{gpu['ordinal']}",
        memory_bytes=gpu["memory_bytes"],
        versions={"driver": gpu["driver"], "runtime": gpu["runtime"]},
        compiler=compiler["identity"],
    )


def add_stock(options: ort.SessionOptions, added: Sequence[Provider]) -> None:
    """Adds providers to session options. One that cannot be loaded here costs a warning, no session."""
    for entry in added:
        name, settings = (entry, {}) if isinstance(entry, str) else entry
        try:
            options.add_provider(name, settings)
        except Exception as error:
            logger.warning("%s cannot be used here: %s", name, error)


def add(options: ort.SessionOptions, device: Listed, texts: dict[str, str]) -> None:
    """Adds our provider on one device to session options.

    Raises:
        TunableOpError: ONNX Runtime refuses.
    """
    try:
        options.add_provider_for_devices([device.ep_device], texts)
    except Exception as error:
        raise TunableOpError(f"onnxruntime did not take {EP_NAME} on {device}: {error}") from error
