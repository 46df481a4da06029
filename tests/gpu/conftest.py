"""The card that these tests run on: a real one, or that of simulated libraries (tests/test_gpu_simulated.py).

`pytest tests/gpu` runs them on whatever card there is; TUNABLEOP_TEST_DEVICE names another than the first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _core, _devices
from support.sessions import QUICK

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def _claim_gemm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a stock provider, claim=auto leaves it products of two computed matrices; alone it takes all."""
    monkeypatch.setitem(QUICK, "claim", "gemm")


@dataclass(frozen=True)
class Card:
    """What the tests need to know of it."""

    id: str
    backend: str
    ordinal: int
    stock: str  #: ONNX Runtime's own provider for it; "": this build has none
    simulated: bool

    @property
    def memory(self) -> tuple[Any, ...]:
        """How ONNX Runtime's Python names its memory: what follows the array in `ortvalue_from_numpy`."""
        return ("cuda", self.ordinal) if self.backend == "cuda" else ("gpu", self.ordinal, 0x1002)


def _find() -> Card | str:
    """The card, or why there is none."""
    wanted = os.environ.get("TUNABLEOP_TEST_DEVICE", "auto")
    cards = [device for device in tunableop.devices() if device.backend != "cpu"]
    for device in cards:
        if device.libraries and wanted in ("auto", device.backend, device.id):
            if device.backend == "cuda" and "CUDAExecutionProvider" in ort.get_available_providers():
                ort.preload_dlls()
            stock = [name for name in _devices.STOCK[device.backend] if name in ort.get_available_providers()]
            ordinal = int(device.id.partition(":")[2])
            simulated = device.name.startswith("Simulated")
            return Card(device.id, device.backend, ordinal, stock[0] if stock else "", simulated)
    if cards:
        return "; ".join(f"{device.id}: {device.missing}" for device in cards)
    return "; ".join(f"{e['library']}: {e['reason']}" for e in _core.gpu_libraries() if e["reason"])


@pytest.fixture(scope="session")
def card() -> Card:
    found = _find()
    if isinstance(found, str):
        pytest.skip(f"no card: {found}")
    return found


@pytest.fixture(params=["beside", "alone"])
def others(request: pytest.FixtureRequest, card: Card) -> list[Any]:
    """Providers behind ours: with ONNX Runtime's own for the card, and without."""
    if request.param == "alone":
        return ["CPUExecutionProvider"]
    if not card.stock:
        pytest.skip(f"onnxruntime {ort.__version__} has no provider of its own for {card.id}")
    return [*_devices.beside(_devices.choose(card.id), "exact"), "CPUExecutionProvider"]
