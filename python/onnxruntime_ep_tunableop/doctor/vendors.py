"""What is to be known of the makers of cards, to say what to do."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Vendor:
    """What is to be known of a maker of cards."""

    backend: str
    name: str
    runtime: str
    libraries: tuple[str, ...]
    pci: str
    nodes: tuple[str, ...]  #: without these there is no card for a process
    container: str  #: how a container is started with the cards
    variable: str
    provider: str  #: ONNX Runtime's own for the rest of a model
    package: str  #: that brings it
    install: str  #: brings the libraries
    #: brings the libraries for a driver of an older major version
    older: dict[str, str]
    driver: str  #: what is to be updated when the driver is too old for all
    compiler: str  #: brings what compiles kernels
    older_compiler: dict[str, str]  #: for a runtime of an older major version


NVIDIA = Vendor(
    backend="cuda",
    name="NVIDIA",
    runtime="libcudart",
    libraries=("libcublasLt",),
    pci="0x10de",
    nodes=("dev/nvidiactl", "dev/nvidia0"),
    container="docker run --gpus all ...",
    variable="TUNABLEOP_CUDA_PATH",
    provider="CUDAExecutionProvider",
    package="onnxruntime-gpu",
    install="pip install nvidia-cuda-runtime nvidia-cublas",
    older={
        "11": "pip install nvidia-cuda-runtime-cu11 nvidia-cublas-cu11",
        "12": "pip install nvidia-cuda-runtime-cu12 nvidia-cublas-cu12",
    },
    driver="update the NVIDIA driver",
    compiler="pip install nvidia-cuda-nvrtc",
    older_compiler={
        "11": "pip install nvidia-cuda-nvrtc-cu11",
        "12": "pip install nvidia-cuda-nvrtc-cu12",
    },
)
AMD = Vendor(
    backend="hip",
    name="AMD",
    runtime="libamdhip64",
    libraries=("libhipblaslt", "librocblas"),
    pci="0x1002",
    nodes=("dev/kfd", "dev/dri"),
    container="docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render ...",
    variable="TUNABLEOP_ROCM_PATH",
    provider="ROCMExecutionProvider",
    package="onnxruntime-rocm",
    install="apt-get install hipblaslt rocblas",
    older={},
    driver="update the amdgpu driver (apt-get install amdgpu-dkms)",
    compiler="apt-get install hip-runtime-amd",
    older_compiler={},
)
VENDORS = (NVIDIA, AMD)


def reinstall(vendor: Vendor) -> str:
    """For a library that is there and of no use."""
    if os.environ.get(vendor.variable):
        return f"name another folder in {vendor.variable}, or unset it"
    if vendor is NVIDIA:
        return vendor.install.replace("install", "install -U")
    return vendor.install.replace("install", "install --reinstall")
