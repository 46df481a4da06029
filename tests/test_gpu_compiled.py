"""Sessions whose operators are compiled at run time: what is kept, what is said, and what goes wrong."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper
from support.cards import BOTH, card_session, count, faults, flavour, on_card
from support.graphs import graph, model, value
from support.sessions import ours, random

Done = subprocess.CompletedProcess[str]


def proto() -> onnx.ModelProto:
    """Two products with two operators between."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"]),
        helper.make_node("Mul", ["a", "c"], ["b"]),
        helper.make_node("Tanh", ["b"], ["d"]),
        helper.make_node("MatMul", ["d", "V"], ["Y"]),
    ]
    constants = {"W": random((8, 12), 1), "c": random((12,), 2), "V": random((12, 5), 3)}
    return model(graph(nodes, [value("X", ["n", 8])], [value("Y", None)], constants))


FEEDS = {"X": random((6, 8), 4)}


def expected() -> Any:
    session = ort.InferenceSession(proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, FEEDS)[0]


def right(session: ort.InferenceSession) -> None:
    np.testing.assert_allclose(session.run(None, FEEDS)[0], expected(), rtol=1e-5, atol=1e-5)


EVERYTHING = ["MatMul", "MatMul", "Mul", "Tanh"]
PRODUCTS = ["MatMul", "MatMul"]


@on_card(*BOTH)
def test_sessions_of_a_process_share_what_was_compiled() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNABLEOP_KERNEL_CACHE"] = str(Path(folder) / "kernels")
        first = card_session(proto(), claim="all")
        assert sorted(ours(first)) == EVERYTHING
        compiled = count("compiles")
        kept = [path.name.split("-")[0] for path in (Path(folder) / "kernels").iterdir()]
        assert {"binary", "unary"} <= set(kept)
        assert len(kept) == compiled
        second = card_session(proto(), claim="all")
        assert count("compiles") == compiled
        for session in (first, second):
            launches = count("launches")
            right(session)
            assert count("launches") == launches + 2
        assert card_session(proto(), card=1, claim="all")
        assert count("compiles") == compiled  # the second card's are read


def said(done: Done) -> None:
    lines = re.findall(r"\[TunableOp\] (compiled \w+ .*)", done.stderr)
    assert any(
        re.fullmatch(r"compiled unary f32 f32 for \S+ in \d+ ms \(\w+ .*\)\S*", line) for line in lines
    ), lines


@on_card("cuda13", check=said)
def test_the_log_says_what_was_compiled() -> None:
    ort.set_default_logger_severity(1)
    right(card_session(proto(), claim="all"))


def why(session: ort.InferenceSession, op: str) -> str:
    (node,) = (node for node in tunableop.explain(session).operators if node.op_type == op)
    return str(node.reason)


def products_only(words: str) -> None:
    """Nothing but products is taken, the reason is told, and the session is right."""
    session = tunableop.InferenceSession(proto(), claim="all", tuning="off", device=DEVICE[flavour()])
    assert sorted(ours(session)) == PRODUCTS
    assert re.search(words, why(session, "Tanh")), why(session, "Tanh")
    right(session)


DEVICE = {"cuda13": "cuda", "cuda13-nortc": "cuda", "rocm7": "hip", "rocm7-noext": "hip"}


@on_card("cuda13-nortc", "rocm7-noext")
def test_without_a_compiler() -> None:
    products_only(r"kernels cannot be compiled: lib(nvrtc\.so\.13|hiprtc\.so\.7)")


@on_card(*BOTH, SIM_GPU_FAULTS="compile_fails")
def test_a_compiler_that_fails() -> None:
    products_only(r'RTC_ERROR_COMPILATION\n.*identifier "oops" is undefined')
    assert count("compiles") == 1
    products_only("oops")
    assert count("compiles") == 1  # the refusal is remembered


@on_card(*BOTH, SIM_GPU_FAULTS="module_fails")
def test_a_driver_that_refuses_the_code() -> None:
    products_only("loading code")


@on_card("cuda13", SIM_GPU_FAULTS="old_compiler")
def test_a_card_that_is_newer_than_its_compiler() -> None:
    session = card_session(proto(), claim="all")
    assert sorted(ours(session)) == EVERYTHING
    right(session)


@on_card(*BOTH)
def test_modules_are_compiled_before_kernels_are_made_several_at_once() -> None:
    card_session(proto(), claim="all")  # the small one
    faults("compile_slow:100")
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]),
        helper.make_node("ReduceMax", ["c"], ["d"], axes=[1], keepdims=1),
        helper.make_node("Equal", ["c", "d"], ["e"]),
        helper.make_node("Where", ["e", "c", "d"], ["Y"]),
    ]
    body = model(graph(nodes, [value("X", ["n", 8])], [value("Y", None)], {"W": random((8, 12), 1)}), 13)
    before = count("compiles")
    session = card_session(body, claim="all")
    assert len(ours(session)) == 6
    assert count("compiles") == before + 5
    if len(os.sched_getaffinity(0)) > 1:
        assert count("compiling_at_once:2") >= 2  # two at least are made while another one is


@on_card(*BOTH)
def test_a_launch_that_fails_is_the_runs_error() -> None:
    session = card_session(proto(), claim="all")
    right(session)
    faults("launch_fails")
    with pytest.raises(Exception, match=r"launching a kernel.*resources"):
        session.run(None, FEEDS)
    faults("")
    right(session)
