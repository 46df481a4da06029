"""Where the provider library is, and its registration with ONNX Runtime."""

from __future__ import annotations

import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import onnxruntime as ort

from . import _core
from .errors import NoDeviceError, TunableOpError, UnsupportedRuntimeError

EP_NAME = "TunableOpExecutionProvider"
LIBRARY_FILE = "libonnxruntime_providers_tunableop.so"
MIN_ORT = (1, 24)
#: The first onnxruntime that finds a plugin provider by its name; before, only by device.
BY_NAME_ORT = (1, 25)

_registered = False
_lock = threading.Lock()


def ort_version() -> tuple[int, int]:
    """(major, minor) of the installed onnxruntime."""
    major, minor = ort.__version__.split(".")[:2]
    return int(major), int(minor)


def get_library_path() -> str:
    """Absolute path of the provider library in this installation."""
    return str(Path(__file__).resolve().parent / LIBRARY_FILE)


def get_ep_name() -> str:
    """Name of the execution provider."""
    return EP_NAME


def get_ep_names() -> list[str]:
    """Names of all execution providers in the library: one."""
    return [EP_NAME]


def _find_openblas() -> None:
    """Tells the native side where the optional scipy-openblas32 package keeps its library."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is not None and spec.origin is not None:
        library = Path(spec.origin).parent / "lib" / "libscipy_openblas.so"
        if library.is_file():
            _core.set_openblas_search_path(str(library))
            _core.control(get_library_path(), "openblas_path", json.dumps({"path": str(library)}))


def _ep_devices() -> list[Any]:
    return [device for device in ort.get_ep_devices() if device.ep_name == EP_NAME]


def is_registered() -> bool:
    """Whether ONNX Runtime knows the provider in this process, whoever registered it."""
    return ort_version() >= MIN_ORT and bool(_ep_devices())


def register() -> None:
    """Makes the provider known to ONNX Runtime in this process. Idempotent and thread-safe.

    Raises:
        UnsupportedRuntimeError: onnxruntime is older than 1.24.
        NoDeviceError: the library was loaded, but no device came of it.
        TunableOpError: the library could not be loaded.
    """
    global _registered
    if ort_version() < MIN_ORT:
        raise UnsupportedRuntimeError(
            f"onnxruntime {ort.__version__} cannot load this provider: "
            f"{MIN_ORT[0]}.{MIN_ORT[1]} or newer is needed (pip install -U onnxruntime)"
        )
    with _lock:
        if _registered and _ep_devices():
            return
        if not _ep_devices():
            path = get_library_path()
            if not Path(path).is_file():
                raise TunableOpError(f"the provider library is missing: {path} (reinstall the package)")
            try:
                ort.register_execution_provider_library(EP_NAME, path)
            except Exception as error:
                raise TunableOpError(f"onnxruntime {ort.__version__} did not load {path}: {error}") from error
        if not _ep_devices():
            raise NoDeviceError(
                f"{EP_NAME} is registered, but onnxruntime {ort.__version__} lists no device for it; "
                "expected at least the CPU"
            )
        _find_openblas()
        _registered = True


def unregister() -> None:
    """Takes the provider out of ONNX Runtime again. Sessions that are alive go on working.

    Raises:
        TunableOpError: it was not registered by `register`.
    """
    global _registered
    with _lock:
        if not _registered:
            raise TunableOpError(f"{EP_NAME} is not registered; call register() first")
        try:
            ort.unregister_execution_provider_library(EP_NAME)
        except Exception as error:
            raise TunableOpError(f"onnxruntime did not unregister {EP_NAME}: {error}") from error
        _registered = False
