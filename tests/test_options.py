"""Options: every one has an effect, and wrong ones are errors that name the right ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import gemm_model, graph, matmul_model, model, relu_model, value
from support.sessions import EP, check_runs, needs_names, ours, quick_session, random
from support.tolerance import product

A, B = random((3, 8), 1), random((8, 5), 2)
MODEL = matmul_model(["m", 8], None, constants={"B": B})
EXPECTED = product(A, B)


def right(session: ort.InferenceSession) -> None:
    check_runs(session, {"A": A}, *EXPECTED)


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
    ({"claim": "some"}, "'claim': expected one of auto, all, gemm, weights, found 'some'"),
    ({"fusion": "on"}, "'fusion': expected one of auto, off, keep, found 'on'"),
    ({"candidates": "few"}, "'candidates': expected .*default.*all.*, found 'few'"),
    ({"device": "gpu"}, "'device': expected auto, cpu, cuda.*, found 'gpu'"),
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
        quick_session(relu_model(), sess_options=options)  # the same options as before: allowed everywhere


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


@pytest.mark.parametrize(
    "call", [lambda **o: tunableop.InferenceSession(MODEL, **o), tunableop.session_options]
)
def test_a_cache_without_a_path_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(tunableop.OptionError, match="'cache': expected the path of a file, found ''"):
        call(cache="")


def test_a_pool_larger_than_the_option_allows_is_no_error() -> None:
    """The user set ONNX Runtime's own option; ours was not given, so the provider finds the number out."""
    key = f"ep.{EP.lower()}.threads"
    for threads, text in ((4096, "4096"), (4097, None)):
        base = ort.SessionOptions()
        base.intra_op_num_threads = threads
        options = tunableop.session_options(base)  # no session: it would start them all
        if text is None:
            with pytest.raises(Exception, match="threads"):
                options.get_session_config_entry(key)
        else:
            assert options.get_session_config_entry(key) == text


def test_provider_options_must_match_the_providers() -> None:
    with pytest.raises(tunableop.OptionError, match="expected one for each of the 1 providers, found 2"):
        tunableop.InferenceSession(MODEL, providers=[EP], provider_options=[{}, {}])


def test_a_session_that_finds_no_tuned_file_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    missing = tmp_path / "typo.json"
    right(tunableop.InferenceSession(MODEL, tuning="cached", cache=missing))
    assert caplog.messages == [f"tuning='cached', and there is no file '{missing}': default kernels run"]
    caplog.clear()
    tunableop.tune(MODEL, shapes={"A": [3, 8]}, cache=missing, max_tuning_ms=5)
    # claim="gemm": else the stock provider may have been faster, and is told of.
    right(tunableop.InferenceSession(MODEL, tuning="cached", cache=missing, claim="gemm"))
    right(tunableop.InferenceSession(MODEL, tuning="cached"))
    assert caplog.messages == []


@pytest.mark.parametrize("option", ["cache", "trace"])
def test_what_is_no_path_names_its_option(option: str) -> None:
    with pytest.raises(TypeError, match=f"option '{option}': expected the path of a file, found 5"):
        tunableop.InferenceSession(MODEL, **{option: 5})
