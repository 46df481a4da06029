"""Documents that nobody in his right mind would write: nothing crashes, hangs or runs out of bounds."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _control
from support.graphs import matmul_model
from support.process import run_python
from support.sessions import random

B = random((96, 80), 2)
MODEL = matmul_model(["m", 96], None, constants={"B": B})
BATCH = {"stride_a": 48 * 96, "stride_c": 48 * 80}

#: What is done to a recorded problem, and what the tuner says of it.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "packed matrices with gaps": ({**BATCH, "batch": 2, "stride_b": 6_000_000}, "one after the other"),
    "packed matrices that overlap": ({**BATCH, "batch": 9, "stride_b": 1}, "one after the other"),
    "bytes that wrap to none": ({"batch": 513, "stride_a": 2**53, "stride_c": 48 * 80}, "2^56"),
    "more bytes of B than 2^63": (
        {"n": 2**30, "ldc": 2**30, "k": 2**30, "lda": 2**30},
        "2^56",
    ),
    "more threads than any machine has": ({"threads": 4000}, "not so many processors"),
}


@pytest.fixture
def recorded(tmp_path: Path) -> dict[str, Any]:
    session = tunableop.InferenceSession(MODEL, tuning="record")
    session.run(None, {"A": random((48, 96))})
    document = tunableop.get_tuning_results(session)
    assert len(document["machines"][0]["seen"]) == 1
    return document


@pytest.mark.parametrize("kind", REFUSED)
def test_a_recorded_problem_that_cannot_be_is_not_made_up(kind: str, recorded: dict[str, Any]) -> None:
    change, reason = REFUSED[kind]
    document = copy.deepcopy(recorded)
    document["machines"][0]["seen"][0].update(change)
    session = tunableop.InferenceSession(MODEL, tuning="background")
    tunableop.set_tuning_results(session, document)
    assert _control._ask(session, "tune_seen")["pending"] == 0
    assert any(reason in note for note in tunableop.explain(session).notes)


def test_results_whose_items_overlap_are_not_compared(recorded: dict[str, Any], tmp_path: Path) -> None:
    """Two threads would write to one place: no kernel is to blame for what comes out."""
    document = copy.deepcopy(recorded)
    document["machines"][0]["seen"][0].update(batch=20, stride_c=7)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    (line,) = tunableop.tune(MODEL, cache=path).lines
    assert "the batch items of C overlap" in line


DENYING = """
import csv, json
path, reason = sys.argv[1:3]
session = tunableop.InferenceSession(MODEL, max_tuning_ms=200.0, trace=path + ".csv")
right(session)
kernels = {(row["library"], row["kernel"]) for row in csv.DictReader(open(path + ".csv"))}
kernels.add(tuple(tunableop.explain(session).shapes[0].default_kernel.split(":", 1)))
from onnxruntime_ep_tunableop import _core
identities = {library["library"]: library["identity"] for library in _core.libraries()}
document = tunableop.get_tuning_results(session)
document["machines"][0]["denied"] = [
    {"library": library, "kernel": kernel, "library_identity": identities[library], "reason": reason,
     "deaths": 2, "denied_at": 1, "until": 0}
    for library, kernel in kernels
]
document["machines"][0]["entries"] = []
json.dump(document, open(path, "w"))
"""


@pytest.mark.parametrize("tuning", ["online", "off", "background"])
def test_kernels_that_are_only_suspected_run_when_there_is_no_other(tuning: str, tmp_path: Path) -> None:
    """Processes die of many things; of wrong answers there is proof."""
    path = str(tmp_path / "results.json")
    run_python(DENYING, path, "a process ended while it ran (M=3)")
    script = """
    session = tunableop.InferenceSession(MODEL, cache=sys.argv[1], tuning=sys.argv[2])
    right(session) and right(session)
    (shape,) = tunableop.explain(session).shapes
    print(shape.why)
    """
    assert "only because a process ended" in run_python(script, path, tuning).stdout
    run_python(DENYING, path, "wrong answer: row 0")
    assert run_python(script, path, tuning, check=False).returncode != 0
