"""One model, node by node: what is claimed or refused and why, what fusions hide, and whether it is on."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime as ort

from .. import _control, _devices
from .._library import EP_NAME
from .._shapes import describe, make_feeds
from ..errors import OptionError
from ..session import InferenceSession
from . import products, trial
from .asked import Asked
from .check import REPORT, Finding, asks, count

_STOCK_WINS = "the stock provider is faster here"  # as the native side begins its reason
_NEWER_OPSET = "convert the model to a newer opset: onnx.version_converter.convert_version(model, 17)"
_MOST = 6  # nodes that are told one by one; --json has all


@dataclass(frozen=True)
class Placed:
    """One node, with the provider that has it."""

    provider: str
    op: str
    name: str


@dataclass
class Seen:
    """What a session of the model says of itself."""

    session: InferenceSession
    placed: list[Placed]
    nodes: list[_control.Node]  #: MatMul and Gemm
    inputs: list[Any]
    path: Path
    #: names of MatMul and Gemm nodes with ONNX Runtime's fusions kept, and with them off
    kept: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    #: operators that hide products only with the fusions that this session has
    folded: Counter[str] = field(default_factory=Counter)
    shapes: list[_control.Shape] = field(default_factory=list)
    stats: _control.Stats | None = None

    @property
    def claimed(self) -> list[_control.Node]:
        """Those that are ours."""
        return [node for node in self.nodes if node.claimed]

    @property
    def refused(self) -> list[_control.Node]:
        """Those that are not."""
        return [node for node in self.nodes if not node.claimed]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": str(self.path),
            "nodes": [vars(node) for node in self.nodes],
            "placed": [vars(node) for node in self.placed],
            "hidden_by_fusions": dict(self.folded),
            "shapes": [vars(shape) for shape in self.shapes],
            "stats": vars(self.stats) if self.stats is not None else None,
        }


class Patient:
    """The model's sessions, made as its user would make them, but for measuring and saving."""

    def __init__(self, asked: Asked) -> None:
        assert asked.model is not None
        self.path = asked.model
        self.asked = asked
        self._folder = tempfile.TemporaryDirectory(prefix="tunableop-doctor-")

    def session(self, **more: Any) -> InferenceSession:
        """`tuning=cached` counts what is called and measures nothing; the cache is a copy."""
        options: dict[str, Any] = {k: v for k, v in self.asked.options.items() if k not in ("trace", "cache")}
        cache = self.asked.cache or self.asked.options.get("cache")
        if cache is not None and Path(cache).is_file():
            copy = Path(self._folder.name) / "cache.json"
            shutil.copyfile(cache, copy)
            options["cache"] = copy
        options |= {"tuning": "cached", "device": self.asked.device} | more
        return InferenceSession(self.path, trial.settings(), **options)

    def close(self) -> None:
        """Removes the copy."""
        self._folder.cleanup()


def placed(session: ort.InferenceSession) -> list[Placed]:
    """Every node of the graph when it was divided among providers."""
    return [
        Placed(str(part.ep_name), str(node.op_type), str(node.name))
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]


@asks("model.session", "does onnxruntime make a session of the model?")
def made(patient: Patient, keep: list[Seen]) -> Finding:
    """`keep` gets what the session says."""
    path = patient.path
    try:
        session = patient.session()
    except Exception as error:
        text = _first_line(error)
        if stock_takes(path):
            return Finding(
                "problem", [f"a session without {EP_NAME} is made, but not one with it: {text}"], REPORT
            )
        return Finding("problem", [text, "nor with the CPU provider alone"], _unloadable(path, text))
    seen = Seen(session, placed(session), _control.explain(session).nodes, session.get_inputs(), path)
    keeps = patient.asked.options.get("fusion") == "keep"
    other = patient.session(fusion="off" if keeps else "keep")
    there = placed(other)
    names = [[n.name for n in nodes if products.is_ours(n.op)] for nodes in (seen.placed, there)]
    seen.kept, seen.open = names if keeps else names[::-1]
    hidden = [Counter(n.op for n in nodes if products.what_hides(n.op)) for nodes in (seen.placed, there)]
    seen.folded = hidden[0] - hidden[1] if keeps else hidden[1] - hidden[0]
    keep.append(seen)
    providers = ", ".join(session.get_providers())
    return Finding("ok", [f"{path}, {count(len(seen.placed), 'node')} on {providers}"])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _unloadable(path: Path, text: str) -> str:
    """For a model that ONNX Runtime refuses whoever is to run it."""
    if "NOT_IMPLEMENTED" in text:
        return _NEWER_OPSET
    return f"check-model {shlex.quote(str(path))} (of the package onnx) says what is wrong with it"


