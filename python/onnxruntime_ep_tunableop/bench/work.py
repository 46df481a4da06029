"""How much arithmetic and memory traffic the products of a model are.

FLOP: 2 m n k for each product of a batch, whatever fewer a kernel may get away with; bias, activation and
scaling are not counted. Bytes: A, B, C where there is one, and the result are each moved once, with the
sizes of their elements. Caches may save some of that and bad blocking adds to it: the figure says what the
product itself needs.

Both come from the shapes in a profile (`profile.NodeEvent`), where two things are missing.

- Attributes, so nobody says whether A is transposed. m and n are dimensions of the result, and k follows
  from the number of A's elements: k = |A| / (batch * m).
- A weight that was packed. Its size follows from n and k. Of a Gemm with two tensors left, the second is
  taken for B when it has B's dimensions, and for C otherwise. A packed B of a MatMul counts as one matrix
  for the whole batch, unless A lacks the batch, which then is B's.

Products of quantised operands (MatMulInteger, QLinearMatMul, MatMulNBits ...) and products inside larger
operators (Attention, LSTM, Conv) are not counted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .profile import Dimensions, NodeEvent

#: Operators whose inputs are A, B and perhaps C: ONNX's own and what ONNX Runtime's optimisers make of them.
MATMUL_LIKE = ("MatMul", "FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "GemmFastGelu")
GEMM_LIKE = ("Gemm", "FusedGemm")

_ELEMENT_BYTES = {
    "float": 4,
    "float16": 2,
    "bfloat16": 2,
    "double": 8,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
}


@dataclass(frozen=True)
class Product:
    """One product C[batch, m, n] = A[batch, m, k] B[batch, k, n], and what it needs."""

    m: int
    n: int
    k: int
    batch: int
    flops: float
    bytes: float


@dataclass
class NodeWork:
    """All runs of one node, taken together. `product`: that of its last run."""

    op_type: str
    provider: str
    product: Product
    runs: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0


@dataclass
class Work:
    """What the products of some events needed, all in all. `products`: how many there were.

    `by_node`: the same for each node. Its key is the node's name and its provider, so that profiles of
    several sides may be thrown together.
    """

    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    products: int = 0
    by_node: dict[tuple[str, str], NodeWork] = field(default_factory=dict)

    @property
    def gflops(self) -> float:
        """Achieved, in 10^9 FLOP for each second inside of the products; 0 where no time was seen."""
        return self.flops / self.seconds * 1e-9 if self.seconds > 0.0 else 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Likewise, in 10^9 bytes."""
        return self.bytes / self.seconds * 1e-9 if self.seconds > 0.0 else 0.0


#: Names of this project for the types in a profile.
TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64"}


def element_type(events: Iterable[NodeEvent]) -> str:
    """The type that most FLOP of the events are done in, of TYPES; fp32 where there are none of these."""
    flops: dict[str, float] = {}
    for event in events:
        if (product := of_event(event)) is not None and event.input_types[0] in TYPES:
            name = TYPES[event.input_types[0]]
            flops[name] = flops.get(name, 0.0) + product.flops
    return max(flops, key=lambda name: flops[name]) if flops else "fp32"


def type_of(problems: Sequence[Mapping[str, Any]], precision: str) -> str:
    """The type that most of our products are done in; empty where we have none."""
    names = TYPES.values()
    found = [part for told in problems for part in str(told["problem"]).split(",") if part in names]
    most = max(sorted(set(found)), key=found.count, default="")
    return precision if most == "fp32" and precision != "exact" else most


def of_events(events: Iterable[NodeEvent]) -> Work:
    """The work of all events that are products; of several runs when they are of several runs."""
    work = Work()
    for event in events:
        product = of_event(event)
        if product is None:
            continue
        key = (event.name, event.provider)
        node = work.by_node.setdefault(key, NodeWork(event.op_type, event.provider, product))
        node.product = product
        for total in (work, node):
            total.flops += product.flops
            total.bytes += product.bytes
            total.seconds += event.seconds
        node.runs += 1
        work.products += 1
    return work


