"""What `--against` takes: a stock provider here, or in another Python."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import onnxruntime as ort

from .._library import EP_NAME
from ..errors import OptionError

SHORT = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "dnnl": "DnnlExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
SUFFIX = "ExecutionProvider"
EXPECTED = f"expected PROVIDER or PYTHON:PROVIDER, a provider being {', '.join(SHORT)} or a full name"

#: What a model is compared with when the user names nothing, where this onnxruntime has it.
_STOCK = ("CUDA", "ROCM", "MIGraphX", "CPU")


@dataclass(frozen=True)
class Against:
    """A stock side: `python` is None for this process."""

    python: Path | None
    provider: str


def stock_providers() -> list[str]:
    """The providers of this onnxruntime to compare with: those of cards first, the CPU last."""
    available = ort.get_available_providers()
    return [name + SUFFIX for name in _STOCK if name + SUFFIX in available]


def parse_against(text: str) -> Against:
    """ "cpu", "CUDAExecutionProvider", "/path/to/python:rocm", "path/to/environment:rocm".

    Whether that Python has the provider is found out when the side is opened.

    Raises:
        OptionError: it is none of these, or there is no such Python; the message says what was expected.
    """
    where, colon, provider = text.rpartition(":")
    if not provider or (colon and not where):
        raise OptionError(f"against '{text}': {EXPECTED}")
    if not colon and (os.sep in text or Path(text).exists()) and not _known(text):
        raise OptionError(f"against '{text}': it names no provider; {EXPECTED}, such as {text}:cpu")
    name = _provider(text, provider)
    return Against(_python(text, where) if colon else None, name)


def _known(text: str) -> str | None:
    """The full name of a provider, whatever its case; None when onnxruntime knows none of that name."""
    names = {name.lower(): name for name in (*ort.get_all_providers(), *SHORT.values())}
    return SHORT.get(text.lower()) or names.get(text.lower())


def _provider(text: str, provider: str) -> str:
    # Another Python may have one that this onnxruntime never heard of.
    name = _known(provider) or (provider if provider.endswith(SUFFIX) and provider != SUFFIX else None)
    if name is None:
        raise OptionError(f"against '{text}': '{provider}' is no provider; {EXPECTED}")
    if name == EP_NAME:
        raise OptionError(f"against '{text}': that is the provider to be compared; name a stock one")
    return name


def _python(text: str, where: str) -> Path:
    """The Python meant. Not resolved: a link is what makes it the Python of its environment."""
    path = Path(where).expanduser()
    if path.is_dir():
        inside = path / "bin" / "python"
        if not os.access(inside, os.X_OK):
            raise OptionError(f"against '{text}': the folder {path} has no bin/python: no environment")
        return inside.absolute()
    found = shutil.which(str(path))
    if found is None:
        what = "cannot be executed" if path.exists() else "does not exist"
        raise OptionError(f"against '{text}': the Python {where} {what}")
    return Path(found).absolute()
