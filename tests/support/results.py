"""A model whose three problems are learned, and their results as a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop

from support.graphs import matmul_model
from support.sessions import check_runs, quick_session, random
from support.tolerance import product

B = random((8, 5), 2)
MODEL = matmul_model(["m", 8], None, constants={"B": B})
SIZES = (1, 2, 3)
Document = dict[str, Any]


def use(session: ort.InferenceSession, sizes: tuple[int, ...] = SIZES) -> None:
    """One run of each size, checked."""
    for m in sizes:
        a = random((m, 8), m)
        check_runs(session, {"A": a}, *product(a, B), runs=1)


def learned() -> Document:
    """The results of a session that met three problems, in the order of their sizes."""
    session = quick_session(MODEL)
    use(session)
    results = tunableop.get_tuning_results(session)
    for machine in results["machines"]:
        machine["entries"].sort(key=lambda entry: entry["m"])
    return results


def entries(document: Document) -> list[Document]:
    return [entry for machine in document["machines"] for entry in machine["entries"]]


def write(path: Path, document: Document | str) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path