def stock_takes(path: Path) -> bool:
    """Whether ONNX Runtime makes a session of it without us."""
    try:
        ort.InferenceSession(path, trial.settings(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@asks("model.nodes", "is it on: does the provider take the model's products?")
def nodes(seen: Seen, asked: Asked) -> Finding:
    """Claimed or refused, and why."""
    total = len(seen.nodes)
    evidence = [f"{len(seen.claimed)} of {total} MatMul and Gemm nodes are claimed"]
    evidence += _reasons(seen.claimed) + _reasons(seen.refused)
    if seen.claimed:
        other = [node for node in seen.refused if _STOCK_WINS not in node.reason]
        if not other:
            return Finding("ok", evidence)
        return Finding("note", evidence, _refusal_remedy(other, asked))
    if seen.refused and all(_STOCK_WINS in node.reason for node in seen.refused):
        evidence[0] += ": measured, and left to the stock provider"
        return Finding("note", evidence, _refusal_remedy(seen.refused, asked))
    if seen.refused:
        most = Counter(node.reason for node in seen.refused).most_common(1)[0][0]
        evidence[0] += f"; most are {most}"
        return Finding("problem", evidence, _refusal_remedy(seen.refused, asked))
    hidden = products.hidden(node.op for node in seen.placed)
    if hidden:
        words = products.words(hidden)
        evidence = [f"it has no MatMul or Gemm; its products are hidden in {words}", *evidence[1:]]
        return Finding("problem", evidence, _hidden_remedy(seen, hidden, asked))
    evidence = ["it has no MatMul or Gemm: there is nothing to be done for it"]
    return Finding("problem", evidence, f"use ONNX Runtime alone: ort.InferenceSession({str(seen.path)!r})")


def _reasons(some: Sequence[_control.Node]) -> list[str]:
    """Nodes by reason, with a few names."""
    by_reason: dict[str, list[str]] = {}
    for node in some:
        # Each node has figures of its own, which --json tells.
        reason = re.sub(rf"({_STOCK_WINS}).*", r"\1", node.reason)
        by_reason.setdefault(reason, []).append(f"{node.op_type} '{node.name}'")
    lines = []
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
        lines.append(f"{len(names)} {reason}: {shown}")
    return lines


def _refusal_remedy(refused: Sequence[_control.Node], asked: Asked) -> str:
    """For the reason that most of them have."""
    reason = Counter(node.reason for node in refused).most_common(1)[0][0]
    kind = re.search(r"input type (\S+) has no kernel", reason)
    if kind:
        if kind[1] in ("fp16", "bf16") and not any(device.is_card for device in _devices.listed()):
            return "convert the model to fp32, or run it on a card (--device cuda, hip)"
        if kind[1] in ("fp64", "fp16", "bf16"):
            return "convert the model to fp32"
        return f"run these on ONNX Runtime's own provider: there are no kernels for {kind[1]}"
    if "claim=weights" in reason:
        return "--option claim=all"
    if "claim=auto" in reason:
        return "--option claim=all, if it is faster (measure both)"
    if "older than opset 7" in reason:
        return _NEWER_OPSET
    if "another execution provider" in reason:
        return f'put {EP_NAME} first: providers=["{EP_NAME}", ...]'
    if _STOCK_WINS in reason:
        return "--option claim=all takes them all the same; `tunableop bench` tells which is faster"
    return REPORT


def _hidden_remedy(seen: Seen, hidden: Mapping[str, int], asked: Asked) -> str:
    if asked.options.get("fusion") == "keep" and seen.open:
        return "--option fusion=auto"
    if any(products.what_hides(op) == products.QUANTISED for op in hidden):
        return "use the model that it was quantised from: quantised products have no kernels here"
    if any(products.what_hides(op) == products.FUSED for op in hidden):
        return "export the model again, without onnxruntime's optimizations, which are saved in this file"
    return f"use ONNX Runtime alone: ort.InferenceSession({str(seen.path)!r})"


@asks("model.fusions", "are products hidden in other operators?")
def fusions(seen: Seen, asked: Asked) -> Finding:
    """In the model's file, and by ONNX Runtime's fusions."""
    in_file = products.hidden(node.op for node in seen.placed)
    keeps = asked.options.get("fusion") == "keep"
    evidence = []
    lost = sorted(set(seen.open) - set(seen.kept))
    if keeps and seen.folded:
        evidence.append(f"fusion=keep hides products in {products.words(seen.folded)}")
        return Finding("warning", evidence, "--option fusion=auto")
    if in_file:
        evidence.append(f"hidden in {products.words(in_file)}")
    if lost and not keeps:
        hides = f", and hide some in {products.words(seen.folded)}" if seen.folded else ""
        evidence.append(f"ONNX Runtime's fusions would change {len(lost)} of them{hides}: they are off here")
    stored = Counter(node.op for node in seen.placed)["DequantizeLinear"]
    if stored and seen.claimed:
        evidence.insert(0, f"{stored} DequantizeLinear: ONNX Runtime alone would run such products in int8")
        remedy = f"tunableop bench {shlex.quote(str(seen.path))} tells which is faster"
        return Finding("note", evidence, remedy)
    if not evidence:
        return Finding("ok", ["none"])
    # Without any node of ours that is the problem of the question before.
    if in_file and seen.claimed:
        return Finding("note", evidence, _hidden_remedy(seen, in_file, asked))
    return Finding("ok", evidence)


@asks("model.others", "which are the other nodes, and who runs them?")
def others(seen: Seen) -> Finding:
    """By provider and operator."""
    lines = []
    for provider in dict.fromkeys(node.provider for node in seen.placed):
        found = Counter(
            node.op for node in seen.placed if node.provider == provider and not products.is_ours(node.op)
        )
        if found:
            lines.append(f"{provider}: {', '.join(f'{count} {op}' for op, count in found.most_common())}")
    return Finding("ok", lines or ["there are none"])


@asks("model.run", "does it run, and on our kernels?")
def run(seen: Seen, asked: Asked) -> Finding | None:
    """One run for each set of shapes, with inputs that are made up."""
    if not seen.claimed:
        return None  # told before
    try:
        sets = make_feeds(seen.session, list(asked.shapes) or None, asked.dims, warn=False)
    except OptionError as error:
        if "cannot be made up" in str(error):  # sizes would change nothing
            return Finding("warning", [str(error)], _own_inputs(seen))
        return Finding("problem", [str(error)], template(seen.inputs))
    evidence = []
    for feeds in sets:
        try:
            seen.session.run(None, feeds)
        except Exception as error:
            text = _first_line(error)
            return Finding("problem", [f"not with {describe(feeds)}: {text}"], template(seen.inputs))
        evidence.append(f"it runs with {describe(feeds)}")
    seen.stats = _control.stats(seen.session)
    seen.shapes = _control.explain(seen.session).shapes
    calls = seen.stats.hits + seen.stats.misses
    evidence.insert(
        0, f"{count(calls, 'call')} of {count(len(seen.shapes), 'problem')} ran on {seen.stats.device}"
    )
    if calls == 0:
        return Finding(
            "warning", ["no claimed node was reached by these inputs", *evidence], template(seen.inputs)
        )
    return Finding("ok", evidence)


def guessed(inputs: Sequence[Any], asked: Asked) -> bool:
    """Whether a size that the model leaves open was not given, and so taken as 1."""
    dims = [dim for entry in inputs for dim in entry.shape if not isinstance(dim, int) or dim <= 0]
    return not asked.shapes and any(dim not in asked.dims for dim in dims)


def _own_inputs(seen: Seen) -> str:
    names = ", ".join(f"{entry.name}=..." for entry in seen.inputs if entry.name.isidentifier())
    path = shlex.quote(str(seen.path))
    return f"numpy.savez('inputs.npz', {names or '...'}), then: tunableop bench {path} --inputs inputs.npz"


def template(inputs: Sequence[Any]) -> str:
    """How the shapes of a model's inputs are given."""
    symbols = list(dict.fromkeys(dim for entry in inputs for dim in entry.shape if isinstance(dim, str)))
    unnamed = any(dim is None for entry in inputs for dim in entry.shape)
    if symbols and not unnamed:
        return (
            " ".join(f"--dim {shlex.quote(symbol)}=1" for symbol in symbols) + " (with the sizes of real use)"
        )
    shapes = ",".join(
        f"{entry.name}:{'x'.join(str(dim) if isinstance(dim, int) else '1' for dim in entry.shape)}"
        for entry in inputs
    )
    return f"--shape {shlex.quote(shapes)} (with the sizes of real use)"
