"""A small classifier of handwritten digits: trained here in seconds; Gemm, Relu, Softmax."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from .graph import Graph, size_or_name

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

SEED = 7
HIDDEN = (128, 64)


def data() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Training and test pixels [n, 64] in 0..1, training and test labels [n]; always the same split."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16.0).astype(np.float32)
    split = train_test_split(
        pixels, labels.astype(np.int64), test_size=0.25, random_state=SEED, stratify=labels
    )
    return split[0], split[1], split[2], split[3]


def train() -> MLPClassifier:
    """Trains scikit-learn's network with a fixed seed."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    pixels, _, labels, _ = data()
    network = MLPClassifier(HIDDEN, random_state=SEED, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 rounds are plenty, and take a second
        network.fit(pixels, labels)
    return network


def export(network: MLPClassifier, batch: int | None = None) -> onnx.ModelProto:
    """The trained network as ONNX: pixels [batch, 64] -> probabilities [batch, 10]; None: free."""
    rows = size_or_name(batch, "batch")
    with Graph("digits") as graph:
        value = graph.input("pixels", [rows, network.coefs_[0].shape[0]])
        last = len(network.coefs_) - 1
        for layer, (kernel, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
            names = (graph.weight(f"layer{layer}.weight", kernel), graph.weight(f"layer{layer}.bias", bias))
            value = graph.op("Gemm", value, *names)
            value = (
                graph.op("Relu", value) if layer < last else graph.op("Softmax", value, name="probabilities")
            )
        graph.output(value, [rows, network.coefs_[-1].shape[1]])
        return graph.model()


def build(batch: int | None = None) -> onnx.ModelProto:
    """Trains and exports."""
    return export(train(), batch)
