"""Which cards, drivers and vendor libraries there are, and why one was refused."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from .. import _core, _devices
from ..errors import NoDeviceError, OptionError
from . import vendors
from .check import Finding, Verdict, asks
from .vendors import AMD, NVIDIA, VENDORS, Vendor

#: What a library without use is listed as by a card that has nothing else.
UNUSABLE = "unusable"


@asks("machine.device", "is the device that was asked for there?")
def device(asked: str, root: Path = Path("/")) -> Finding:
    """Which device sessions run on."""
    there = _devices.listed()
    evidence = [f"here: {', '.join(map(str, there))}"]
    try:
        chosen = _devices.choose(asked)
    except OptionError as error:
        return Finding("problem", [str(error), *evidence], "--device auto")
    except NoDeviceError as error:
        why = str(error).removeprefix(f"device='{asked}': ").partition("; this machine offers")[0]
        return Finding("problem", [why, *evidence], _device_remedy(asked, there, root))
    return Finding("ok", [f"device='{asked}' is {chosen}", *evidence])


def _device_remedy(asked: str, there: Sequence[_devices.Listed], root: Path) -> str:
    backend = asked.partition(":")[0]
    same = [entry.id for entry in there if entry.backend == backend]
    if same or backend == _devices.CPU:
        return f"--device {same[-1] if same else 'cpu'}"
    vendor = next(entry for entry in VENDORS if entry.backend == backend)
    return _missing_remedy(vendor, _library(vendor.runtime)["reason"], root)


def _library(name: str) -> _core.LibraryState:
    return next(entry for entry in _core.gpu_libraries() if entry["library"] == name)


@asks("machine.cuda", "can NVIDIA cards be used?")
def nvidia(root: Path, asked: str = "auto") -> Finding:
    """Whether there are any, and if they cannot be used, why."""
    return _cards(NVIDIA, root, asked)


@asks("machine.hip", "can AMD cards be used?")
def amd(root: Path, asked: str = "auto") -> Finding:
    """Whether there are any, and if they cannot be used, why."""
    return _cards(AMD, root, asked)


def _cards(vendor: Vendor, root: Path, asked: str) -> Finding:
    states = [_library(each) for each in (vendor.runtime, *vendor.libraries)]
    evidence = [state_line(state) for state in states]
    found = [gpu for gpu in _core.gpus() if gpu["backend"] == vendor.backend]
    worst: Verdict = "warning" if asked == _devices.CPU else "problem"
    hardware = on_bus(vendor, root)
    if not found:
        evidence = evidence[:1] + hardware  # the others are not looked for without it
        reason = states[0]["reason"]
        verdict = _without_cards(reason, bool(hardware), asked.startswith(vendor.backend))
        if verdict == "ok":
            return Finding("ok", [f"no {vendor.name} card is found", *evidence])
        if denied := denied_node(vendor, root):
            why = f"{denied} may not be opened by this user"
            return Finding(worst, [why, *evidence], _permission_remedy(vendor))
        return Finding(
            worst if verdict == "problem" else verdict, evidence, _missing_remedy(vendor, reason, root)
        )
    lines = [_card_line(gpu) for gpu in found]
    unusable = [gpu for gpu in found if not _usable(gpu)]
    refused = [state for state in states[1:] if not state["available"]]
    if unusable:
        why = "; ".join(state["reason"] for state in refused) or unusable[0]["reason"]
        evidence = [f"no library can run on {unusable[0]['name']}: {why}", *lines, *evidence]
        return Finding(worst, evidence, _library_remedy(vendor, refused))
    broken = [state for state in refused if not _not_found(state["reason"])]
    evidence = lines + evidence
    if broken:
        why = f"not used: {broken[0]['reason']}"
        return Finding("warning", [why, *evidence], _library_remedy(vendor, broken))
    return Finding("note" if refused else "ok", evidence)


def _without_cards(reason: str, hardware: bool, wanted: bool) -> Verdict:
    """How bad it is that no card is found."""
    if wanted:
        return "ok"  # told as the problem of the device that was asked for
    if "is older than the runtime" in reason:
        return "problem"  # there is a driver, and so a card
    if _not_found(reason):
        return "warning" if hardware else "ok"
    if hardware:
        return "problem"
    idle = ("no driver is loaded" in reason, reason.endswith("no card"), ": no card (" in reason)
    return "note" if any(idle) else "problem"


def _not_found(reason: str) -> bool:
    return "not loaded already, and not in" in reason or reason.startswith("not looked for")


def _usable(gpu: _core.Gpu) -> bool:
    return not gpu["reason"] and any(identity != UNUSABLE for identity in gpu["libraries"].values())


def usable(card: _devices.Listed) -> bool:
    """Whether a library can run on it."""
    return any(
        _usable(gpu)
        for gpu in _core.gpus()
        if (gpu["backend"], gpu["ordinal"]) == (card.backend, card.ordinal)
    )


def state_line(state: _core.LibraryState) -> str:
    """A library, or why it is not used."""
    if state["available"]:
        return f"{state['library']} {state['identity']}" + (f" ({state['path']})" if state["path"] else "")
    return f"{state['library']}: not used: {state['reason']}"


def _card_line(gpu: _core.Gpu) -> str:
    libraries = ", ".join(f"{name} {identity}" for name, identity in gpu["libraries"].items())
    text = (
        f"{gpu['backend']}:{gpu['ordinal']} {gpu['name']}, {gpu['arch']}, "
        f"{gpu['memory_bytes'] / 2**30:.0f} GiB, driver {gpu['driver']}, runtime {gpu['runtime']}"
    )
    return f"{text}: {libraries}" if libraries else text


def on_bus(vendor: Vendor, root: Path) -> list[str]:
    """Display controllers and accelerators of the maker on the PCI bus, whether or not there is a driver."""
    found = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = read(folder / "class")
        if read(folder / "vendor") == vendor.pci and kind[:4] in ("0x03", "0x12"):
            found.append(f"on the PCI bus: {folder.name}, {vendor.name} {read(folder / 'device')}")
    return found


def read(path: Path) -> str:
    """What a small file of the system holds; '' when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def denied_node(vendor: Vendor, root: Path) -> str | None:
    """A device file that is there and may not be opened."""
    for node in vendor.nodes:
        path = root / node
        files = sorted(path.glob("renderD*")) if path.is_dir() else [path]
        for file in files:
            if file.exists() and not os.access(file, os.R_OK | os.W_OK):
                return f"/{file.relative_to(root)}"
    return None


