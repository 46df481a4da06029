"""`tunableop.InferenceSession` with `enable_graph`: numpy in, numpy out, whatever comes in which order."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper, numpy_helper
from onnxruntime_ep_tunableop import _devices
from support.captured import K, answer, captures, chain, model, numbered, weights, whole
from support.cards import BOTH, backend, count, faults, memory_used, on_card
from support.waiting import until

RNG = np.random.default_rng(1)


def make(source: Any = None, **options: Any) -> tunableop.InferenceSession:
    options = {"tuning": "off", "enable_graph": True} | options
    return tunableop.InferenceSession(source or chain(), **options)


def graphs(session: ort.InferenceSession) -> tunableop.GraphStats:
    return tunableop.stats(session).graphs


def check(session: ort.InferenceSession, rows: int, rng: np.random.Generator = RNG) -> None:
    x = whole(rng, rows)
    assert np.array_equal(session.run(None, {"X": x})[0], answer(x)), rows


@captures
@on_card("cuda13", "rocm7", "rocm6")
def test_the_second_run_of_a_shape_captures_and_later_ones_replay() -> None:
    session = make()
    for run in range(6):
        check(session, 8)
        assert (graphs(session).captured, graphs(session).replayed) == (int(run > 0), max(run - 1, 0))
    memory = count("mallocs")
    x = np.asfortranarray(whole(RNG, 8))
    (y,) = session.run(["Y"], {"X": x})
    check(session, 8)
    assert np.array_equal(y, answer(x)), "what was given back stays as it is"
    assert count("mallocs") == memory
    assert np.array_equal(session.run(None, {"X": x}, numbered(-1))[0], answer(x))
    replayed = graphs(session).replayed
    assert np.array_equal(session.run(None, {"X": x}, ort.RunOptions())[0], answer(x))
    assert graphs(session).replayed == replayed
    assert tunableop.explain(session).notes == []


@captures
@on_card(*BOTH)
def test_any_sequence_of_shapes_outputs_and_threads_is_right() -> None:
    """Thousands of runs, with fewer graphs than shapes."""
    session = make(chain(("h1", "Y")), max_graphs=4)
    first = [*weights()[:2]]
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        recent = 1
        for _ in range(400):
            recent = recent if rng.random() < 0.6 else int(rng.integers(1, 8))
            x = whole(rng, recent)
            names = [None, ["Y"], ["Y", "h1"]][rng.integers(3)]
            got = dict(zip(names or ["h1", "Y"], session.run(names, {"X": x}), strict=True))
            want = {"Y": answer(x), "h1": x @ first[0] @ first[1]}
            if any(not np.array_equal(got[name], want[name]) for name in got):
                wrong.append((seed, names, x))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    stats = graphs(session)
    assert stats.replayed > 100
    assert stats.evicted > 10
    assert stats.alive <= 4
    assert not stats.refused
    assert count("misuse") == 0


@captures
@on_card(*BOTH)
def test_memory_of_the_card_is_bounded() -> None:
    session = make(max_graphs=3)
    for rows in range(100, 112):
        for _ in range(2):
            check(session, rows)
    gc.collect()
    before = memory_used()
    for rows in range(100, 130):
        for _ in range(3):
            check(session, rows)
    gc.collect()
    assert memory_used() < before + (1 << 20)
    assert graphs(session).alive == 3
    limited = make(graph_memory=100 * K * 4 * 6)
    for _ in range(3):
        for rows in (100, 99, 98, 97):
            check(limited, rows)
            check(limited, rows)
            assert graphs(limited).bytes <= 100 * K * 4 * 6
    assert graphs(limited).evicted > 3
    for _ in range(3):
        check(limited, 1000)
    assert any("more than graph_memory allows" in note for note in tunableop.explain(limited).notes)


@captures
@on_card(*BOTH)
def test_a_failing_kernel_is_told_and_the_session_goes_on() -> None:
    session = make()
    for fault in ("not_supported", "capture_refuses:2", "capture_spoilt", "no_instance", "no_graph_launch"):
        rows = len(fault)
        check(session, rows)
        faults(fault)
        for _ in range(2):
            try:
                check(session, rows)
            except Exception as error:
                assert fault == "not_supported", fault
                assert "MatMul" in str(error)  # noqa: PT017
        faults("")
        for _ in range(3):
            check(session, rows)
    assert graphs(session).captured == 2
    faults("no_graph_launch")
    check(session, len("not_supported"))
    faults("")
    check(session, len("not_supported"))


@captures
@on_card("cuda13")
def test_what_no_graph_can_serve_runs_without_one() -> None:
    session = make()
    for _ in range(3):
        assert session.run(None, {"X": whole(RNG, 1)[:0]})[0].shape == (0, K)
        value = ort.OrtValue.ortvalue_from_numpy(whole(RNG, 4))
        assert np.array_equal(session.run(None, {"X": value})[0], answer(value.numpy()))
        both = session.run(["Y", "Y"], {"X": value.numpy()})
        assert np.array_equal(both[0], both[1])
        assert np.array_equal(both[0], answer(value.numpy()))
    with pytest.raises(Exception, match="X"):
        session.run(None, {})
    for _ in range(3):
        with pytest.raises(Exception, match="X"):
            session.run(None, {"X": whole(RNG, 4).astype(np.float64)})
    assert count("captures") == 0
    shape = helper.make_tensor_value_info("t", onnx.TensorProto.INT64, [2])
    weight = numpy_helper.from_array(weights()[0], "W")
    reshaped = model(
        [helper.make_node("Reshape", ["X", "t"], ["r"]), helper.make_node("MatMul", ["r", "W"], ["Y"])],
        [weight],
    )
    reshaped.graph.input.append(shape)
    told = make(reshaped, claim="all")
    x = whole(RNG, 4)
    for _ in range(4):
        got = told.run(None, {"X": x, "t": np.array([4, K])})[0]
        assert np.array_equal(got, x @ weights()[0])
    assert graphs(told).alive == 0
    settings = ort.SessionOptions()
    settings.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    settings.inter_op_num_threads = 3
    parallel = make(sess_options=settings)
    for _ in range(4):
        check(parallel, 4)


@captures
@on_card("cuda13")
def test_a_model_that_onnxruntime_captures_no_graphs_of_is_run_without() -> None:
    weight = numpy_helper.from_array(weights()[0], "W")
    product = helper.make_node("MatMul", ["X", "W"], ["h"])
    elsewhere = model([product, helper.make_node("Hardmax", ["h"], ["Y"])], [weight])
    yes = numpy_helper.from_array(np.array(True), "yes")
    branch = helper.make_graph([helper.make_node("Identity", ["h"], ["t"])], "b", [], [])
    branch.output.append(helper.make_tensor_value_info("t", 1, None))
    nodes = [
        product,
        helper.make_node("And", ["yes", "yes"], ["c"]),
        helper.make_node("If", ["c"], ["Y"], then_branch=branch, else_branch=branch),
    ]
    options = tunableop.session_options(enable_graph=True, tuning="off")
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for made, words in (
        (make(elsewhere), "Hardmax"),
        (tunableop.InferenceSession(elsewhere.SerializeToString(), options), "Hardmax"),
        (make(model(nodes, [weight, yes]), sess_options=plain), "control flow"),
    ):
        assert not graphs(made).enabled
        (note,) = [note for note in tunableop.explain(made).notes if "there are no graphs" in note]
        assert words in note
        for _ in range(3):
            assert made.run(None, {"X": whole(RNG, 4)})[0].shape == (4, K)
    assert count("captures") == 0


@captures
@on_card(*BOTH)
def test_a_session_with_graphs_asks_for_no_other_provider_of_the_card() -> None:
    """But where a graph cannot be: then it is as without."""
    asked: list[str] = []

    def beside(device: Any, precision: str) -> list[Any]:
        asked.append(device.id)
        return []

    _devices.beside = beside
    session = make()
    check(session, 4)
    assert graphs(session).enabled
    assert asked == []
    make(enable_graph=False)
    assert asked == [f"{backend()}:0"]
    weight = numpy_helper.from_array(weights()[0], "W")
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["h"]),
        helper.make_node("Hardmax", ["h"], ["Y"]),  # has no kernel of ours
    ]
    session = make(model(nodes, [weight]))
    assert not graphs(session).enabled
    assert len(asked) == 2
    make(claim="all")  # what the caller says stands
    assert len(asked) == 3


@on_card(None)
def test_on_the_cpu_there_are_no_graphs() -> None:
    session = make()
    check(session, 3)
    assert not graphs(session).enabled
    assert "there are no graphs: this session runs on the CPU" in "".join(tunableop.explain(session).notes)


@captures
@on_card(*BOTH)
def test_choices_of_the_background_come_into_the_graph() -> None:
    """It is captured with default kernels, and anew when something better is known."""
    session = make(tuning="background", max_tuning_ms=20, background_share=1.0)
    for _ in range(3):
        check(session, 8)
    assert graphs(session).captured >= 1
    until(lambda: tunableop.stats(session).tuned > 0 and tunableop.stats(session).pending == 0, "measured")
    for _ in range(3):
        check(session, 8)
    stats = graphs(session)
    (shape,) = [shape for shape in tunableop.explain(session).shapes if shape.tuned]
    assert (stats.recaptured > 0) == (shape.kernel != shape.default_kernel)
    tunableop.set_tuning(session, "off")
    recaptured = stats.recaptured
    for _ in range(3):
        check(session, 8)
    assert graphs(session).recaptured == recaptured + 1


@captures
@on_card("cuda13")
def test_a_session_goes_with_its_graphs_and_its_memory() -> None:
    check(make(), 8)
    gc.collect()
    before = memory_used()
    for _ in range(3):
        session = make()
        for rows in (8, 9):
            for _ in range(3):
                check(session, rows)
        session.set_providers(["CPUExecutionProvider"])
        check(session, 8)
        del session
        gc.collect()
    assert (count("graphs"), count("graphs_destroyed")) == (6, 6)
    assert memory_used() <= before


def block() -> onnx.ModelProto:
    """Norm, Gemm with a bias by column, Gelu, a reshape computed from the shape, softmax, a residual."""
    rng = np.random.default_rng(2)
    random = {
        name: rng.standard_normal(shape, dtype=np.float32) * np.float32(0.2)
        for name, shape in {"W0": (K, K), "W1": (K, K), "c": (K,), "s": (K,), "b": (K,)}.items()
    }
    constants = {
        "half": np.float32(0.5),
        "one": np.float32(1.0),
        "root": np.float32(2**0.5),
        "zero": np.array([0], np.int64),
        "parts": np.array([4, K // 4], np.int64),
        "back": np.array([-1, K], np.int64),
    }
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["X", "s", "b"], ["n"], axis=-1),
        node("Gemm", ["n", "W0", "c"], ["g"], alpha=0.5, beta=2.0, transB=1),
        node("Div", ["g", "root"], ["g1"]),
        node("Erf", ["g1"], ["g2"]),
        node("Add", ["g2", "one"], ["g3"]),
        node("Mul", ["g", "g3"], ["g4"]),
        node("Mul", ["g4", "half"], ["g5"]),
        node("Shape", ["X"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"]),
        node("Concat", ["rows", "parts"], ["target"], axis=0),
        node("Reshape", ["g5", "target"], ["r"]),
        node("Softmax", ["r"], ["p"], axis=-1),
        node("Reshape", ["p", "back"], ["q"]),
        node("MatMul", ["q", "W1"], ["m"]),
        node("Add", ["m", "X"], ["Y"]),
    ]
    both = random | {name: np.asarray(value) for name, value in constants.items()}
    return model(nodes, [numpy_helper.from_array(value, name) for name, value in both.items()])


@captures
@on_card(*BOTH)
def test_a_block_of_many_operators_answers_the_same_with_graphs_and_without() -> None:
    with_graphs = make(block(), claim="all")
    without = make(block(), claim="all", enable_graph=False)
    cpu = ort.InferenceSession(block().SerializeToString(), providers=["CPUExecutionProvider"])
    assert graphs(with_graphs).enabled, tunableop.explain(with_graphs).notes
    rng = np.random.default_rng(3)
    for _ in range(40):
        feeds = {"X": rng.standard_normal((int(rng.integers(1, 5)), K), dtype=np.float32)}
        (got,) = with_graphs.run(None, feeds)
        assert np.array_equal(got, without.run(None, feeds)[0])
        np.testing.assert_allclose(got, cpu.run(None, feeds)[0], rtol=1e-4, atol=1e-5)
    stats = graphs(with_graphs)
    assert (stats.captured, stats.replayed) == (4, 32)
    assert not stats.refused
