"""InferenceSession: the models that it takes, and what it tells of itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model, relu_model
from support.sessions import EP, check_runs, needs_names, quick_session, random
from support.tolerance import product

A, B = random((3, 8), 1), random((8, 5), 2)
MODEL = matmul_model(["m", 8], None, constants={"B": B})
EXPECTED = product(A, B)


def right(session: ort.InferenceSession) -> None:
    check_runs(session, {"A": A}, *EXPECTED)


# --- names


def test_names_and_the_library_path() -> None:
    assert tunableop.get_ep_name() == "TunableOpExecutionProvider"
    assert tunableop.get_ep_names() == [tunableop.get_ep_name()]
    path = Path(tunableop.get_library_path())
    assert path.is_absolute()
    assert path.is_file()
    assert path.name == "libonnxruntime_providers_tunableop.so"


def test_devices_name_the_cpu_and_its_libraries() -> None:
    (cpu,) = tunableop.devices()
    assert cpu.backend == "cpu"
    assert cpu.name
    assert "native" in cpu.libraries
    assert not set(cpu.libraries) & set(cpu.missing)
    assert all(cpu.libraries.values())
    assert all(cpu.missing.values())


# --- models


def test_models_as_bytes_proto_path_and_text_path(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(MODEL, file)
    for source in (MODEL, MODEL.SerializeToString(), file, str(file)):
        right(tunableop.InferenceSession(source))


def test_a_model_with_external_data(tmp_path: Path) -> None:
    weight = random((64, 80), 3)
    file = tmp_path / "model.onnx"
    big = matmul_model(["m", 64], None, constants={"B": weight})
    onnx.save(big, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size >= weight.nbytes
    a = random((7, 64), 4)
    check_runs(tunableop.InferenceSession(file), {"A": a}, *product(a, weight))


@pytest.mark.parametrize(
    "source", [None, 5, ["model.onnx"], object()], ids=lambda value: type(value).__name__
)
def test_something_else_as_a_model_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a path, bytes or an onnx\.ModelProto, found"):
        tunableop.InferenceSession(source)


def test_a_missing_file_and_a_damaged_model_are_onnxruntimes_own_errors(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"none\.onnx"):
        tunableop.InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(Exception, match=r"(?i)protobuf|parse"):
        tunableop.InferenceSession(b"this is no model")


# --- what a session tells


def test_a_model_without_gemms_is_a_warning_on_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tunableop"):
        session = quick_session(relu_model())
    (record,) = caplog.records
    assert record.name == "tunableop"
    assert record.levelno == logging.WARNING
    assert f"{EP} runs no node of this model: it has no MatMul or Gemm" in record.getMessage()
    assert session.run(None, {"X": np.array([-1, 0, 2], np.float32)})[0].tolist() == [0, 0, 2]


def test_a_model_with_only_refused_gemms_is_a_warning_with_the_reasons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quick_session(matmul_model([2, 3], [3, 4], dtype=onnx.TensorProto.DOUBLE))
    (record,) = caplog.records
    assert "input type fp64" in record.getMessage()


def test_a_model_with_claimed_gemms_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    quick_session(MODEL)
    assert not caplog.records


def test_stats_count_what_happened() -> None:
    session = quick_session(MODEL)
    before = tunableop.stats(session)
    counted = {key: value for key, value in vars(before).items() if key != "session_seconds"}
    assert counted.pop("tuning") == "online"
    assert counted.pop("device") == "cpu"
    graphs = counted.pop("graphs")
    assert not any(vars(graphs).values())
    assert not any(counted.values())
    assert before.hit_rate == 0.0
    for _ in range(4):
        session.run(None, {"A": A})
    after = tunableop.stats(session)
    assert (after.hits, after.misses, after.tuned, after.entries, after.evicted) == (3, 1, 1, 1, 0)
    assert after.tuning_seconds > 0
    assert after.hit_rate == 0.75
    assert after.fallbacks == {}
    assert 0 < after.tuning_share < 1
    assert after.session_seconds > before.session_seconds


def test_explain_tells_nodes_and_shapes_as_data_and_as_text() -> None:
    session = quick_session(MODEL)
    session.run(None, {"A": A})
    told = tunableop.explain(session)
    (node,) = told.nodes
    assert (node.op_type, node.name, node.graph, node.claimed, node.weight) == (
        "MatMul",
        "node",
        "g",
        True,
        True,
    )
    (shape,) = told.shapes
    assert (shape.m, shape.n, shape.k, shape.batch, shape.tuned) == (3, 5, 8, 1, True)
    assert shape.kernel.split(":")[0] in tunableop.devices()[0].libraries
    assert shape.milliseconds <= shape.default_milliseconds
    assert shape.candidates >= 1
    text = str(told)
    for part in (
        "1 of 1 MatMul and Gemm nodes run on",
        "claimed: fp32, B is a weight",
        "M=3,N=5,K=8",
        shape.kernel,
    ):
        assert part in text


def test_default_kernels_are_explained_as_such() -> None:
    session = quick_session(MODEL, tuning="off")
    session.run(None, {"A": A})
    (shape,) = tunableop.explain(session).shapes
    assert not shape.tuned
    assert "default kernel" in str(tunableop.explain(session))


QUESTIONS: dict[str, Callable[[ort.InferenceSession], object]] = {
    "stats": tunableop.stats,
    "explain": tunableop.explain,
    "get_tuning_results": tunableop.get_tuning_results,
    "set_tuning_results": lambda session: tunableop.set_tuning_results(session, {}),
    "save_cache": lambda session: tunableop.save_cache(session, "x"),
    "load_cache": lambda session: tunableop.load_cache(session, "x"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_session_without_our_provider_is_an_error_of_its_own(question: str) -> None:
    stock = ort.InferenceSession(MODEL.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(
        tunableop.NotAssignedError, match=rf"does not use {EP} \(providers: CPUExecutionProvider\)"
    ):
        QUESTIONS[question](stock)


def test_a_session_that_left_our_provider_says_so() -> None:
    """set_providers makes the session anew."""
    session = quick_session(MODEL)
    right(session)
    assert tunableop.stats(session).tuned == 1
    session.set_providers(["CPUExecutionProvider"])
    right(session)
    with pytest.raises(tunableop.NotAssignedError):
        tunableop.stats(session)


@needs_names
def test_a_session_made_anew_with_our_provider_starts_afresh() -> None:
    session = quick_session(MODEL)
    right(session)
    assert tunableop.stats(session).tuned == 1
    session.set_providers([EP, "CPUExecutionProvider"])
    assert tunableop.stats(session).tuned == 0
    right(session)
    assert tunableop.stats(session).hits == 1


def test_an_unknown_dynamic_option_names_the_known_ones() -> None:
    session = quick_session(MODEL)
    with pytest.raises(Exception, match=r"'nonsense'.*cache\.save, cache\.load"):
        session.set_ep_dynamic_options({"nonsense": "1"})
    session.set_ep_dynamic_options({"ep.dynamic.workload_type": "Default"})  # meant for others
    right(session)


def test_profiles_name_our_nodes(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = quick_session(MODEL, sess_options=options)
    right(session)
    text = Path(session.end_profiling()).read_text()
    assert "node_kernel_time" in text
    assert EP in text


def test_run_options_and_cancelling() -> None:
    session = quick_session(MODEL)
    run_options = ort.RunOptions()
    run_options.terminate = True
    with pytest.raises(Exception, match=r"(?i)terminat"):
        session.run(None, {"A": A}, run_options)
    right(session)
