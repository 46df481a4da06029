"""Which device a session is put on, and which providers stand beside it, with devices that are made up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _arguments, _core, _devices
from support.graphs import matmul_model
from support.sessions import EP, needs_names, random

MODEL = matmul_model(["m", 8], None, constants={"B": random((8, 5), 2)})
CUDA, ROCM = "CUDAExecutionProvider", "ROCMExecutionProvider"


class FakeEpDevice:
    """What ONNX Runtime hands out for a device of ours."""

    ep_name = EP

    def __init__(self, backend: str, ordinal: int = 0, name: str = "", arch: str = "") -> None:
        self.ep_metadata = {"backend": backend, "device_id": str(ordinal), "name": name, "arch": arch}


H200 = FakeEpDevice("cuda", 0, "NVIDIA H200", "sm_90")
SECOND = FakeEpDevice("cuda", 1, "NVIDIA H200", "sm_90")
MI300 = FakeEpDevice("hip", 0, "AMD Instinct MI300X", "gfx942")
CPU = FakeEpDevice("cpu")
COMPILERS = {
    "cuda": {"library": "libnvrtc", "available": True, "identity": "nvrtc 13.0", "path": "", "reason": ""},
    "hip": {"library": "libhiprtc", "available": False, "identity": "", "path": "", "reason": "not there"},
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets up a machine: devices of ours, cards without libraries, providers of this onnxruntime."""

    def set_up(
        *devices: FakeEpDevice,
        cards: Sequence[dict[str, Any]] = (),
        libraries: Sequence[dict[str, Any]] = (),
        available: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        monkeypatch.setattr(_devices, "_ep_devices", lambda: list(devices))
        monkeypatch.setattr(_core, "gpus", lambda: list(cards))
        monkeypatch.setattr(_core, "gpu_libraries", lambda: list(libraries))
        monkeypatch.setattr(_core, "kernel_compiler", lambda backend, ordinal: COMPILERS[backend])
        monkeypatch.setattr(ort, "get_available_providers", lambda: [*available])
        monkeypatch.setattr(_devices, "_warned", set())

    return set_up


@pytest.mark.parametrize(
    ("text", "id", "first"),
    [
        ("auto", "cuda:0", True),
        ("cuda", "cuda:0", True),
        ("cuda:0", "cuda:0", True),
        ("cuda:1", "cuda:1", False),
        ("hip", "hip:0", False),
        ("hip:0", "hip:0", False),
        ("cpu", "cpu", False),
    ],
)
def test_the_option_names_a_device(machine: Any, text: str, id: str, first: bool) -> None:
    machine(H200, SECOND, MI300, CPU)
    chosen = _devices.choose(text)
    assert (chosen.id, chosen.first, chosen.is_card) == (id, first, id != "cpu")


def test_auto_without_a_card_is_the_cpu(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    machine(CPU)
    assert _devices.choose("auto").id == "cpu"
    assert caplog.messages == []


def test_auto_says_once_why_a_card_is_not_used(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    card = {"backend": "hip", "ordinal": 0, "name": "Radeon", "reason": "libhipblaslt: not found in /x"}
    machine(CPU, cards=[card])
    for _ in range(2):
        assert _devices.choose("auto").id == "cpu"
    assert caplog.messages == [
        "device='auto' takes the CPU: hip:0 (Radeon) cannot be used: libhipblaslt: not found in /x"
    ]
    assert _devices.choose("cpu").id == "cpu"  # whoever asks for it is told nothing
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "text", ["gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cpu:0", "auto:1", "hip:1:2", ""]
)
def test_what_is_no_device_is_an_option_error(machine: Any, text: str) -> None:
    machine(H200, CPU)
    with pytest.raises(tunableop.OptionError, match=r"'device': expected auto, cpu, cuda, cuda:<id>, hip"):
        _devices.choose(text)


def test_a_card_that_is_not_there_is_told_with_those_that_are(machine: Any) -> None:
    machine(H200, SECOND, CPU)
    with pytest.raises(tunableop.NoDeviceError) as caught:
        _devices.choose("cuda:7")
    assert str(caught.value) == (
        "device='cuda:7': there is no such device; this machine offers "
        "cuda:0 (NVIDIA H200, sm_90), cuda:1 (NVIDIA H200, sm_90), cpu"
    )


def test_a_vendor_without_cards_is_told_with_the_reasons(machine: Any) -> None:
    machine(
        CPU,
        libraries=[
            {"library": "libcudart", "available": True, "reason": ""},
            {"library": "libamdhip64", "available": False, "reason": "not found in /opt/rocm"},
            {"library": "librocblas", "available": False, "reason": "needs libamdhip64"},
        ],
    )
    with pytest.raises(tunableop.NoDeviceError) as caught:
        _devices.choose("hip")
    assert str(caught.value) == (
        "device='hip': no card is found through ROCm (libamdhip64: not found in /opt/rocm; "
        "librocblas: needs libamdhip64); this machine offers cpu"
    )
    with pytest.raises(tunableop.NoDeviceError, match="device='cuda:0': CUDA finds no card; this machine"):
        _devices.choose("cuda:0")


def test_a_card_that_no_library_can_use_is_told(machine: Any) -> None:
    card = {"backend": "cuda", "ordinal": 0, "name": "Old", "reason": "needs sm_70, has sm_35"}
    match = r"'cuda': Old cannot be used: needs sm_70, has sm_35; this"
    for cards in ([card], [card, card | {"ordinal": 1}]):  # once, however many there are of it
        machine(CPU, cards=cards)
        with pytest.raises(tunableop.NoDeviceError, match=match):
            _devices.choose("cuda")


@pytest.mark.parametrize(
    ("device", "precision", "available", "expected"),
    [
        (H200, "exact", [CUDA], [(CUDA, {"device_id": "0", "use_tf32": "0"})]),
        (SECOND, "tf32", [CUDA], [(CUDA, {"device_id": "1", "use_tf32": "1"})]),
        (H200, "bf16", [CUDA, ROCM], [(CUDA, {"device_id": "0", "use_tf32": "0"})]),
        (MI300, "exact", [CUDA, ROCM], [(ROCM, {"device_id": "0"})]),
        (MI300, "exact", ["MIGraphXExecutionProvider"], [("MIGraphXExecutionProvider", {"device_id": "0"})]),
        (MI300, "exact", [CUDA], []),
        (CPU, "exact", [CUDA, ROCM], []),
    ],
)
def test_the_provider_for_the_rest_of_the_model(
    machine: Any, device: FakeEpDevice, precision: str, available: list[str], expected: list[Any]
) -> None:
    machine(device, available=available)
    assert _devices.beside(_devices.choose(_devices.listed()[0].id), precision) == expected


GRAPHS = [
    [(CUDA, {"enable_cuda_graph": "1"})],
    [(CUDA, {"enable_cuda_graph": True})],
    ["CPUExecutionProvider", (ROCM, {"enable_hip_graph": 1})],
]


@pytest.mark.parametrize("providers", GRAPHS, ids=["text", "bool", "hip"])
def test_a_captured_graph_is_refused_before_the_session_is_made(providers: Any) -> None:
    for make in (
        lambda: tunableop.InferenceSession(MODEL, providers=providers),
        lambda: tunableop.session_options(providers=providers),
    ):
        with pytest.raises(tunableop.OptionError, match=r"has enable_(cuda|hip)_graph=.*; leave enable_"):
            make()


def test_a_graph_that_is_not_captured_is_not_refused() -> None:
    _devices.refuse_graphs(ort.SessionOptions(), [CUDA, (CUDA, {"enable_cuda_graph": "0"}), (CUDA, {})])


def test_a_captured_graph_in_session_options_is_refused() -> None:
    options = tunableop.session_options()
    options.add_session_config_entry("ep.cudaexecutionprovider.enable_cuda_graph", "1")
    with pytest.raises(tunableop.OptionError, match="CUDAExecutionProvider has enable_cuda_graph=1"):
        tunableop.InferenceSession(MODEL, options)


class AskedError(Exception):
    """Ends the making of a session, once it is known what onnxruntime is asked for."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What onnxruntime would be asked for."""
    seen: dict[str, Any] = {}

    def make(self: Any, model: Any, options: Any, providers: Any = None, **keywords: Any) -> None:
        seen["providers"] = providers
        raise AskedError

    monkeypatch.setattr(ort.InferenceSession, "__init__", make)
    monkeypatch.setattr(
        _devices, "add", lambda options, device, texts: seen.update(added=device.id, texts=texts)
    )
    monkeypatch.setattr(_devices, "add_stock", lambda options, added: seen.update(stock=list(added)))
    monkeypatch.setattr(_arguments, "add", lambda options, others: seen.update(others=list(others)))
    return seen


def make(**options: Any) -> None:
    with pytest.raises(AskedError):
        tunableop.InferenceSession(MODEL, **options)


STOCK = (CUDA, {"device_id": "0", "use_tf32": "0"})


@needs_names
def test_ours_is_first_and_the_stock_provider_of_the_card_follows(
    machine: Any, asked: dict[str, Any]
) -> None:
    machine(H200, SECOND, CPU, available=[CUDA, "CPUExecutionProvider"])
    make(tuning="off")
    assert asked == {"providers": [(EP, {"tuning": "off"}), STOCK, "CPUExecutionProvider"]}


@needs_names
def test_named_providers_are_left_alone_but_for_their_order(machine: Any, asked: dict[str, Any]) -> None:
    machine(H200, CPU, available=[CUDA, "CPUExecutionProvider"])
    make(providers=[(CUDA, {"use_tf32": 1}), EP, "CPUExecutionProvider"])
    assert asked["providers"] == [(EP, {}), (CUDA, {"use_tf32": 1}), "CPUExecutionProvider"]
    make(providers=["CPUExecutionProvider"])
    assert asked["providers"] == [(EP, {}), "CPUExecutionProvider"]


@needs_names
def test_another_card_than_the_first_is_added_by_device(machine: Any, asked: dict[str, Any]) -> None:
    machine(H200, SECOND, CPU, available=[CUDA, "CPUExecutionProvider"])
    make(device="cuda:1", precision="tf32")
    assert asked == {
        "providers": None,
        "added": "cuda:1",
        "texts": {"device": "cuda:1", "precision": "tf32"},
        "stock": [(CUDA, {"device_id": "1", "use_tf32": "1"})],
    }
    asked.clear()
    make(device="cpu")
    assert asked == {
        "providers": None,
        "added": "cpu",
        "texts": {"device": "cpu"},
        "others": ["CPUExecutionProvider"],
    }


def test_session_options_take_the_device_and_its_stock_provider(machine: Any, asked: dict[str, Any]) -> None:
    machine(H200, SECOND, CPU, available=[CUDA, "CPUExecutionProvider"])
    options = tunableop.session_options(device="cuda:1")
    assert asked == {
        "added": "cuda:1",
        "texts": {},
        "stock": [(CUDA, {"device_id": "1", "use_tf32": "0"})],
    }
    assert options.get_session_config_entry(f"ep.{EP.lower()}.device") == "cuda:1"
    asked.clear()
    tunableop.session_options(providers=[])
    assert asked == {"added": "cuda:0", "texts": {}, "others": []}


def test_the_device_in_a_bases_configuration_counts(machine: Any, asked: dict[str, Any]) -> None:
    machine(H200, SECOND, CPU)
    base = ort.SessionOptions()
    base.add_session_config_entry(f"ep.{EP.lower()}.device", "cuda:1")
    tunableop.session_options(base)
    assert asked["added"] == "cuda:1"


def test_products_on_the_cpu_beside_a_provider_on_a_card_are_told(
    machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine(CPU)
    _devices.check_company(_devices.choose("auto"), [CUDA, "CPUExecutionProvider"])
    (line,) = caplog.messages
    assert f"runs on the CPU beside {CUDA}" in line
    caplog.clear()
    machine(H200, CPU)
    _devices.check_company(_devices.choose("auto"), [CUDA])
    _devices.check_company(_devices.choose("cpu"), ["CPUExecutionProvider"])
    assert caplog.messages == []


def test_a_stock_provider_that_did_not_load_is_told(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    machine(H200, CPU)
    device = _devices.choose("auto")
    _devices.check_stock(device, [STOCK], [EP, CUDA, "CPUExecutionProvider"])
    assert caplog.messages == []
    _devices.check_stock(device, [STOCK], [EP, "CPUExecutionProvider"])
    assert f"made the session without {CUDA}" in caplog.messages[0]
    caplog.clear()
    _devices.add_stock(ort.SessionOptions(), [("NoSuchExecutionProvider", {})])
    assert "NoSuchExecutionProvider cannot be used here" in caplog.messages[0]


def test_devices_lists_cards_with_what_they_lack(machine: Any) -> None:
    cards = [
        {
            "backend": "cuda",
            "ordinal": 1,
            "name": "NVIDIA H200",
            "arch": "sm_90",
            "memory_bytes": 1 << 37,
            "driver": "13.0",
            "runtime": "12.8",
            "libraries": {"cublaslt": "12.8.4"},
            "reason": "",
        },
        {
            "backend": "hip",
            "ordinal": 0,
            "name": "AMD",
            "arch": "gfx942",
            "memory_bytes": 1,
            "driver": "6.3.1",
            "runtime": "6.3.1",
            "libraries": {},
            "reason": "no library",
        },
    ]
    lacking = {"library": "librocblas", "available": False, "reason": "not found"}
    machine(H200, CPU, cards=cards, libraries=[lacking])
    cuda, hip, cpu = tunableop.devices()
    assert (cuda.id, cuda.backend, cuda.libraries, cuda.missing) == (
        "cuda:1",
        "cuda",
        {"cublaslt": "12.8.4"},
        {},
    )
    assert cuda.versions == {"driver": "13.0", "runtime": "12.8"}
    assert (hip.id, hip.libraries) == ("hip:0", {})
    assert hip.missing == {"librocblas": "not found", "libhiprtc": "not there"}
    assert (cuda.compiler, hip.compiler, cpu.compiler) == ("nvrtc 13.0", "", "")
    assert (cpu.id, cpu.backend) == ("cpu", "cpu")
    assert "native" in cpu.libraries


def test_a_session_that_another_provider_emptied_says_so(caplog: pytest.LogCaptureFixture) -> None:
    tunableop.register()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = {device.ep_name: device for device in ort.get_ep_devices()}
    if "CPUExecutionProvider" not in devices:
        pytest.skip(f"onnxruntime {ort.__version__} does not list its CPU provider as a device")
    options.add_provider_for_devices([devices["CPUExecutionProvider"]], {})
    options.add_provider_for_devices([devices[EP]], {})
    with caplog.at_level(logging.WARNING):
        session = tunableop.InferenceSession(MODEL, options)
    if session.get_providers()[0] == EP:
        pytest.skip(f"onnxruntime {ort.__version__} puts its CPU provider last, whatever it is told")
    assert f"came first and took what there was: put {EP} before it" in caplog.messages[-1]
