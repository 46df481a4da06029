"""The card that is measured, what stands on it, and sessions of both providers there."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from benchmarks import common

Feed = common.Feed

#: ONNX Runtime's own provider of each vendor's cards, and the vendor's number in the PCI registry.
STOCK = {
    "cuda": ("CUDAExecutionProvider",),
    "hip": ("ROCMExecutionProvider", "MIGraphXExecutionProvider"),
}
VENDORS = {"cuda": 0x10DE, "hip": 0x1002}
_SMI = {
    "cuda": ("nvidia-smi", "--query-gpu=index,name,driver_version,memory.total,clocks.max.sm,power.limit"),
    "hip": ("rocm-smi", "--showproductname"),
}
_PACKAGES = re.compile(
    r"^(onnxruntime.*|nvidia-(cublas|cuda-runtime|cudnn|cuda-nvrtc).*|torch|rocm.*|hip.*)$"
)


@dataclass(frozen=True)
class Card:
    """Which card is measured, and what can be measured on it."""

    backend: str  # "cuda", "hip"
    ordinal: int
    stock: str  # ONNX Runtime's provider for it; "": this build has none
    ours: str  # why our provider cannot run on it; "": it can

    @property
    def id(self) -> str:
        """As option `device` names it."""
        return f"{self.backend}:{self.ordinal}"


def find(device: str = "auto") -> Card:
    """The card to measure; `device` as the option of that name. SystemExit: there is none, and why."""
    backend, _, ordinal = device.partition(":")
    stock = {b: next((n for n in STOCK[b] if n in ort.get_available_providers()), "") for b in STOCK}
    found, why = _ours(device)
    if found is not None:
        return Card(found[0], found[1], stock[found[0]], "")
    for name, provider in stock.items():
        if provider and backend in ("auto", name):
            _load_libraries(name)
            return Card(name, int(ordinal or 0), provider, why)
    raise SystemExit(
        f"no card to measure: {why}; and this onnxruntime ({ort.__version__}) has no provider for one "
        f"(it has {', '.join(ort.get_available_providers())})"
    )


def _ours(device: str) -> tuple[tuple[str, int] | None, str]:
    """(backend, ordinal) of the device that our provider would take, or why there is none."""
    try:
        import onnxruntime_ep_tunableop as tunableop
    except ImportError as error:
        return None, f"onnxruntime_ep_tunableop: {error}"
    _load_libraries(device.partition(":")[0])
    cards = [card for card in tunableop.devices() if card.backend != "cpu"]
    for card in cards:
        if card.libraries and (device == "auto" or device in (card.id, card.backend)):
            return (card.backend, int(card.id.partition(":")[2])), ""
    if cards:
        return None, "; ".join(f"{card.id}: {card.missing}" for card in cards)
    return None, "onnxruntime_ep_tunableop finds no card"


def _load_libraries(backend: str) -> None:
    """Lets ONNX Runtime find CUDA's libraries in Python packages, where it knows how to."""
    if backend in ("auto", "cuda") and "CUDAExecutionProvider" in ort.get_available_providers():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            ort.preload_dlls()


def machine(card: Card) -> dict[str, str]:
    """What a figure depends on: the processor's part, the card, its driver, versions of libraries."""
    facts = {**common.machine(), "device": card.id}
    facts.update(_smi(card))
    try:
        import onnxruntime_ep_tunableop as tunableop

        for device in tunableop.devices():
            if device.id == card.id:
                facts |= {"card": device.name, "arch": device.arch, **device.versions, **device.libraries}
    except ImportError:
        pass
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"])
        if _PACKAGES.match(name):
            facts[name] = distribution.version
    return facts


