"""Cases of operators: many nodes in one model, run on a card and by ONNX Runtime's CPU provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper, numpy_helper

from support.cards import card_session

Array = npt.NDArray[Any]

CONTRIB = "com.microsoft"
#: Relative and absolute; of halves: half a unit in the last place of what is near 1, and some more.
TOLERANCES = {
    "float32": (2e-6, 2e-6),
    "float64": (1e-12, 1e-12),
    "float16": (2e-3, 1e-3),
    "bf16": (1.6e-2, 8e-3),
}


@dataclass
class Case:
    """One node. `bf16`: its fp32 inputs are cast to that, and its outputs back."""

    op: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    domain: str = ""
    outputs: int = 1
    constants: tuple[int, ...] = ()  #: inputs that are initializers
    bf16: bool = False
    loose: float = 1.0  #: times the tolerance of its type
    note: str = ""

    def __str__(self) -> str:
        """What it is, for a person."""
        kinds = [f"{a.dtype}{list(a.shape)}" if a is not None else "-" for a in self.inputs]
        what = "bf16 " if self.bf16 else ""
        return f"{what}{self.op}-{self.opset}({', '.join(kinds)}) {dict(self.attributes)} {self.note}".strip()


def some(
    shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0, low: float = -2.0, high: float = 2.0
) -> Array:
    """Random elements of a type; integers and bools, too. "bf16": fp32, which a case casts."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype not in ("bf16",) and np.dtype(dtype).kind in "iu":
        return rng.integers(
            int(min(low, 0)) * 4 if np.dtype(dtype).kind == "i" else 0, int(high) * 5, shape
        ).astype(dtype)
    values = rng.uniform(low, high, shape)
    return np.asarray(values, np.float32 if dtype == "bf16" else dtype)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def _kind(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


#: What a model says of its inputs' shapes: all of it, how many dimensions there are, nothing.
Shapes = Literal["known", "free", "unknown"]


def _declared(array: Array, shapes: Shapes, name: str) -> list[Any] | None:
    if shapes == "unknown":
        return None
    return list(array.shape) if shapes == "known" else [f"{name}_{i}" for i in range(array.ndim)]


def build(
    cases: Sequence[Case], *, halves: bool, shapes: Shapes = "known"
) -> tuple[onnx.ModelProto, dict[str, Array], list[list[str]]]:
    """The model, its feeds, and the outputs' names of each case.

    `halves`: fp16 and bf16 as they are; else their nodes compute in fp32 on rounded inputs, as a reference.
    """
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    feeds: dict[str, Array] = {}
    outputs: list[list[str]] = []
    for at, case in enumerate(cases):
        names = []
        for n, array in enumerate(case.inputs):
            if array is None:
                names.append("")
                continue
            name = f"c{at}_i{n}"
            given = array
            if not halves and array.dtype == np.float16:
                given = array.astype(np.float32)
            if n in case.constants:
                constants.append(numpy_helper.from_array(given, name))
            else:
                declared = _declared(given, shapes, name)
                inputs.append(helper.make_tensor_value_info(name, _kind(given), declared))
                feeds[name] = given
            if case.bf16 and array.dtype == np.float32:
                nodes.append(helper.make_node("Cast", [name], [f"{name}_b"], to=TensorProto.BFLOAT16))
                name = f"{name}_b"
                if not halves:
                    nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT))
                    name = f"{name}_f"
            names.append(name)
        made = [f"c{at}_o{n}" for n in range(case.outputs)]
        direct = [f"{name}_b" for name in made] if case.bf16 and halves else made
        nodes.append(
            helper.make_node(
                case.op, names, direct, name=f"case{at}", domain=case.domain, **dict(case.attributes)
            )
        )
        if direct != made:
            for one, other in zip(direct, made, strict=True):
                nodes.append(helper.make_node("Cast", [one], [other], to=TensorProto.FLOAT))
        outputs.append(made)
    results = [helper.make_empty_tensor_value_info(name) for made in outputs for name in made]
    graph = helper.make_graph(nodes, "cases", inputs, results, constants)
    opsets = [helper.make_opsetid("", cases[0].opset), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds, outputs


def _settings() -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.log_severity_level = 3
    return settings


def _of_cpu(cases: Sequence[Case], halves: bool) -> list[list[Array]]:
    model, feeds, outputs = build(cases, halves=halves)
    session = ort.InferenceSession(model.SerializeToString(), _settings(), providers=["CPUExecutionProvider"])
    results = iter(session.run(None, feeds))
    return [[next(results) for _ in made] for made in outputs]


def difference(case: Case, got: Array, expected: Array) -> str:
    """In words; "" where they agree."""
    if got.shape != expected.shape:
        return f"shape {got.shape} instead of {expected.shape}"
    floating = got.dtype.kind == "f"
    if not floating:
        wrong = got != expected
    else:
        kind = "bf16" if case.bf16 else str(got.dtype)
        relative, absolute = TOLERANCES[kind]
        exact = expected.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = expected.astype(got.dtype)  # what is too large for the type is infinite
            far = np.abs(got.astype(np.float64) - exact) > case.loose * (absolute + relative * np.abs(exact))
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        wrong = ~same & (far | ~np.isfinite(got))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} wrong, first at {at}: {got[at]} instead of {expected[at]}"


def check(cases: Iterable[Case], shapes: Shapes = "known") -> Counter[str]:
    """All cases on the card, against the CPU provider's answers; returns how many there were of each.

    Fails with every case that is wrong, or, where shapes are known, whose node is not the card's.
    """
    by_opset: dict[int, list[Case]] = {}
    for case in cases:
        by_opset.setdefault(case.opset, []).append(case)
    complaints: list[str] = []
    counts: Counter[str] = Counter()
    for some in by_opset.values():
        model, feeds, outputs = build(some, halves=True, shapes=shapes)
        session = card_session(model, settings=_settings(), claim="all")
        reasons = {n.name: n for n in tunableop.explain(session).operators}
        for at, case in enumerate(some):
            told = reasons[f"case{at}"]
            counts[case.op] += told.claimed or shapes == "known"
            if not told.claimed and shapes == "known":
                complaints.append(f"{case}: {told.reason}")
        for run in range(2):
            results = iter(session.run(None, feeds))
            exact = _of_cpu(some, halves=False)
            for case, made, expected in zip(some, outputs, exact, strict=True):
                for n in range(len(made)):
                    words = difference(case, next(results), expected[n])
                    if words:
                        complaints.append(f"{case}, output {n}, run {run}: {words}")
    assert not complaints, f"{len(complaints)} complaints:\n" + "\n".join(complaints[:60])
    return counts
