"""gRPC through the reference client, on an engine that echoes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.served import Server, fake

triton = pytest.importorskip("tritonclient.grpc", reason="the extra 'test' is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(server.grpc) as made:
        yield made


def given(name: str, datatype: str, data: np.ndarray) -> Any:
    tensor = triton.InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data)
    return tensor


def test_tensors_come_back(client: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 3
    answer = client.infer("echo", [given("x", "FP32", x)], request_id="seven")
    np.testing.assert_array_equal(answer.as_numpy("x"), x)
    assert answer.get_response().id == "seven"
