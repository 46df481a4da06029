"""Sessions for tests, and what they say about themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest

from support.tolerance import Exact, assert_close

EP = tunableop.get_ep_name()
needs_names = pytest.mark.skipif(
    tuple(int(part) for part in ort.__version__.split(".")[:2]) < (1, 25),
    reason="onnxruntime 1.24 finds a plugin provider only by device",
)
Feeds = dict[str, npt.NDArray[Any]]

#: Measures every problem, but for no longer than a test with many shapes can bear.
QUICK: dict[str, Any] = {"tuning": "online", "max_tuning_ms": 2.0, "warmup_iter": 1}


def quick_session(model: onnx.ModelProto | bytes, **options: Any) -> tunableop.InferenceSession:
    return tunableop.InferenceSession(model, **(QUICK | options))


def assigned(session: ort.InferenceSession) -> list[tuple[str, str, str]]:
    """(provider, operator, node name) of every node, as ONNX Runtime tells it."""
    return [
        (part.ep_name, node.op_type, node.name)
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]


def ours(session: ort.InferenceSession) -> list[str]:
    """Operators of the nodes that run on our provider."""
    return [op for provider, op, _ in assigned(session) if provider == EP]


def calls(session: ort.InferenceSession) -> int:
    """How many GEMM calls our kernels have made."""
    counters = tunableop.stats(session)
    return counters.hits + counters.misses


def check_runs(
    session: ort.InferenceSession, feeds: Feeds, exact: Exact, bound: Exact, runs: int = 2
) -> None:
    """The session is right when it measures, and right again when it knows."""
    for run in range(runs):
        assert_close(session.run(None, feeds)[0], exact, bound, f"run {run}")


def random(shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
