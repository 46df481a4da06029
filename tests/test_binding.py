"""Inputs that are bound beside ONNX Runtime's own provider for a card are read as they are at a run's begin.

Values on a card need one, and an onnxruntime for it: tests/gpu has that. Here the device's name is made up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _binding, _devices
from support.graphs import matmul_model


@pytest.fixture
def session() -> ort.InferenceSession:
    return tunableop.InferenceSession(matmul_model([2, 4], [4, 3]), tuning="off")


class OnCard:
    """Another name for the memory that a value lies in."""

    def __init__(self, value: ort.OrtValue, name: str) -> None:
        self.value, self.name = value, name

    def device_name(self) -> str:
        return self.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)


def bound(session, monkeypatch, device: str) -> tuple[Any, list[str]]:
    """A binding of A and B, and the names of inputs as they are bound."""
    names: list[str] = []
    real = ort.IOBinding.bind_ortvalue_input

    def counting(self, name, value):
        names.append(name)
        real(self, name, value)

    monkeypatch.setattr(ort.IOBinding, "bind_ortvalue_input", counting)
    monkeypatch.setattr(_devices, "has_stock", lambda providers: True)
    binding = session.io_binding()
    for name, shape in (("A", (2, 4)), ("B", (4, 3))):
        value = ort.OrtValue.ortvalue_from_numpy(np.ones(shape, np.float32))
        binding.bind_ortvalue_input(name, OnCard(value, device))
    binding.bind_output("Y")
    return binding, names


def test_what_lies_on_a_card_is_bound_again_before_every_run(session, monkeypatch):
    binding, names = bound(session, monkeypatch, "cuda")
    assert names == ["A", "B"]
    for run in (2, 3):
        session.run_with_iobinding(binding)
        assert names == ["A", "B"] * run
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.full((2, 3), 4, np.float32))


def test_what_lies_on_the_cpu_is_bound_once(session, monkeypatch):
    binding, names = bound(session, monkeypatch, "cpu")
    session.run_with_iobinding(binding)
    assert names == ["A", "B"]


def test_another_binding_takes_the_place_of_the_first(session, monkeypatch):
    binding, names = bound(session, monkeypatch, "cuda")
    binding.bind_cpu_input("A", np.zeros((2, 4), np.float32))
    session.run_with_iobinding(binding)
    assert names == ["A", "B", "B"]
    assert not binding.copy_outputs_to_cpu()[0].any()
    binding.clear_binding_inputs()
    binding.refresh()
    assert names == ["A", "B", "B"]


def test_a_pointer_is_bound_again(session, monkeypatch):
    monkeypatch.setattr(_devices, "has_stock", lambda providers: True)
    calls: list[str] = []
    monkeypatch.setattr(ort.IOBinding, "bind_input", lambda self, name, *rest, **named: calls.append(name))
    binding = session.io_binding()
    binding.bind_input("A", "cuda", 0, np.float32, (2, 4), 4096)
    binding.bind_input(
        "B", device_type="cpu", device_id=0, element_type=np.float32, shape=(4, 3), buffer_ptr=1
    )
    binding.refresh()
    assert calls == ["A", "B", "A"]


def test_without_such_a_provider_it_is_onnxruntimes_own(session, monkeypatch):
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert type(session.io_binding()) is ort.IOBinding
    assert _devices.has_stock(["TunableOpExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"])
    assert not _devices.has_stock(session.get_providers())
    assert issubclass(_binding.FreshBinding, ort.IOBinding)


def test_a_session_without_it_stays_fresh_where_onnxruntime_has_it(session, monkeypatch):
    """The memory that `OrtValue` allocates is that provider's, also for a session on ours alone."""
    monkeypatch.setattr(
        ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    assert isinstance(session.io_binding(), _binding.FreshBinding)
