"""One matrix product: as a model, as sessions of both sides, and as a call whose operands stay in place."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from .. import _devices, _onnx, _selftest_cases
from .._devices import Listed
from ..session import InferenceSession
from .shapes import Shape

Array = npt.NDArray[Any]

#: What our provider runs where. "tf32" rounds the operands of fp32 products, on a card that can.
CPU_TYPES = ("fp32",)
CARD_TYPES = ("fp32", "fp16", "bf16")
TYPES = ("fp32", "fp16", "bf16", "tf32")
ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "tf32": 4, "fp64": 8}

_ALIGNMENT = 64  # bytes; what a tensor inside a real model has
_VENDORS = {"cuda": 0x10DE, "hip": 0x1002}  # numbers in the PCI registry
_MOST_CHECKED = 2.0**27  # FLOP of an answer that is checked as a whole
_SAMPLED_ROWS = 16
_CHUNK = 1 << 22  # elements of B that are widened at a time
_DRAWN = 1_000_003  # elements; larger operands repeat them, which no kernel's tiles do at that distance

_STORED: dict[str, tuple[Any, int]] = {
    "fp16": (np.float16, _onnx.FLOAT16),
    "fp64": (np.float64, _onnx.DOUBLE),
}


@dataclass(frozen=True)
class Product:
    """A model of one MatMul (A -> Y, or A and B -> Y), what to feed it, and its operands.

    bf16 has no arrays in numpy, so those models take and give fp32 and cast: the product itself is in bf16.
    The operands start where those of a real model do, and every call that is bound reads these very ones.
    """

    shape: Shape
    kind: str
    model: bytes
    feeds: dict[str, Array]
    a: Array
    b: Array

    @property
    def bytes(self) -> float:
        """Each element moved once."""
        return float(self.shape.elements * ELEMENT_BYTES[self.kind])

    @property
    def precision(self) -> str:
        """As option `precision`."""
        return "tf32" if self.kind == "tf32" else "exact"


def make(shape: Shape, kind: str, seed: int = 0) -> Product:
    """Operands drawn from a normal distribution, and rounded to the type."""
    random = np.random.default_rng(seed)
    lead = (shape.batch,) if shape.batch > 1 else ()
    sizes = {
        "A": (*lead, shape.m, shape.k),
        "B": (*(() if shape.constant_b else lead), shape.k, shape.n),
    }
    stored, element = _STORED.get(kind, (np.float32, _onnx.FLOAT))
    arrays = {name: _drawn(random, size, kind, stored) for name, size in sizes.items()}
    weights = {"B": arrays["B"]} if shape.constant_b else {}
    feeds = {name: values for name, values in arrays.items() if name not in weights}
    if kind == "bf16":
        nodes = [_onnx.Node("Cast", [name], f"{name}_bf16", {"to": _onnx.BFLOAT16}) for name in sizes]
        nodes.append(_onnx.Node("MatMul", ["A_bf16", "B_bf16"], "P"))
        nodes.append(_onnx.Node("Cast", ["P"], "Y", {"to": _onnx.FLOAT}))
    else:
        nodes = [_onnx.Node("MatMul", ["A", "B"], "Y")]
    inputs = {name: (element, sizes[name]) for name in feeds}
    model = _onnx.model(nodes, inputs, ("Y", element, (*lead, shape.m, shape.n)), weights)
    return Product(shape, kind, model, feeds, arrays["A"], arrays["B"])


def _drawn(random: np.random.Generator, size: Sequence[int], kind: str, stored: Any) -> Array:
    count = math.prod(size)
    drawn = _selftest_cases.rounded(random.standard_normal(min(count, _DRAWN), np.float32), kind)
    values = aligned(size, stored)
    flat = values.reshape(-1)
    for start in range(0, count, _DRAWN):
        flat[start : start + _DRAWN] = drawn[: count - start]
    return values


def stock_provider(device: Listed, precision: str = "exact") -> tuple[str, dict[str, str]] | None:
    """ONNX Runtime's own provider for a device; None where this onnxruntime has none for that card."""
    if not device.is_card:
        return _devices.CPU_PROVIDER, {}
    for entry in _devices.beside(device, precision):
        name = _devices.name_of(entry)
        return name, {} if isinstance(entry, str) else dict(entry[1])
    return None


def stock_session(product: Product, device: Listed, threads: int | None) -> ort.InferenceSession | None:
    """The stock provider's; None where there is none for the device, or onnxruntime cannot load it here."""
    provider = stock_provider(device, product.precision)
    if provider is None:
        return None
    names = [provider] if provider[0] == _devices.CPU_PROVIDER else [provider, _devices.CPU_PROVIDER]
    session = ort.InferenceSession(product.model, session_options(threads), providers=names)
    return session if provider[0] in session.get_providers() else None


