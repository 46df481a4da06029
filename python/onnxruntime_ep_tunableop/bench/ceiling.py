"""What a machine can do at most, as measured: a product's rate means little without it.

Arithmetic: square products large enough that moving their operands hardly counts, through a session of ours
(tuned), through one of the stock provider, and on a CPU by numpy where its own threads are as many as the
sessions'. The fastest single call counts. Data sheets are not asked: what a machine does all day is below
what they promise.

Bandwidth: one row times a matrix far larger than the last cache, through both sessions. On a CPU also the
sum of as much memory, and a copy of it (what it reads and what it writes), by as many threads as the
sessions have. The matrix has at most half a gigabyte, so with a larger cache the figure is partly the
cache's; `how` names both sizes. A product whose operands stay in a cache may be above this ceiling. On a
card the time of a call includes the host's part, some per cent of these products.

A CPU runs products of fp16 and bf16 in fp32, so they are measured as fp32 there.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from .. import _devices
from .._devices import Listed
from .._library import register
from ..errors import OptionError
from . import product as products
from .product import PROCESSORS, Product
from .shapes import Shape

_MIB = 1 << 20
_MOST_WEIGHTS, _LEAST_WEIGHTS = 512 * _MIB, 16 * _MIB
_MOST_CARD_WEIGHTS = 2048 * _MIB
_ROW = 4096  # k of the product whose matrix is streamed


@dataclass(frozen=True)
class Ceiling:
    """The best rates seen. `how`: who reached them with what, in words."""

    gflops: float
    gigabytes_per_second: float
    how: str


@dataclass(frozen=True)
class Effort:
    """How much is measured: sizes of squares, bytes of the matrix that is streamed, seconds in all.

    A square is left out when its calls would not fit into the seconds that are left.
    """

    squares: tuple[int, ...]
    stream_bytes: int
    seconds: float = 1.5


@dataclass(frozen=True)
class _Best:
    rate: float  #: FLOP or bytes in a second
    who: str


def measure(
    device: str = "auto", threads: int | None = None, dtype: str = "fp32", *, effort: Effort | None = None
) -> Ceiling:
    """The ceiling of a device in a type: fp32, fp16, bf16, tf32 or fp64. Takes a few seconds.

    `threads`: as of the sessions that are compared with it; None leaves it to ONNX Runtime.

    Raises:
        OptionError: no such device or type.
        NoDeviceError: this machine has no such device.
    """
    register()
    chosen = _devices.choose(device)
    if dtype not in products.ELEMENT_BYTES:
        raise OptionError(f"dtype: expected {', '.join(products.ELEMENT_BYTES)}, found '{dtype}'")
    kind = dtype if chosen.is_card or dtype == "fp64" else "fp32"
    effort = effort or _effort(chosen)
    arithmetic = _arithmetic(chosen, threads, kind, effort)
    bandwidth, size = _bandwidth(chosen, threads, kind, effort)
    cache = last_level_cache() if not chosen.is_card else 0
    how = f"{kind}: {arithmetic.who}; {bandwidth.who} of {size / _MIB:.4g} MiB"
    if cache:
        how += f" (last cache: {cache / _MIB:.0f} MiB)"
    return Ceiling(arithmetic.rate * 1e-9, bandwidth.rate * 1e-9, how)


def _effort(device: Listed) -> Effort:
    if device.is_card:
        memory = next((entry.memory_bytes for entry in _devices.devices() if entry.id == device.id), 0)
        return Effort((2048, 4096, 8192), max(_LEAST_WEIGHTS, min(_MOST_CARD_WEIGHTS, memory // 8)))
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    wanted = 4 * last_level_cache() or _MOST_WEIGHTS
    return Effort((512, 1024, 2048), max(_LEAST_WEIGHTS, min(_MOST_WEIGHTS, wanted, free // 8)))


def last_level_cache() -> int:
    """Bytes of the processor's last cache, as the system gives them; 0 where it does not."""
    sizes = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, text = (int((folder / "level").read_text()), (folder / "size").read_text().strip())
            sizes[level] = int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[text[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return sizes[max(sizes)] if sizes else 0


def _fastest(call: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest of some calls: two at least, after an untimed one."""
    clock = time.perf_counter
    call()
    end = clock() + seconds
    best = float("inf")
    at_least = 2
    while at_least > 0 or clock() < end:
        at_least -= 1
        start = clock()
        call()
        best = min(best, clock() - start)
    return max(best, 1e-9)


def _sessions(
    product: Product, device: Listed, threads: int | None, **options: Any
) -> Iterator[tuple[str, ort.InferenceSession]]:
    """Ours where it takes such a product, and the stock provider's where there is one; one at a time."""
    if device.is_card or product.kind in products.CPU_TYPES:
        yield "tunableop", products.our_session(product, device, threads, **options)
    stock = products.stock_session(product, device, threads)
    if stock is not None:
        yield stock.get_providers()[0], stock


def _arithmetic(device: Listed, threads: int | None, kind: str, effort: Effort) -> _Best:
    best = _Best(0.0, "no product")
    left = effort.seconds / 2
    for size in effort.squares:
        # Session, tuning and three calls of each.
        if best.rate > 0.0 and 12 * 2.0 * size**3 / best.rate > left:
            break
        start = time.perf_counter()
        product = products.make(Shape("square", 1, size, size, size, True), kind)
        share = left / len(effort.squares) / 4
        with products.pinned(threads):
            for who, session in _sessions(product, device, threads):
                call, _ = products.bound(session, product, device)
                best = _better(best, product.shape.flops, _fastest(call, share), f"{who} at {size} squared")
        if not device.is_card and (threads is None or threads >= len(PROCESSORS)):
            seconds = _fastest(
                functools.partial(np.matmul, product.a, product.b, out=product.a.copy()), share
            )
            best = _better(best, product.shape.flops, seconds, f"numpy at {size} squared")
        left -= time.perf_counter() - start
    return best


def _better(best: _Best, amount: float, seconds: float, who: str) -> _Best:
    return _Best(amount / seconds, who) if amount / seconds > best.rate else best  # P


def _bandwidth(device: Listed, threads: int | None, kind: str, effort: Effort) -> tuple[_Best, int]:
    """The best rate, and the bytes of what was streamed."""
    # Models of bf16 cast their inputs, which would be most of the time here; bytes are bytes.
    kind = "fp16" if kind == "bf16" else kind
    columns = max(1, effort.stream_bytes // products.ELEMENT_BYTES[kind] // _ROW)
    # B is an input: a weight would be copied into the model, into the session and once more when it is
    # packed.
    product = products.make(Shape("stream", 1, 1, columns, _ROW, False), kind)
    best = _Best(0.0, "no product")
    share = effort.seconds / 8
    with products.pinned(threads):
        for who, session in _sessions(product, device, threads, tuning="off"):
            call, _ = products.bound(session, product, device)
            best = _better(best, product.bytes, _fastest(call, share), f"{who} with a matrix")
    if not device.is_card:
        best = _memory(best, product.b.reshape(-1), threads or len(PROCESSORS), share)
    return best, product.b.nbytes


def _memory(best: _Best, values: Any, threads: int, seconds: float) -> _Best:
    """By numpy, which holds no lock of Python's meanwhile. The copy overwrites half of `values`."""
    parts = np.array_split(values, threads)
    half = len(values) // 2
    into, out_of = (np.array_split(part, threads) for part in (values[half : 2 * half], values[:half]))
    with ThreadPoolExecutor(threads) as pool:
        took = _fastest(lambda: list(pool.map(np.add.reduce, parts)), seconds)
        best = _better(best, float(values.nbytes), took, "the sum")
        took = _fastest(lambda: list(pool.map(np.copyto, into, out_of)), seconds)
        return _better(best, 2.0 * half * values.itemsize, took, "the copy")