def _permission_remedy(vendor: Vendor) -> str:
    if vendor is AMD:
        return 'sudo usermod -aG render,video "$USER" (and log in again)'
    return "sudo chmod a+rw /dev/nvidia*"


def in_container(root: Path) -> bool:
    """Whether this looks like one."""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    return any(word in read(root / "proc/1/cgroup") for word in ("docker", "kubepods", "containerd", "lxc"))


def _missing_remedy(vendor: Vendor, reason: str, root: Path) -> str:
    """What brings a card within reach."""
    older = re.search(r"the driver \((\d+)[\d.]*\) is older than the runtime", reason)
    if older:
        return vendor.older.get(older[1], vendor.driver)
    hidden = re.search(r"no card \((\w+) is '", reason)
    if hidden:
        return f"unset {hidden[1]}"
    if "no driver is loaded" in reason or reason.endswith("no card"):
        if in_container(root):
            return vendor.container
        return f"load the {vendor.name} driver ({'nvidia-smi' if vendor is NVIDIA else 'rocminfo'} shows it)"
    if _not_found(reason):
        if os.environ.get(vendor.variable):
            return f"unset {vendor.variable}"
        return vendor.install
    return vendors.reinstall(vendor)


def _library_remedy(vendor: Vendor, refused: Sequence[_core.LibraryState]) -> str:
    """What gives a card that was found a library that can run on it."""
    reasons = " ".join(state["reason"] for state in refused)
    if "has no kernels for" in reasons:
        return "install a version of the library that has kernels for this card, or run with device='cpu'"
    if refused and all(_not_found(state["reason"]) for state in refused):
        return _missing_remedy(vendor, refused[0]["reason"], Path("/"))
    return vendors.reinstall(vendor)


@asks("machine.stock", "does this onnxruntime have a provider for the rest of a model on the card?")
def stock(chosen: _devices.Listed) -> Finding | None:
    """On a card: ONNX Runtime's own provider for the rest of the model."""
    if not chosen.is_card:
        return None
    vendor = next(entry for entry in VENDORS if entry.backend == chosen.backend)
    if there := _stock(chosen):
        return Finding("ok", [there[0]])
    evidence = [
        f"no {' or '.join(_devices.STOCK[chosen.backend])}: the rest runs on the CPU, and each product's "
        "operands are copied to the card and back"
    ]
    if vendor is AMD:
        return Finding("note", [*evidence, "none that is new enough is known for AMD"])
    remedy = (
        f"pip uninstall -y onnxruntime && pip install {vendor.package} && "
        "pip install --no-deps --force-reinstall onnxruntime-ep-tunableop"
    )
    return Finding("warning", evidence, remedy)


def _stock(chosen: _devices.Listed) -> list[str]:
    """ONNX Runtime's own providers for the card in this build of it, the best first."""
    import onnxruntime as ort

    available = ort.get_available_providers()
    return [provider for provider in _devices.STOCK[chosen.backend] if provider in available]


@asks("machine.kernels", "can kernels be compiled for the card?")
def kernels(chosen: _devices.Listed) -> Finding | None:
    """On a card: what compiles the operators between the products, and where the results are kept."""
    if not chosen.is_card:
        return None
    vendor = next(entry for entry in VENDORS if entry.backend == chosen.backend)
    compiler = _core.kernel_compiler(chosen.backend, chosen.ordinal)
    if not compiler["available"]:
        evidence = [
            f"{compiler['library']}: {compiler['reason']}",
            "of operators on the card ours are MatMul and Gemm alone",
        ]
        # Who has ONNX Runtime's own provider for the rest needs none.
        verdict: Verdict = "note" if _stock(chosen) else "warning"
        return Finding(verdict, evidence, _compiler_remedy(vendor, chosen, compiler["reason"]))
    evidence = [f"{compiler['identity']} ({compiler['path']})"]
    folder = _core.kernel_cache_folder()
    if not folder:
        return Finding("note", [*evidence, "each process compiles its own: no folder keeps them"])
    if not _writable(Path(folder)):
        evidence.append(
            f"they cannot be written into {folder}: each process compiles those that are not there"
        )
        return Finding("warning", evidence, "set TUNABLEOP_KERNEL_CACHE to a folder that can be written to")
    return Finding("ok", [*evidence, f"kept in {folder}"])


def _compiler_remedy(vendor: Vendor, chosen: _devices.Listed, reason: str) -> str:
    if "makes no code for" in reason:
        return "install an older release of the compiler and of the runtime, which know this card"
    if not _not_found(reason):
        return vendors.reinstall(vendor)
    if os.environ.get(vendor.variable):
        return f"name the compiler's folder in {vendor.variable}, too"
    runtime = next(
        gpu["runtime"]
        for gpu in _core.gpus()
        if (gpu["backend"], gpu["ordinal"]) == (chosen.backend, chosen.ordinal)
    )
    return vendor.older_compiler.get(runtime.partition(".")[0], vendor.compiler)


def _writable(folder: Path) -> bool:
    """Or can be made so."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
