"""What a benchmark of a model found, ready for JSON: `dataclasses.asdict` of a Report is the document.

Times are seconds, sizes bytes, rates per second. docs/bench.md describes the document;
SCHEMA changes with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .figures import Agreement, Interval, Latency, Throughput

SCHEMA = 1

#: Exit codes of `tunableop bench` beside 0 (fine), 1 (it broke) and 2 (wrong usage); the first that holds.
ANSWERS_DIFFER = 3
NOTHING_RAN = 4
FELL_BACK = 5


@dataclass(frozen=True)
class FirstRequest:
    """What a fresh process pays, medians over `repeats` processes."""

    import_seconds: float  #: of onnxruntime, and of this package where it is used
    creation_seconds: float  #: of the session
    first_request_seconds: float  #: the first run
    second_request_seconds: float
    peak_bytes: int  #: of resident memory
    repeats: int


@dataclass(frozen=True)
class ProviderTime:
    """How many nodes of the optimised graph a provider ran, and how long they took in one run."""

    provider: str
    nodes: int
    seconds: float


@dataclass(frozen=True)
class SideReport:
    """One contender."""

    name: str
    kind: str  #: stock or tunableop
    providers: list[str]  #: of its session, in order
    options: dict[str, str]  #: ours, as given
    versions: dict[str, str]
    latency: Latency
    throughput: Throughput
    agreement: Agreement  #: with the baseline's answers
    creation_seconds: float  #: in the process that was measured
    first: FirstRequest | None  #: None: no fresh process was asked for
    first_with_results: FirstRequest | None  #: ours only: the same with tuning results in a file
    #: of its products, over the median of a whole run, of several calls at the same time by their calls per
    #: second; 0: the model has none, or it is not known
    gflops: float
    gigabytes_per_second: float  #: the same of the products' operands, each moved once
    product_gflops: float  #: over the time inside of the products, by the profile; 0: not known, as on a card
    product_gigabytes_per_second: float
    provider_times: list[ProviderTime]  #: empty: not profiled
    tuned: int = 0  #: problems measured
    tuning_seconds: float = 0.0
    hits: int = 0  #: timed calls of products that ran what was measured
    denied: int = 0
    runtime_fallbacks: dict[str, int] = field(default_factory=dict)  #: timed runs on an unmeasured kernel


@dataclass(frozen=True)
class NodeReport:
    """A MatMul or Gemm of the graph, and what we said of it."""

    name: str
    op_type: str
    claimed: bool
    asked_for: bool  #: refused, and by the options' own will
    reason: str


@dataclass(frozen=True)
class ShapeReport:
    """One problem of the first of our sides: what runs it and what that gained."""

    problem: str
    kernel: str
    default_kernel: str
    milliseconds: float
    default_milliseconds: float
    why: str


@dataclass(frozen=True)
class RatioReport:
    """How many times as fast as the baseline, by the medians of rounds, with a 95 % bootstrap interval."""

    side: str
    baseline: str
    interval: Interval


@dataclass(frozen=True)
class WorkReport:
    """What one run of the model computes in its products."""

    products: int
    flops: float
    bytes: float
    element_type: str  #: of most of it: fp32, fp16, bf16 or fp64


@dataclass(frozen=True)
class CeilingReport:
    """The best rates that were seen on this machine just now."""

    gflops: float
    gigabytes_per_second: float
    how: str


@dataclass(frozen=True)
class Report:
    """All of it. `code` is the exit code, `complaints` say why it is not 0."""

    schema: int
    machine: dict[str, str]
    model: str
    shapes: str
    plan: dict[str, Any]
    baseline: str
    sides: list[SideReport]
    ratios: list[RatioReport]
    work: WorkReport | None
    ceiling: CeilingReport | None
    nodes: list[NodeReport]
    problems: list[ShapeReport]
    notes: list[str]
    code: int
    complaints: list[str]
    order: list[list[str]]  #: of the sides in each round, as drawn
    samples: dict[str, list[list[float]]]  #: seconds of every call, by side and round

    def side(self, name: str) -> SideReport:
        """By name. KeyError: there is none."""
        for side in self.sides:
            if side.name == name:
                return side
        raise KeyError(name)

    def ratio(self, name: str) -> Interval | None:
        """Of a side to the baseline; None of the baseline itself."""
        return next((ratio.interval for ratio in self.ratios if ratio.side == name), None)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"tool": "tunableop bench", **asdict(self)}