def _smi(card: Card) -> dict[str, str]:
    """What the vendor's own tool says of the card; nothing where it is not installed."""
    command = list(_SMI[card.backend])
    if shutil.which(command[0]) is None:
        return {}
    if card.backend == "cuda":
        command += ["--format=csv,noheader", "-i", str(card.ordinal)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {command[0]: "; ".join(line.strip() for line in done.stdout.splitlines() if line.strip())}


# --- sessions


#: How products are computed: the model's type, and what fp32 operands may be rounded to.
MODES = ("fp32", "tf32", "fp16")


def dtype_of(mode: str) -> type[np.floating]:
    """Of a model that runs in this mode."""
    return np.float16 if mode == "fp16" else np.float32


def session_options(profile: Path | None = None) -> ort.SessionOptions:
    """One thread (the host only queues work), no words below an error, assignments recorded."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return options


def stock_provider(card: Card, mode: str, *, graph: bool = False) -> tuple[str, dict[str, str]]:
    """ONNX Runtime's provider with the precision of `mode`."""
    settings = {"device_id": str(card.ordinal)}
    if card.stock == "CUDAExecutionProvider":
        settings["use_tf32"] = "1" if mode == "tf32" else "0"
        if graph:
            settings["enable_cuda_graph"] = "1"
    return card.stock, settings


def stock_session(
    card: Card,
    model: Path,
    mode: str,
    *,
    graph: bool = False,
    profile: Path | None = None,
    disabled: Sequence[str] = (),
) -> ort.InferenceSession:
    """ONNX Runtime's provider alone, and the CPU for what it does not take; `disabled`: fusions."""
    providers = [stock_provider(card, mode, graph=graph), "CPUExecutionProvider"]
    options = session_options(profile)
    session = ort.InferenceSession(
        str(model), options, providers=providers, disabled_optimizers=list(disabled) or None
    )
    if card.stock not in session.get_providers():
        raise SystemExit(f"onnxruntime did not load {card.stock}: its log above says why")
    return session


def our_session(
    card: Card, model: Path, mode: str, *, alone: bool = False, profile: Path | None = None, **options: Any
) -> ort.InferenceSession:
    """Our provider, then ONNX Runtime's for the card (not with `alone`), then the CPU."""
    import onnxruntime_ep_tunableop as tunableop

    others: list[Any] = [] if alone or not card.stock else [stock_provider(card, mode)]
    return tunableop.InferenceSession(
        str(model),
        session_options(profile),
        providers=[*others, "CPUExecutionProvider"],
        device=card.id,
        precision="tf32" if mode == "tf32" else "exact",
        **options,
    )


def on_card(card: Card, values: NDArray[Any]) -> ort.OrtValue:
    """A copy in the card's memory."""
    if card.backend == "cuda":
        return ort.OrtValue.ortvalue_from_numpy(values, "cuda", card.ordinal)
    return ort.OrtValue.ortvalue_from_numpy(values, "gpu", card.ordinal, VENDORS[card.backend])


def on_our_card(card: Card, values: NDArray[Any]) -> ort.OrtValue:
    """A copy in memory of our provider's, also where ONNX Runtime has a provider of its own for the card."""
    if not card.stock:
        return on_card(card, values)
    import onnxruntime_ep_tunableop as tunableop

    tunableop.register()
    ours = [d for d in ort.get_ep_devices() if d.ep_name == tunableop.get_ep_name()]
    device = next((d for d in ours if d.ep_metadata.get("backend") == card.backend), None)
    if device is None:
        return on_card(card, values)
    info = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(values.shape), values.dtype, memory_info=info)
    value.update_inplace(values)
    return value


def bound(
    card: Card,
    session: ort.InferenceSession,
    feed: Feed,
    shapes: Sequence[Sequence[int]],
    graph: int | None = None,
    alone: bool = False,
) -> tuple[Callable[[], object], Callable[[], list[NDArray[Any]]]]:
    """A call on inputs and outputs in the card's memory, and what fetches the outputs.

    `shapes`: of the outputs. `graph`: its number, for a session of ours with graphs. `alone`: the session has
    no other provider for the card, so that inputs and outputs lie in our memory. Nothing runs here.
    """
    options = None
    if graph is not None:
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(graph))
    own = alone or graph is not None
    # Ours would bind the inputs anew before each run, which a replay does not see, and stock's does not do.
    binding = ort.IOBinding(session) if own else session.io_binding()
    place = on_our_card if own else on_card
    kept = []
    for name, values in feed.items():
        kept.append(place(card, values))
        binding.bind_ortvalue_input(name, kept[-1])
    outputs = []
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    for meta, shape in zip(session.get_outputs(), shapes, strict=True):
        outputs.append(place(card, np.zeros(shape, types[meta.type])))
        binding.bind_ortvalue_output(meta.name, outputs[-1])

    def call(keep: object = (kept, outputs)) -> None:
        session.run_with_iobinding(binding, options)

    return call, lambda: [output.numpy() for output in outputs]


def demand_replays(session: ort.InferenceSession) -> None:
    """Raises RuntimeError when no run of a session of ours was the replay of a graph."""
    import onnxruntime_ep_tunableop as tunableop

    graphs = tunableop.stats(session).graphs
    if not graphs.replayed:
        why = "; ".join(graphs.refused) or ("" if graphs.enabled else str(tunableop.explain(session)))
        raise RuntimeError(f"no graph was replayed: {why}")


def profiled(session: ort.InferenceSession, call: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Runs once and says which nodes ran where: (provider, operator) -> count. Ends the profile."""
    import json

    call()
    path = Path(session.end_profiling())
    events = json.loads(path.read_text())
    path.unlink()
    return Counter(
        (str(event["args"]["provider"]), str(event["args"]["op_name"]))
        for event in events
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time")
    )


def environment() -> dict[str, str]:
    """The variables that change what is measured."""
    return {
        key: value for key, value in os.environ.items() if key.startswith(("TUNABLEOP_", "CUDA_", "HIP_"))
    }
