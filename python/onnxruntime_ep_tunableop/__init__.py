"""An ONNX Runtime execution provider: each MatMul and Gemm on the kernel measured fastest, and right.

import onnxruntime_ep_tunableop as tunableop

session = tunableop.InferenceSession("model.onnx", cache="model.tune.json")
session.run(None, feeds)
print(tunableop.explain(session))
"""

from __future__ import annotations

from . import _unusable

_unusable.look_first()
try:
    from . import _core
    from ._control import (
        Explanation,
        Form,
        Node,
        OtherNode,
        Shape,
        Stats,
        explain,
        get_tuning_results,
        load_cache,
        save_cache,
        set_tuning,
        set_tuning_results,
        stats,
    )
    from ._devices import Device, devices
    from ._library import (
        get_ep_name,
        get_ep_names,
        get_library_path,
        is_registered,
        register,
        unregister,
    )
    from .errors import NoDeviceError, NotAssignedError, OptionError, TunableOpError, UnsupportedRuntimeError
    from .session import InferenceSession, session_options
    from .tuning import TuneProgress, TuneSummary, tune, warm
except Exception as error:
    _unusable.explain(error)
    raise

__version__: str = _core.__version__

__all__ = [
    "Device",
    "Explanation",
    "Form",
    "InferenceSession",
    "NoDeviceError",
    "Node",
    "NotAssignedError",
    "OptionError",
    "OtherNode",
    "Shape",
    "Stats",
    "TunableOpError",
    "TuneProgress",
    "TuneSummary",
    "UnsupportedRuntimeError",
    "__version__",
    "devices",
    "explain",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "get_tuning_results",
    "is_registered",
    "load_cache",
    "register",
    "save_cache",
    "session_options",
    "set_tuning",
    "set_tuning_results",
    "stats",
    "tune",
    "unregister",
    "warm",
]
