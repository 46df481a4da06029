"""Models and requests for tests of the server's engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.serve.engine import Engine
from onnxruntime_ep_tunableop.serve.protocol import DATATYPES, InferRequest, RequestedOutput, Tensor
from onnxruntime_ep_tunableop.serve.settings import ModelSettings, ServerSettings

from .graphs import graph, model, value

sys.path.insert(0, str(Path(__file__).parents[2]))
from models import bert
from models.encoder import EncoderConfig

_T = TypeVar("_T")

SMALL = EncoderConfig(layers=2, hidden=32, heads=2, intermediate=64, vocabulary=50, positions=64)
WORDS = ("input_ids", "attention_mask", "token_type_ids")
#: Two threads would only fight with the event loop's, and tests of a machine's load are elsewhere.
QUIET: Mapping[str, Any] = {"threads": 1}


def small_bert() -> onnx.ModelProto:
    return bert.build(SMALL)


def sentence(rows: int, length: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    chance = np.random.default_rng(seed)
    return {
        "input_ids": chance.integers(0, SMALL.vocabulary, (rows, length)),
        "attention_mask": np.ones((rows, length), np.int64),
        "token_type_ids": chance.integers(0, 2, (rows, length)),
    }


def one_node(
    op: str, kind: int, shape: Sequence[int | str | None], out: int | None = None, **attributes: Any
) -> onnx.ModelProto:
    """y = op(x)."""
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    result = kind if out is None else out
    return model(graph([node], [value("x", shape, kind)], [value("y", None, result)]))


def plus(number: float, shape: Sequence[int | str | None] = ("n", 2)) -> onnx.ModelProto:
    """y = x + number: tells which version answered."""
    node = helper.make_node("Add", ["x", "number"], ["y"])
    constants = {"number": np.array(number, np.float32)}
    return model(graph([node], [value("x", shape)], [value("y", shape)], constants))


def gather(rows: int = 4) -> onnx.ModelProto:
    """y[n] = table[x[n]], which fails where x is not below `rows`."""
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    constants = {"table": np.arange(rows, dtype=np.float32)}
    return model(graph([node], [value("x", ["n"], TensorProto.INT64)], [value("y", ["n"])], constants))


def liar(kind: str) -> onnx.ModelProto:
    """Declares that its rows are apart, and is not right."""
    constants: dict[str, Any]
    if kind == "cut":  # gives one row, whatever comes in, and ONNX Runtime cannot know
        nodes = [helper.make_node("Compress", ["x", "first"], ["y"], axis=0)]
        constants = {"first": np.array([True])}
    else:  # reshapes to the shape that one row has
        nodes = [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Shape", ["x"], ["rows"], end=1),
            helper.make_node("Concat", ["rows", "one"], ["divisors"], axis=0),
            helper.make_node("Div", ["shape", "divisors"], ["of_one"]),
            helper.make_node("Reshape", ["x", "of_one"], ["y"]),
        ]
        constants = {"one": np.array([1])}
    return model(graph(nodes, [value("x", ["n", 2])], [value("y", ["n", None])], constants))


def endless() -> onnx.ModelProto:
    """A loop that would take years."""
    body = graph(
        [
            helper.make_node("Sin", ["before"], ["after"]),
            helper.make_node("Identity", ["going"], ["go_on"]),
        ],
        [
            value("turn", [], TensorProto.INT64),
            value("going", [], TensorProto.BOOL),
            value("before", ["n"]),
        ],
        [value("go_on", [], TensorProto.BOOL), value("after", ["n"])],
    )
    node = helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)
    constants = {"turns": np.array(2**40, np.int64)}
    return model(graph([node], [value("x", ["n"])], [value("y", ["n"])], constants))


def save(folder: Path, name: str, made: onnx.ModelProto) -> Path:
    path = folder / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def tensor(name: str, data: npt.NDArray[Any], datatype: str | None = None) -> Tensor:
    kinds = {dtype: kind for kind, dtype in DATATYPES.items() if kind != "BF16"}
    return Tensor(name, datatype or kinds[data.dtype], data)


def request(
    name: str,
    feeds: Mapping[str, npt.NDArray[Any]],
    *,
    version: str = "",
    outputs: Sequence[str] = (),
    deadline: float | None = None,
) -> InferRequest:
    return InferRequest(
        name,
        version,
        "id",
        [tensor(key, data) for key, data in feeds.items()],
        [RequestedOutput(output) for output in outputs],
        deadline=deadline,
    )


def settings(folder: Path, *models: ModelSettings, **more: Any) -> ServerSettings:
    return ServerSettings(models=models, state=folder / "state", **more)


@asynccontextmanager
async def serving(told: ServerSettings, *, grace: float = 30.0) -> AsyncIterator[Engine]:
    """An engine whose models are loaded, and that is shut down."""
    engine = await Engine.start(told)
    try:
        failed = await engine.loaded()
        assert not failed, failed
        yield engine
    finally:
        await engine.shut_down(grace)


def run_async(work: Coroutine[Any, Any, _T], seconds: float = 120.0) -> _T:
    """As asyncio.run, with an end."""

    async def main() -> _T:
        return await asyncio.wait_for(work, seconds)

    return asyncio.run(main())