def median_seconds(events: Iterable[NodeEvent], runs: int) -> float:
    """What the products of one of `runs` runs take: the median run, as reports have whole runs.

    The mean where runs have different numbers of products (a loop that ends by chance); 0 without any.
    """
    times = [event.seconds for event in events if of_event(event) is not None]
    size, rest = divmod(len(times), runs)
    if rest:
        return math.fsum(times) / runs
    return statistics.median(math.fsum(times[at * size : (at + 1) * size]) for at in range(runs))


def of_event(event: NodeEvent) -> Product | None:
    """The product of one run of a node; None where it is none, or its shapes do not say."""
    if event.op_type not in MATMUL_LIKE + GEMM_LIKE or not event.input_shapes or not event.output_shapes:
        return None
    a, out = event.input_shapes[0], event.output_shapes[0]
    others = list(zip(event.input_types, event.input_shapes, strict=True))[1:]
    if event.op_type in GEMM_LIKE:
        found = _gemm(a, out)
    else:
        found = _matmul(event.op_type, a, others[0][1] if others else None, out)
    if found is None:
        return None
    m, n, k, batch = found
    size = _ELEMENT_BYTES.get(event.input_types[0])
    out_size = _ELEMENT_BYTES.get(event.output_types[0])
    if size is None or out_size is None:
        return None
    moved = float(size * math.prod(a) + out_size * math.prod(out))
    if not others or not _may_be_b(event.op_type, others[0][1], n, k):
        # Packed, and so a weight. Where A alone does not have the batch of the result, B has it.
        own = 1 if event.op_type in GEMM_LIKE or math.prod(a) == batch * m * k else batch
        moved += size * own * k * n
    moved += sum(_ELEMENT_BYTES.get(kind, 0) * math.prod(shape) for kind, shape in others)
    return Product(m, n, k, batch, 2.0 * batch * m * n * k, moved)


def _may_be_b(op_type: str, shape: Dimensions, n: int, k: int) -> bool:
    if op_type in GEMM_LIKE:
        return len(shape) == 2 and sorted(shape) == sorted((k, n))
    return op_type != "GemmFastGelu" or len(shape) > 1  # else its bias


def _gemm(a: Dimensions, out: Dimensions) -> tuple[int, int, int, int] | None:
    if len(a) != 2 or len(out) != 2:
        return None
    k = _quotient(math.prod(a), out[0])
    return None if k is None else (out[0], out[1], k, 1)


def _matmul(
    op_type: str, a: Dimensions, b: Dimensions | None, out: Dimensions
) -> tuple[int, int, int, int] | None:
    """m, n, k and batch by numpy's rules, transposed or not."""
    if not a:
        return None
    # A vector is a row as A, a column as B; its dimension of 1 is not in the result. A packed B says nothing:
    # then it was a vector when the result has a dimension less than A.
    b_is_vector = len(b) == 1 if b is not None else len(a) > 1 and len(out) == len(a) - 1
    if op_type == "GemmFastGelu":
        b, b_is_vector = None, False
    rest = list(out)
    n = 1 if b_is_vector else (rest.pop() if rest else 1)
    m = 1 if len(a) == 1 else (rest.pop() if rest else 1)
    batch = math.prod(rest)
    if len(a) == 1:
        k: int | None = a[0]
    elif op_type == "MatMul":
        k = a[-1] if a[-2] == m else None
    else:
        k = _k(a, tuple(rest), m)
    if k is None or (b is not None and k not in b):
        return None
    return m, n, k, batch


def _k(a: Dimensions, batch: Dimensions, m: int) -> int | None:
    """k of an A that may be transposed, or have its batch inside.

    That is [..., m, k] or [..., k, m]; [m, ..., k] or [k, ..., m] with its batch inside. The first two are
    tried first, because only there may dimensions of the batch be missing or 1. Where the last two fit them
    too, k comes out the same.
    """
    lead = a[:-2]
    fits = len(lead) <= len(batch) and all(
        have in (1, want) for have, want in zip(reversed(lead), reversed(batch), strict=False)
    )
    if fits and m in a[-2:]:
        return a[-1] if a[-2] == m else a[-2]
    return _quotient(math.prod(a), math.prod(batch) * m)


def _quotient(above: int, below: int) -> int | None:
    """None where it is no whole number, and of nothing."""
    return above // below if below > 0 and above % below == 0 else None
