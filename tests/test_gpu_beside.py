"""Beside another provider of the same card, whose streams and memory ours has to share."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from support import narrow
from support.built import built
from support.cards import (
    BOTH,
    backend,
    card_session,
    control,
    count,
    empty_on_card,
    ep_devices,
    faults,
    flavour,
    folder,
    on_card,
    value_on_card,
)
from support.graphs import graph, model, value
from support.sessions import assigned

Array = npt.NDArray[Any]
W = narrow.random((8, 8), "fp32", 5)
OTHER = "OtherGpuExecutionProvider"


@functools.cache
def other() -> ctypes.CDLL:
    """Registers the other provider."""
    pattern = "libcudart.so.*" if backend() == "cuda" else "libamdhip64.so.*"
    (runtime,) = folder(flavour()).glob(pattern)
    os.environ["OTHER_GPU_RUNTIME"] = str(runtime)
    path = built("libtunableop_other_gpu.so")
    ort.register_execution_provider_library("other", str(path))
    library = ctypes.CDLL(str(path))
    library.other_gpu_streams.restype = ctypes.c_int64
    library.other_gpu_kernels.restype = ctypes.c_int64
    library.other_gpu_one_stream.restype = ctypes.c_void_p
    return library


def runtime(name: str, *arguments: Any) -> int:
    """runtime("StreamBeginCapture", ...) is cudaStreamBeginCapture or hipStreamBeginCapture."""
    return int(control()[backend() + name](*arguments))


def mixed(length: int) -> onnx.ModelProto:
    """Flatten, which the other provider runs, and MatMul, which ours runs, in turns."""
    nodes, last = [], "X"
    for i in range(length):
        nodes.append(helper.make_node("Flatten", [last], [f"f{i}"], name=f"flatten{i}"))
        nodes.append(helper.make_node("MatMul", [f"f{i}", "W"], [f"m{i}"], name=f"matmul{i}"))
        last = f"m{i}"
    nodes.append(helper.make_node("Flatten", [last], ["Y"], name="flatten"))
    return model(graph(nodes, [value("X", ["m", 8])], [value("Y", ["m", 8])], {"W": W}))


def beside(length: int, body: onnx.ModelProto | None = None, **options: Any) -> ort.InferenceSession:
    """Ours first, as it has to be. `body`: another model than mixed(length)."""
    ep_devices()
    other()
    (device,) = (device for device in ort.get_ep_devices() if device.ep_name == OTHER)
    settings = ort.SessionOptions()
    ours = ep_devices()[0]
    defaults = {"tuning": "off", "claim": "gemm"}  # what is between the products is the other's
    texts = {key: str(text) for key, text in (defaults | options).items()}
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings.add_provider_for_devices([ours], texts)
    settings.add_provider_for_devices([device], {})
    data = (body or mixed(length)).SerializeToString()
    session = ort.InferenceSession(data, settings, enable_fallback=0)
    session.disable_fallback()
    operators = {(provider, op) for provider, op, _ in assigned(session)}
    assert operators == {("TunableOpExecutionProvider", "MatMul"), (OTHER, "Flatten")}
    return session


def product(x: Array, length: int) -> Array:
    for _ in range(length):
        x = x @ W
    return x


def close(got: Array, expected: Array, what: str = "") -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4 * float(np.abs(expected).max()), err_msg=what)


@on_card(*BOTH)
def test_both_work_on_one_stream_and_in_one_memory() -> None:
    session = beside(4)
    x = narrow.random((5, 8), "fp32", 1)
    output = empty_on_card((5, 8), np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value_on_card(x))
    binding.bind_ortvalue_output("Y", output)
    for _ in range(3):
        session.run_with_iobinding(binding)
    close(output.numpy(), product(x, 4))
    before = count("copies"), count("mallocs"), other().other_gpu_kernels()
    for _ in range(3):
        session.run_with_iobinding(binding)
    flattened = other().other_gpu_kernels() - before[2]
    assert flattened == 3 * 5
    assert count("copies") - before[0] == flattened, "nothing is copied between the two"
    assert count("mallocs") == before[1]
    close(output.numpy(), product(x, 4))


@on_card(*BOTH)
def test_slow_kernels_are_waited_for() -> None:
    session = beside(3)
    faults("real_slow:20")
    for rows in (1, 5, 5, 64, 5):
        x = narrow.random((rows, 8), "fp32", rows)
        close(session.run(None, {"X": x})[0], product(x, 3), f"{rows} rows")


@on_card(*BOTH)
def test_six_threads_each_with_a_stream() -> None:
    session = beside(4)
    faults("real_slow:1")
    x = {rows: narrow.random((rows, 8), "fp32", rows) for rows in (1, 2, 5, 16, 33, 70)}
    expected = {rows: product(array, 4) for rows, array in x.items()}
    failures: list[str] = []

    def serve(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(40):
                rows = int(rng.choice(list(x)))
                close(session.run(None, {"X": x[rows]})[0], expected[rows], f"{rows} rows")
        except BaseException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures, f"{len(failures)} threads: {failures[0]}"
    assert other().other_gpu_streams() > 1
    assert count("illegal_address") == 0


@on_card(*BOTH, OTHER_GPU_ONE_STREAM="1")
def test_threads_on_one_stream_take_turns_in_its_workspace() -> None:
    # What a stock provider's option user_compute_stream makes of a session that serves many.
    long = narrow.random((2048, 8), "fp32", 3)
    nodes = [helper.make_node("Flatten", ["X"], ["f"]), helper.make_node("MatMul", ["f", "W"], ["Y"])]
    body = model(graph(nodes, [value("X", ["m", 2048])], [value("Y", ["m", 8])], {"W": long}))
    session = beside(0, body)
    x = narrow.random((16, 2048), "fp32", 1)
    close(session.run(None, {"X": x})[0], x @ long)
    faults("slow_launch")
    failures: list[str] = []

    def serve() -> None:
        try:
            for _ in range(40):
                close(session.run(None, {"X": x})[0], x @ long)
        except BaseException as error:
            failures.append(str(error))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, f"{len(failures)} threads: {failures[0]}"
    assert other().other_gpu_streams() == 1
    assert count("misuse") == 0


@on_card(*BOTH, OTHER_GPU_ONE_STREAM="1")
def test_a_copy_while_a_graph_is_captured_is_refused_and_does_not_spoil_it() -> None:
    session = beside(2)
    x = narrow.random((5, 8), "fp32", 1)
    close(session.run(None, {"X": x})[0], product(x, 2))
    stream, graph = ctypes.c_void_p(other().other_gpu_one_stream()), ctypes.c_void_p()
    assert runtime("StreamBeginCapture", stream, 0) == 0
    with pytest.raises(Exception, match="a graph is being captured"):
        value_on_card(x)
    assert runtime("StreamEndCapture", stream, ctypes.byref(graph)) == 0
    assert runtime("GraphDestroy", graph) == 0
    close(session.run(None, {"X": x})[0], product(x, 2))


@on_card(*BOTH)
def test_a_graph_that_another_thread_captures_is_not_spoiled() -> None:
    # It would be by what libraries allocate for a handle, load of kernels, or wait for at its end.
    ep_devices()
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    assert runtime("StreamCreateWithFlags", ctypes.byref(stream), 1) == 0
    x = narrow.random((5, 8), "fp32", 1)
    failures: list[str] = []

    def serve() -> None:
        try:
            for tuning in ("off", "online"):
                session = card_session(mixed(2), tuning=tuning, max_tuning_ms=5, warmup_iter=1)
                for _ in range(2):
                    close(session.run(None, {"X": x})[0], product(x, 2), tuning)
                del session
                gc.collect()
        except BaseException as error:
            failures.append(str(error))

    assert runtime("StreamBeginCapture", stream, 0) == 0  # for all threads
    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert not failures, failures[0]
    assert runtime("StreamEndCapture", stream, ctypes.byref(graph)) == 0
    assert count("matmuls") > 0


@on_card(*BOTH)
def test_tuning_beside_another_provider() -> None:
    session = beside(2, tuning="online", max_tuning_ms=5, warmup_iter=1)
    for rows in (1, 5, 5):
        x = narrow.random((rows, 8), "fp32", rows)
        close(session.run(None, {"X": x})[0], product(x, 2), f"{rows} rows")


@on_card(*BOTH)
def test_sessions_with_and_without_it() -> None:
    x = narrow.random((5, 8), "fp32", 1)
    for _ in range(2):
        close(beside(3).run(None, {"X": x})[0], product(x, 3))
        alone = card_session(mixed(3))
        close(alone.run(None, {"X": x})[0], product(x, 3))


def test_the_other_provider_is_built() -> None:
    assert isinstance(built("libtunableop_other_gpu.so"), Path)
