"""REST through the reference client, on an engine that echoes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.served import Server, fake

http = pytest.importorskip("tritonclient.http", reason="the extra 'test' is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with http.InferenceServerClient(server.http) as made:
        yield made


def given(name: str, datatype: str, data: np.ndarray, binary: bool) -> Any:
    tensor = http.InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data, binary_data=binary)
    return tensor


@pytest.mark.parametrize("binary_out", [False, True])
@pytest.mark.parametrize("binary_in", [False, True])
def test_tensors_come_back(client: Any, binary_in: bool, binary_out: bool) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 3
    outputs = [http.InferRequestedOutput("x", binary_data=binary_out)]
    answer = client.infer("echo", [given("x", "FP32", x, binary_in)], outputs=outputs, request_id="seven")
    np.testing.assert_array_equal(answer.as_numpy("x"), x)
    assert answer.get_response()["id"] == "seven"