def our_session(product: Product, device: Listed, threads: int | None, **options: Any) -> InferenceSession:
    """Ours, with every node claimed; `options` as InferenceSession takes them."""
    options = {"claim": "all", "device": device.id, "precision": product.precision} | options
    return InferenceSession(product.model, session_options(threads), **options)


def session_options(threads: int | None) -> ort.SessionOptions:
    """For sessions that share a process, and take turns when it is idle (`turns`).

    Threads of a pool whose size is stated are pinned to a processor each, the calling thread's left out
    (`pinned`). Otherwise stock differs from itself by a factor. Pools spin as users have it.
    """
    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
        if 1 < threads <= len(PROCESSORS):
            others = ";".join(str(processor + 1) for processor in PROCESSORS[1:threads])  # counted from 1
            options.add_session_config_entry("session.intra_op_thread_affinities", others)
    return options


#: Those that this process may use.
PROCESSORS = tuple(sorted(os.sched_getaffinity(0)))


@contextlib.contextmanager
def pinned(threads: int | None) -> Iterator[None]:
    """The calling thread on the first processor, where `session_options` pins the others."""
    if threads is None or threads > len(PROCESSORS):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {PROCESSORS[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bound(
    session: ort.InferenceSession, product: Product, device: Listed
) -> tuple[Callable[[], object], Callable[[], Array]]:
    """A call on operands that lie in the device's memory already, and what fetches the answer.

    Runs the session once before: a session that measures at the first use has measured when this returns.
    """
    shape = product.shape
    lead = (shape.batch,) if shape.batch > 1 else ()
    kind, _ = _STORED.get(product.kind, (np.float32, 0))
    values = product.feeds
    answer = aligned((*lead, shape.m, shape.n), kind)
    binding = session.io_binding()
    kept: list[object] = [values, answer]
    if device.is_card:
        for name, array in values.items():
            kept.append(_on_card(device, array))
            binding.bind_ortvalue_input(name, kept[-1])
        output = _on_card(device, answer)
        binding.bind_ortvalue_output("Y", output)
    else:
        for name, array in values.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("Y", "cpu", 0, kind, list(answer.shape), answer.ctypes.data)

    # The binding knows addresses only: the call keeps what lies there alive.
    def call(keep: object = kept) -> None:
        session.run_with_iobinding(binding)

    call()
    return call, (output.numpy if device.is_card else lambda: answer)


def _on_card(device: Listed, values: Array) -> Any:
    """A copy there, under the name that this onnxruntime has for that memory."""
    if device.backend == "cuda" and "CUDAExecutionProvider" in ort.get_available_providers():
        return ort.OrtValue.ortvalue_from_numpy(values, "cuda", device.ordinal)
    return ort.OrtValue.ortvalue_from_numpy(values, "gpu", device.ordinal, _VENDORS[device.backend])


def aligned(size: Sequence[int], kind: Any) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    room = np.zeros(math.prod(size) * np.dtype(kind).itemsize + _ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    values: Array = room[start : start + len(room) - _ALIGNMENT].view(kind).reshape(tuple(size))
    return values


def error(product: Product, got: Array, seed: int = 0) -> float:
    """The largest |got - exact| / tolerance (docs/tuning.md, "The check"); above 1 is wrong, NaN infinite.

    Of all rows of a small product; else of the first, the last and some drawn between them.
    """
    shape = product.shape
    a = product.a.reshape(-1, shape.k)
    answer = got.reshape(-1, shape.n)
    rows = np.arange(len(a))
    if shape.flops > _MOST_CHECKED:
        drawn = np.random.default_rng(seed).choice(len(a), min(_SAMPLED_ROWS, len(a)), replace=False)
        rows = np.unique(np.concatenate([drawn, [0, len(a) - 1]]))
    worst = 0.0
    step = max(1, _CHUNK // shape.k)
    for item in range(1 if product.b.ndim == 2 else shape.batch):
        mine = rows if product.b.ndim == 2 else rows[rows // shape.m == item]
        b = product.b if product.b.ndim == 2 else product.b[item]
        wide = a[mine].astype(np.float64)
        for start in range(0, shape.n if len(mine) else 0, step):
            part = b[:, start : start + step].astype(np.float64)
            exact = wide @ part
            allowed = _selftest_cases.tolerance(
                exact, np.abs(wide) @ np.abs(part), shape.k, _dtype(product.kind), product.precision
            )
            off = np.abs(answer[mine, start : start + step].astype(np.float64) - exact) / allowed
            worst = max(worst, float(np.nan_to_num(off, nan=math.inf).max(initial=0.0)))
    return worst


def _dtype(kind: str) -> str:
    return "fp32" if kind == "tf32" else kind
