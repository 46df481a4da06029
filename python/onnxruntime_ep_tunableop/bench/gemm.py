"""Single products, one row for each shape and kernel: what an election saw, and what a session makes of it.

Two kinds of times, which are not to be compared with each other:

- of a kernel alone ("race", "probe"), from the samples of a real election with all candidates (option
  `trace`). Those that raced have a sample from every round, so their gain over the default has an interval.
  Those that were only probed were out after a few calls, early and less quietly.
  - of a whole call through ONNX Runtime ("session"): the stock provider, our default kernels (`untuned`,
    tuning="off") and what the election chose (`tuned`), in turns, on operands that stay in place. On a card
    that includes the host's part of a call, which is more than the product for small ones, and with bf16
    the casts of what goes in and out.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort

from .. import _control, _devices
from .._devices import Listed
from .._library import register
from ..errors import OptionError
from . import product as products
from .figures import Interval, bootstrap_ratio, percentile
from .product import Product
from .shapes import Shape, read_shapes
from .turns import Calls, Plan, Progress, Turns, take_turns

__all__ = ["GemmRow", "Sampled", "read_shapes", "read_trace", "run"]

_ROUNDS, _SECONDS, _MAX_TUNING_MS = 9, 0.1, 2000.0


@dataclass(frozen=True)
class GemmRow:
    """One kernel on one shape.

    `kernel`: as explain names it, or "stock:PROVIDER". `role`: "winner", "default" or "candidate" of the
    election, "spectator" for the stock provider's kernel where it raced beside; "stock", "untuned" and
    "tuned" for sessions. `timed`: "race", "probe" or "session". `median` and `spread` (interquartile range)
    in seconds, of `samples` figures: those of the election, or the medians of rounds.
    """

    shape: Shape
    type: str  #: fp32, fp16, bf16, tf32
    threads: int | None
    kernel: str
    role: str
    is_default: bool  #: the kernel that runs unmeasured; may be the winner, too
    timed: str
    samples: int
    median: float
    spread: float
    bytes: float  #: A, B and C moved once
    #: How many times as fast as the default kernel, timed in the same way; None where that was not timed.
    gain: float | None
    gain_interval: Interval | None  #: 95 %, rounds drawn in pairs; None for a probe
    speedup: Interval | None  #: how many times as fast as the stock session; of sessions only
    #: The largest |got - exact| / tolerance; above 1 is wrong. None where nobody compared that kernel alone.
    error: float | None
    note: str = ""  #: why this kernel runs

    @property
    def gflops(self) -> float:
        """10^9 FLOP a second at the median."""
        return self.shape.flops / self.median * 1e-9 if self.median > 0.0 else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """10^9 bytes a second at the median."""
        return self.bytes / self.median * 1e-9 if self.median > 0.0 else 0.0

    def document(self) -> dict[str, Any]:
        """Everything, for a file: the rates, too."""
        rates = {"gflops": self.gflops, "gigabytes_per_second": self.gigabytes_per_second}
        return {**asdict(self), "size": self.shape.size, **rates}


@dataclass(frozen=True)
class Sampled:
    """One kernel of an election; `seconds` in the order of rounds."""

    kernel: str
    role: str  #: as the trace has it: default, winner, challenger, spectator
    elected: bool
    phase: str  #: race, probe
    seconds: tuple[float, ...]


def read_trace(path: Path) -> list[Sampled]:
    """The kernels of a trace of one election. ValueError: it is no trace, or one of several."""
    kernels: dict[str, list[dict[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            kernels.setdefault(f"{line.get('library')}:{line.get('kernel')}", []).append(line)
    found = []
    try:
        for kernel, lines in kernels.items():
            if [int(line["round"]) for line in lines] != list(range(len(lines))):
                raise ValueError(f"several elections, or samples of {kernel} are missing")
            seconds = tuple(float(line["ms"]) * 1e-3 for line in lines)
            first = lines[0]
            found.append(Sampled(kernel, first["role"], first["elected"] == "1", first["phase"], seconds))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: expected the trace of one election: {error}") from error
    return found


def run(
    shapes: Sequence[Shape],
    *,
    device: str = "auto",
    threads: int | None = None,
    types: Sequence[str] | None = None,
    rounds: int = _ROUNDS,
    seconds: float | None = None,
    max_tuning_ms: float = _MAX_TUNING_MS,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[GemmRow]:
    """Measures every shape in every type: fp32 on the CPU; on a card fp32, fp16 and bf16, unless told.

    `threads`: of the sessions' pools; None leaves it to ONNX Runtime. `seconds`: of a block of calls, of
    which each session has one in each of `rounds` rounds. `progress` is told before each shape, and at the
    end. The rows of one shape stand together: the sessions, then the election from the fastest kernel on.

    Raises:
        OptionError: no such device, or a type that it cannot have.
        NoDeviceError: this machine has no such device.
    """
    register()
    chosen = _devices.choose(device)
    kinds = _types(chosen, types)
    plan = Plan(rounds=rounds, seconds=_SECONDS if seconds is None else seconds, seed=seed)
    steps = [(shape, kind) for shape in shapes for kind in kinds]
    rows: list[GemmRow] = []
    for at, (shape, kind) in enumerate(steps):
        if progress is not None:
            progress(f"{shape.name} {kind}", at, len(steps))
        rows += _measure(products.make(shape, kind, seed), chosen, threads, plan, max_tuning_ms)
    if progress is not None:
        progress("done", len(steps), len(steps))
    return rows


def _types(device: Listed, asked: Sequence[str] | None) -> Sequence[str]:
    allowed = products.TYPES if device.is_card else products.CPU_TYPES
    if asked is None:
        return products.CARD_TYPES if device.is_card else products.CPU_TYPES
    for kind in asked:
        if kind not in allowed:
            raise OptionError(f"types: expected {', '.join(allowed)} on {device}, found '{kind}'")
    return asked


def _measure(
    product: Product, device: Listed, threads: int | None, plan: Plan, max_tuning_ms: float
) -> list[GemmRow]:
    with products.pinned(threads), _elected(product, device, threads, max_tuning_ms) as (tuned, trace):
        sessions: dict[str, ort.InferenceSession | None] = {
            "stock": products.stock_session(product, device, threads),
            "untuned": products.our_session(product, device, threads, tuning="off"),
            "tuned": tuned,
        }
        calls: dict[str, Callable[[], object]] = {}
        errors: dict[str, float] = {}
        for name, session in sessions.items():
            if session is not None:
                calls[name], fetch = products.bound(session, product, device)
                errors[name] = products.error(product, fetch(), plan.seed)
        election = read_trace(trace) if trace.is_file() else []
        turns = take_turns({name: Calls(call) for name, call in calls.items()}, plan)
        make = _RowMaker(product, threads)
        provider = products.stock_provider(device, product.precision)
        rows = _session_rows(make, turns, errors, sessions, f"stock:{provider[0]}" if provider else "")
        return rows + _election_rows(make, election, _error_of_the_winner(tuned))


@contextmanager
def _elected(
    product: Product, device: Listed, threads: int | None, max_tuning_ms: float
) -> Iterator[tuple[ort.InferenceSession, Path]]:
    """A session that measures every candidate in its first run, and the file with what it sees."""
    with tempfile.TemporaryDirectory(prefix="tunableop-bench-") as folder:
        trace = Path(folder) / "trace.csv"
        session = products.our_session(
            product,
            device,
            threads,
            tuning="online",
            candidates="all",
            max_tuning_ms=max_tuning_ms,
            max_session_ms=0,
            trace=trace,
        )
        yield session, trace


@dataclass(frozen=True)
class _RowMaker:
    product: Product
    threads: int | None

    def __call__(
        self,
        kernel: str,
        role: str,
        timed: str,
        seconds: Sequence[float],
        *,
        is_default: bool,
        gain: tuple[float | None, Interval | None],
        speedup: Interval | None = None,
        error: float | None = None,
        note: str = "",
    ) -> GemmRow:
        return GemmRow(
            shape=self.product.shape,
            type=self.product.kind,
            threads=self.threads,
            kernel=kernel,
            role=role,
            is_default=is_default,
            timed=timed,
            samples=len(seconds),
            median=statistics.median(seconds),
            spread=percentile(seconds, 75) - percentile(seconds, 25),
            bytes=self.product.bytes,
            gain=gain[0],
            gain_interval=gain[1],
            speedup=speedup,
            error=error,
            note=note,
        )


def _session_rows(
    make: _RowMaker,
    turns: Turns,
    errors: dict[str, float],
    sessions: dict[str, ort.InferenceSession | None],
    stock: str,
) -> list[GemmRow]:
    rows = []
    for name, error in errors.items():
        kernel, note, is_default = stock, "", False
        session = sessions[name]
        if name != "stock" and session is not None:
            shapes = _control.explain(session).shapes
            kernels = dict.fromkeys(shape.kernel for shape in shapes)
            kernel = ", ".join(kernels) or "(left to another provider)"
            note = "; ".join(dict.fromkeys(shape.why for shape in shapes))
            is_default = bool(shapes) and all(shape.kernel == shape.default_kernel for shape in shapes)
        gain = turns.ratio("untuned", name)
        speedup = turns.ratio("stock", name) if "stock" in errors else None
        rows.append(
            make(
                kernel,
                name,
                "session",
                turns.round_medians(name),
                is_default=is_default,
                gain=(gain.value, gain),
                speedup=speedup,
                error=error,
                note=note,
            )
        )
    return rows


def _election_rows(make: _RowMaker, election: Sequence[Sampled], error: float | None) -> list[GemmRow]:
    default = next((one for one in election if one.role == "default"), None)
    rows = []
    for one in election:
        if one.elected:
            role = "winner"
        elif one.role in ("default", "spectator"):
            role = one.role
        else:
            role = "candidate"
        rows.append(
            make(
                one.kernel,
                role,
                one.phase,
                one.seconds,
                is_default=one is default,
                gain=_gain(default, one),
                error=error if one.elected else None,
            )
        )
    # Those that raced first, for a probe's figure is of another kind; in each part the fastest first.
    return sorted(rows, key=lambda row: (row.timed != "race", row.median))


def _gain(default: Sampled | None, one: Sampled) -> tuple[float | None, Interval | None]:
    """Over the default. With an interval where both raced, in pairs where they have the same rounds."""
    if default is None:
        return None, None
    if default.phase == one.phase == "race":
        paired = len(default.seconds) == len(one.seconds)
        interval = bootstrap_ratio(default.seconds, one.seconds, paired=paired)
        return interval.value, interval
    return statistics.median(default.seconds) / statistics.median(one.seconds), None


def _error_of_the_winner(session: ort.InferenceSession) -> float | None:
    """As the election found it; None where it did not compare (nothing was measured)."""
    tuned = [shape for shape in _control.explain(session).shapes if shape.tuned and shape.milliseconds > 0]
    return max((shape.error for shape in tuned), default=None)
