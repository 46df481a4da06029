"""Small models of a few nodes that a card may run as one: written once, run in any type, and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper, numpy_helper

from support.cards import card_session
from support.operators import CONTRIB

Array = npt.NDArray[Any]
KINDS = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
#: Relative and absolute, for what some roundings to the type leave of numbers near 1.
TOLERANCES = {"fp32": (1e-5, 1e-5), "fp16": (4e-3, 4e-3), "bf16": (3e-2, 3e-2)}


def some(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.uniform(low, high, shape), np.float32)


def _rounded(values: Array, kind: str) -> Array:
    """fp32 that the type can hold."""
    values = np.asarray(values, np.float32)
    if kind == "fp16":
        return np.asarray(values.astype(np.float16).astype(np.float32))
    if kind == "bf16":
        bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
        kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return np.asarray(kept.astype(np.uint32).view(np.float32).reshape(values.shape))
    return values


class Net:
    """Nodes of one type. Twice: as they are, and in fp32 with everything that goes in rounded."""

    def __init__(self, kind: str = "fp32", opset: int = 17) -> None:
        """An empty one."""
        self.kind = kind
        self.opset = opset
        self.runs: list[dict[str, Array]] = []
        self._inputs: list[tuple[str, list[Any] | None, Array]] = []
        self._constants: dict[str, Array] = {}
        self._nodes: list[tuple[str, list[str], list[str], str, dict[str, Any]]] = []
        self._outputs: list[str] = []
        self._serial = 0

    def input(self, *arrays: Array, dims: Sequence[Any] | None = None) -> str:
        """One array for each run. `dims`: as the model declares them; else the first array's own."""
        name = f"in{len(self._inputs)}"
        if arrays[0].dtype == np.float32:
            arrays = tuple(_rounded(array, self.kind) for array in arrays)
        for run, array in enumerate(arrays):
            if run == len(self.runs):
                self.runs.append({})
            self.runs[run][name] = array
        self._inputs.append((name, list(dims if dims is not None else arrays[0].shape), arrays[0]))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Of the net's type where it is floating point."""
        name = f"c{len(self._constants)}"
        array = np.asarray(values, dtype)
        self._constants[name] = _rounded(array, self.kind) if array.dtype == np.float32 else array
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def wide_constant(self, value: float) -> str:
        """Of fp32, whatever the net is of."""
        name = f"wide{len(self._constants)}"
        self._constants[name] = np.asarray(value, np.float32)
        return name

    def op(self, op: str, *inputs: str | float, domain: str = "", **attributes: Any) -> str:
        """A node with one output; a number becomes a constant without dimensions."""
        names = [self.constant(one) if isinstance(one, int | float) else one for one in inputs]
        self._serial += 1
        name = f"{op.lower()}{self._serial}"
        self._nodes.append((op, names, [name], domain, attributes))
        return name

    def ops(self, op: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with that many outputs."""
        self._serial += 1
        names = [f"{op.lower()}{self._serial}_{i}" for i in range(count)]
        self._nodes.append((op, list(inputs), names, "", attributes))
        return names

    def wide(self, x: str) -> str:
        """Cast to fp32."""
        return self.op("Cast", x, to=TensorProto.FLOAT)

    def narrow(self, x: str) -> str:
        """Cast to the net's type."""
        return self.op("Cast", x, to=KINDS[self.kind])

    def output(self, *names: str) -> None:
        self._outputs += names

    def model(self, exact: bool) -> onnx.ModelProto:
        """`exact`: in fp32."""
        kind = KINDS["fp32" if exact else self.kind]
        bf16 = kind == TensorProto.BFLOAT16
        nodes, inputs, constants = [], [], []
        renamed: dict[str, str] = {}
        for name, dims, array in self._inputs:
            floating = array.dtype == np.float32
            given = int(helper.np_dtype_to_tensor_dtype(array.dtype)) if not floating or bf16 else kind
            inputs.append(helper.make_tensor_value_info(name, given, dims))
            if floating and bf16:
                renamed[name] = f"{name}_b"
                nodes.append(helper.make_node("Cast", [name], [renamed[name]], to=kind))
        for name, array in self._constants.items():
            constants.append(_tensor(name, array, TensorProto.FLOAT if name.startswith("wide") else kind))
        for number, (op, names, made, domain, attributes) in enumerate(self._nodes):
            given_attributes = {"to": TensorProto.FLOAT} if op == "Cast" and exact else attributes
            nodes.append(
                helper.make_node(
                    op,
                    [renamed.get(n, n) for n in names],
                    made,
                    name=f"node{number}",
                    domain=domain,
                    **given_attributes,
                )
            )
        results = []
        for number, name in enumerate(self._outputs):
            result = f"out{number}"
            to = TensorProto.FLOAT
            nodes.append(helper.make_node("Cast", [name], [result], to=to, name=f"result{number}"))
            results.append(helper.make_tensor_value_info(result, to, None))
        body = helper.make_graph(nodes, "net", inputs, results, constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(body, opset_imports=opsets, ir_version=8)

    def feeds(self, run: int, exact: bool) -> dict[str, Array]:
        narrow = self.kind == "fp16" and not exact
        return {
            name: array.astype(np.float16) if narrow and array.dtype == np.float32 else array
            for name, array in self.runs[run].items()
        }


def _tensor(name: str, array: Array, kind: int) -> onnx.TensorProto:
    if array.dtype != np.float32 or kind == TensorProto.FLOAT:
        return numpy_helper.from_array(array, name)
    if kind == TensorProto.FLOAT16:
        return numpy_helper.from_array(array.astype(np.float16), name)
    bits = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16)
    return TensorProto(name=name, data_type=kind, dims=array.shape, raw_data=bits.tobytes())


def settings() -> ort.SessionOptions:
    """Nodes as they are written."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return options


def fused(session: ort.InferenceSession) -> Counter[str]:
    """How many nodes run as a part of each pattern."""
    reasons = [node.reason for node in tunableop.explain(session).nodes]
    reasons += [node.reason for node in tunableop.explain(session).operators]
    return Counter(reason.split(", fused as ")[1] for reason in reasons if ", fused as " in reason)


def wrong(net: Net, expected: dict[str, int], loose: float = 1.0) -> list[str]:
    """What is not as it should be: the nodes of each pattern, and the answers with and without them."""
    complaints = []
    exact = ort.InferenceSession(
        net.model(exact=True).SerializeToString(), settings(), providers=["CPUExecutionProvider"]
    )
    for on in (1, 0):
        session = card_session(net.model(exact=False), settings=settings(), claim="all", fused_groups=on)
        found = fused(session)
        if found != Counter(expected if on else {}):
            told = "\n".join(
                f"  {n.op_type} {n.name}: {n.reason}" for n in tunableop.explain(session).operators
            )
            complaints.append(f"fused_groups={on}: fused {dict(found)}, not {expected}\n{told}")
        for run in range(len(net.runs)):
            results = session.run(None, net.feeds(run, exact=False))
            for number, (got, right) in enumerate(
                zip(results, exact.run(None, net.feeds(run, exact=True)), strict=True)
            ):
                relative, absolute = TOLERANCES[net.kind]
                if got.shape != right.shape:
                    complaints.append(f"fused_groups={on}, run {run}, output {number}: {got.shape}")
                    continue
                with np.errstate(invalid="ignore"):
                    near = np.abs(got - right) <= loose * (absolute + relative * np.abs(right))
                bad = ~(near | (got == right) | (np.isnan(got) & np.isnan(right)))
                if bad.any():
                    at = tuple(int(i) for i in np.argwhere(bad)[0])
                    complaints.append(
                        f"fused_groups={on}, run {run}, output {number}: {int(bad.sum())} of {bad.size} "
                        f"wrong, first at {at}: {got[at]} instead of {right[at]}"
                    )
    return complaints


def check(cases: dict[str, Callable[[str], tuple[Net, dict[str, int]]]], *kinds: str) -> None:
    """Each case is a function from a type to a net, and to how many of its nodes each pattern takes."""
    complaints = []
    for name, make in cases.items():
        for kind in kinds or tuple(KINDS):
            net, expected = make(kind)
            complaints += [f"{name}, {kind}: {words}" for words in wrong(net, expected)]
    assert not complaints, f"{len(complaints)} complaints:\n" + "\n".join(complaints[:40])
