"""InferenceSession and its helpers: what goes in, what is refused, what they tell."""

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
from support.graphs import gemm_model, graph, matmul_model, model, value
from support.sessions import EP, check_runs, needs_names, ours, quick_session, random
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


@pytest.mark.parametrize("source", [None, 5, ["model.onnx"], object()], ids=repr)
def test_something_else_as_a_model_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a path, bytes or an onnx\.ModelProto, found"):
        tunableop.InferenceSession(source)


def test_a_missing_file_and_a_damaged_model_are_onnxruntimes_own_errors(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"none\.onnx"):
        tunableop.InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(Exception, match=r"(?i)protobuf|parse"):
        tunableop.InferenceSession(b"this is no model")


# --- options


@pytest.mark.parametrize(
    "call", [lambda **o: tunableop.InferenceSession(MODEL, **o), tunableop.session_options]
)
def test_an_unknown_option_is_named_with_the_known_ones(call: Callable[..., Any]) -> None:
    """onnxruntime ignores keywords that it does not know, so nobody else would notice."""
    with pytest.raises(tunableop.OptionError, match=r"'tunning'.*tuning, cache, cache_size"):
        call(tunning="off")


def test_an_unknown_option_among_the_providers_is_named() -> None:
    with pytest.raises(tunableop.OptionError, match=r"'tunning'.*tuning, cache, cache_size"):
        tunableop.InferenceSession(MODEL, providers=[(EP, {"tunning": "off"})])


def test_onnxruntimes_own_keywords_pass_through() -> None:
    right(
        quick_session(
            MODEL, enable_fallback=0, read_config_from_model=0, disabled_optimizers=["GemmSumFusion"]
        )
    )


def test_options_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(tunableop.OptionError, match="tuning would be ignored"):
        tunableop.InferenceSession(MODEL, tunableop.session_options(), tuning="off")
    with pytest.raises(tunableop.OptionError, match="providers would be ignored"):
        tunableop.InferenceSession(MODEL, tunableop.session_options(), providers=["CPUExecutionProvider"])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tuning": "sometimes"}, "'tuning': expected one of off, cached, online.*found 'sometimes'"),
    ({"claim": "some"}, "'claim': expected one of auto, all, weights, found 'some'"),
    ({"fusion": "on"}, "'fusion': expected one of auto, off, keep, found 'on'"),
    ({"candidates": "few"}, "'candidates': expected .*default.*all.*, found 'few'"),
    ({"device": "cuda"}, "'device': expected .*cpu.*, found 'cuda'"),
    ({"precision": "bf16"}, "'precision': expected exact.*, found 'bf16'"),
    ({"cache_size": 0}, "'cache_size': expected an integer from 1 .*, found '0'"),
    ({"cache_size": "many"}, "'cache_size': expected an integer.*, found 'many'"),
    ({"warmup_iter": -1}, "'warmup_iter': expected an integer from 0 .*, found '-1'"),
    ({"max_tuning_ms": "nan"}, "'max_tuning_ms': expected .*, found 'nan'"),
    ({"max_tuning_ms": float("inf")}, "'max_tuning_ms': expected .*, found 'inf'"),
    ({"min_gain": 1.5}, "'min_gain': expected .*, found '1.5'"),
    ({"threads": 2.5}, r"'threads': expected an integer.*, found '2\.5'"),
    ({"verify": "yes"}, "'verify': expected 0 or 1, found 'yes'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_values_are_named_with_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tunableop.OptionError, match=message) as caught:
        tunableop.InferenceSession(MODEL, **options)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, tunableop.TunableOpError)


def test_wrong_types_of_paths_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        tunableop.InferenceSession(MODEL, cache=5)  # type: ignore[arg-type]


def test_every_option_at_another_than_its_default(tmp_path: Path) -> None:
    session = tunableop.InferenceSession(
        MODEL,
        tuning="cached",
        cache=tmp_path / "c.json",
        cache_size=3,
        warmup_iter=0,
        max_tuning_ms=1.5,
        min_gain=0.5,
        verify=False,
        candidates="all",
        claim="weights",
        fusion="keep",
        precision="exact",
        device="cpu",
        threads=1,
    )
    right(session)
    assert tunableop.stats(session).fallbacks == {"not_in_cache": 2}


def test_options_among_the_providers_of_the_keyword() -> None:
    session = tunableop.InferenceSession(MODEL, providers=[(EP, {"tuning": "off"}), "CPUExecutionProvider"])
    right(session)
    assert tunableop.stats(session).fallbacks == {"tuning_off": 2}
    assert session.get_providers() == [EP, "CPUExecutionProvider"]


