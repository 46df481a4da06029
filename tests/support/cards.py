"""Tests on simulated cards, each in a process of its own: a process loads its vendors' libraries once.

A test is written as any other and decorated with `on_card`. What pytest runs starts a process with the
libraries of one flavour, in which the function's body is called. Simulated cards fault when the host touches
their memory, and so does the process.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest

from support.built import FOLDER
from support.sessions import EP

TESTS = Path(__file__).resolve().parent.parent
FLAVOURS = ("cuda12", "cuda13", "rocm6", "rocm7", "rocm10")
BOTH = ("cuda13", "rocm7")  # one of each vendor
SECONDS = 120

Array = npt.NDArray[Any]


def folder(flavour: str) -> Path:
    return FOLDER / "gpu_sim" / flavour


def environment(flavour: str | None, **more: str) -> dict[str, str]:
    """That of a process with the cards of one flavour, and no others; None: with none at all."""
    nothing = str(FOLDER / "gpu_sim" / "nothing")
    paths = {"TUNABLEOP_CUDA_PATH": nothing, "TUNABLEOP_ROCM_PATH": nothing}
    if flavour is not None:
        assert folder(flavour).is_dir(), f"{folder(flavour)} is not built: `make test` builds it"
        vendor = "CUDA" if flavour.startswith("cuda") else "ROCM"
        paths[f"TUNABLEOP_{vendor}_PATH"] = str(folder(flavour))
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    # What simulated compilers make is for nobody's cache.
    own = {"PYTHONPATH": path, "SIM_FLAVOUR": flavour or "", "TUNABLEOP_KERNEL_CACHE": "off"}
    return os.environ | paths | own | more


def on_card(
    *flavours: str | None,
    check: Callable[[subprocess.CompletedProcess[str]], None] | None = None,
    only_simulated: bool = False,
    **env: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs the test once for each flavour. Its other parameters must be what JSON can hold.

    `only_simulated`: it asks the simulation something, and is not for a real card (tests/gpu).
    """

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        parameters = list(inspect.signature(body).parameters.values())

        @pytest.mark.parametrize("flavour", flavours)
        def test(flavour: str | None, **arguments: Any) -> None:
            source = Path(inspect.getfile(body))
            command = [sys.executable, "-X", "faulthandler", str(TESTS / "support" / "card_process.py")]
            done = subprocess.run(
                [*command, str(source), body.__name__, json.dumps(arguments)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=environment(flavour, **env),
                check=False,
            )
            assert done.returncode == 0, f"return code {done.returncode}\n{done.stdout}\n{done.stderr}"
            if check is not None:
                check(done)

        functools.update_wrapper(test, body)
        del test.__wrapped__  # type: ignore[attr-defined]
        flavour = inspect.Parameter("flavour", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([flavour, *parameters])  # type: ignore[attr-defined]
        test.body = body  # type: ignore[attr-defined]
        test.only_simulated = only_simulated  # type: ignore[attr-defined]
        return test

    return decorate


def since(minor: int, why: str) -> pytest.MarkDecorator:
    """For what older onnxruntimes cannot do."""
    return pytest.mark.skipif(
        int(ort.__version__.split(".")[1]) < minor, reason=f"onnxruntime {ort.__version__} {why}"
    )


def call_body(source: str, name: str, arguments: str) -> None:
    """In the process of a test."""
    spec = importlib.util.spec_from_file_location("card_tests", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["card_tests"] = module
    spec.loader.exec_module(module)
    getattr(module, name).body(**json.loads(arguments))


# What follows is for the process of a test.


def flavour() -> str:
    return os.environ["SIM_FLAVOUR"]


def backend() -> str:
    return "cuda" if flavour().startswith("cuda") else "hip"


@functools.cache
def control() -> ctypes.CDLL:
    """The simulation: sim_gpu_count(b"mallocs") and others of gpu_sim/core/control.h."""
    pattern = "libcudart.so.*" if backend() == "cuda" else "libamdhip64.so.*"
    (path,) = folder(flavour()).glob(pattern)
    library = ctypes.CDLL(str(path))
    library.sim_gpu_count.argtypes = [ctypes.c_char_p]
    library.sim_gpu_count.restype = ctypes.c_int64
    library.sim_gpu_set_faults.argtypes = [ctypes.c_char_p]
    library.sim_gpu_set_faults.restype = None
    library.sim_gpu_memory_used.argtypes = [ctypes.c_int]
    library.sim_gpu_memory_used.restype = ctypes.c_size_t
    return library


def count(what: str) -> int:
    return int(control().sim_gpu_count(what.encode()))


def faults(specification: str) -> None:
    control().sim_gpu_set_faults(specification.encode())


def memory_used(card: int = 0) -> int:
    return int(control().sim_gpu_memory_used(card))


def ep_devices() -> list[ort.OrtEpDevice]:
    """Ours, cards first."""
    tunableop.register()
    return [device for device in ort.get_ep_devices() if device.ep_name == EP]


def card_session(
    model: onnx.ModelProto | bytes, card: int = 0, settings: ort.SessionOptions | None = None, **options: Any
) -> ort.InferenceSession:
    """Plain onnxruntime on one card, without a way back to the CPU."""
    device = ep_devices()[card]
    assert device.ep_metadata["backend"] == backend()
    settings = settings or ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    texts = {key: str(value) for key, value in ({"tuning": "off"} | options).items()}
    settings.add_provider_for_devices([device], texts)
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = ort.InferenceSession(data, settings, enable_fallback=0)
    session.disable_fallback()
    return session


def value_on_card(array: Array, card: int = 0) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(array, "gpu", card, vendor_id())


def empty_on_card(shape: tuple[int, ...], dtype: Any, card: int = 0) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_shape_and_type(shape, dtype, "gpu", card, vendor_id())


def vendor_id() -> int:
    return 0x10DE if backend() == "cuda" else 0x1002