@needs_names
def test_the_callers_session_options_serve_the_next_session_as_they_did_before() -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    for tuning in ("off", "online"):
        session = tunableop.InferenceSession(MODEL, options, tuning=tuning)
        right(session)
        assert (tunableop.stats(session).tuned > 0) == (tuning == "online")
    if hasattr(options, "has_providers"):
        assert not options.has_providers()
    for key in ("optimization.disable_specified_optimizers", "ep.tunableopexecutionprovider.tuning"):
        with pytest.raises(Exception, match=key.split(".")[-1]):
            options.get_session_config_entry(key)
    plain = ort.InferenceSession(
        gemm_model([3, 4], [4, 5], [3, 5]).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert plain.get_providers() == ["CPUExecutionProvider"]


def test_session_options_for_anything_that_takes_them() -> None:
    base = ort.SessionOptions()
    base.intra_op_num_threads = 2
    options = tunableop.session_options(base, tuning="off")
    assert options is base
    for session in (
        ort.InferenceSession(MODEL.SerializeToString(), options),
        tunableop.InferenceSession(MODEL, options),
    ):
        right(session)
        assert session.get_providers()[0] == EP
        assert tunableop.stats(session).fallbacks == {"tuning_off": 2}


def test_session_options_serve_many_sessions() -> None:
    """On onnxruntime 1.24 the provider was added to them; the same options again are no contradiction."""
    options = ort.SessionOptions()
    for _ in range(2):
        session = quick_session(MODEL, sess_options=options)
        right(session)
        assert tunableop.stats(session).tuned == 1
    ready = tunableop.session_options(tuning="off")
    session = tunableop.InferenceSession(MODEL, ready, tuning="off")
    right(session)
    assert tunableop.stats(session).fallbacks == {"tuning_off": 2}


def test_a_base_with_providers_is_refused() -> None:
    base = tunableop.session_options()
    with pytest.raises(tunableop.OptionError, match="providers already"):
        tunableop.session_options(base)


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_without_prepacking(op: str) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "1")
    constants = {"B": B}
    one = MODEL if op == "MatMul" else gemm_model(["m", 8], None, with_c=False, constants=constants)
    session = quick_session(one, sess_options=options)
    right(session)
    (entry,) = tunableop.get_tuning_results(session)["machines"][0]["entries"]
    assert entry["b_layout"] == "plain"
    assert entry["b_constant"] is True


def test_without_a_fallback_to_the_cpu_provider() -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    right(quick_session(MODEL, sess_options=options))
    with pytest.raises(Exception, match=r"(?i)fallback"):
        quick_session(relu_only(), sess_options=options)  # the same options as before: allowed everywhere


@pytest.mark.parametrize(
    "level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]
)
def test_every_level_of_graph_optimisation(level: str) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    right(quick_session(MODEL, sess_options=options))


def test_an_optimised_model_written_by_stock_runs_with_us(tmp_path: Path) -> None:
    """Its FusedGemm is stock's own operator and stays there; the rest is ours."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "B"], ["P"], name="ours"),
        onnx.helper.make_node("Softmax", ["P"], ["S"], name="softmax"),
        onnx.helper.make_node("Gemm", ["S", "C"], ["Q"], name="gemm"),
        onnx.helper.make_node("Relu", ["Q"], ["Y"], name="relu"),
    ]
    both = model(graph(nodes, [value("X", ["m", 8])], [value("Y")], {"B": B, "C": random((5, 5), 3)}))
    stock = ort.InferenceSession(both.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session = quick_session(onnx.load(tmp_path / "optimised.onnx"))
    assert ours(session) == ["MatMul"]
    np.testing.assert_allclose(
        session.run(None, {"X": A})[0], stock.run(None, {"X": A})[0], rtol=1e-5, atol=1e-6
    )


# --- what a session tells


def relu_only() -> onnx.ModelProto:
    return model(graph([onnx.helper.make_node("Relu", ["X"], ["Y"])], [value("X", [3])], [value("Y")]))


def test_a_model_without_gemms_is_a_warning_on_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tunableop"):
        session = quick_session(relu_only())
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
    assert before == tunableop.Stats(0, 0, 0, 0.0, 0, 0, 0, {})
    assert before.hit_rate == 0.0
    for _ in range(4):
        session.run(None, {"A": A})
    after = tunableop.stats(session)
    assert (after.hits, after.misses, after.tuned, after.entries, after.evicted) == (3, 1, 1, 1, 0)
    assert after.tuning_seconds > 0
    assert after.hit_rate == 0.75
    assert after.fallbacks == {}


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
