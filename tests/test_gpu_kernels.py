"""MatMul and Gemm of every type on simulated cards, through onnxruntime, against numpy."""

from __future__ import annotations

import gc
import importlib
import os
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper
from support import narrow
from support.cards import (
    BOTH,
    FLAVOURS,
    backend,
    card_session,
    count,
    ep_devices,
    faults,
    on_card,
    value_on_card,
)
from support.graphs import gemm_model, graph, matmul_model, value
from support.graphs import model as simple_model
from support.sessions import EP, assigned, ours

KINDS = list(narrow.TYPES)

# (A, B) of MatMul: every way that batches fold and broadcast, vectors, empty sums and results.
MATMUL_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 8), (8, 5)),
    ((1, 64), (64, 96)),
    ((17, 33), (33, 19)),
    ((2, 3, 8), (8, 6)),
    ((2, 3, 4, 8), (2, 3, 8, 6)),
    ((2, 1, 4, 8), (1, 3, 8, 6)),
    ((3, 1, 4, 8), (1, 2, 8, 6)),
    ((2, 2, 2, 4, 8), (2, 1, 2, 8, 6)),
    ((8,), (8, 6)),
    ((4, 8), (8,)),
    ((8,), (8,)),
    ((2, 4, 8), (8,)),
    ((4, 0), (0, 6)),
    ((2, 4, 0), (2, 0, 6)),
    ((0, 8), (8, 6)),
    ((4, 8), (8, 0)),
]


def matmul_once(kind: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...], constant: bool) -> None:
    a, b = narrow.random(a_shape, kind, 1), narrow.random(b_shape, kind, 2)
    constants = {"B": b} if constant else {}
    model = narrow.one_node("MatMul", {"A": a_shape, "B": b_shape}, constants, kind)
    session = card_session(model)
    assert ours(session).count("MatMul") == 1
    feeds = {"A": narrow.feed(a)} | ({} if constant else {"B": narrow.feed(b)})
    exact = np.asarray(np.matmul(narrow.wide(a), narrow.wide(b)))
    magnitude = np.asarray(np.matmul(np.abs(narrow.wide(a)), np.abs(narrow.wide(b))))
    for run in range(2):
        got = session.run(None, feeds)[0]
        what = f"{kind} {a_shape} @ {b_shape}, constant={constant}, run {run}"
        narrow.check(got, kind, exact, magnitude, a_shape[-1], what)


@pytest.mark.parametrize("kind", KINDS)
@on_card(*BOTH)
def test_matmul_of_every_shape(kind: str) -> None:
    for a_shape, b_shape in MATMUL_SHAPES:
        for constant in (False, True):
            if constant and 0 in b_shape:
                continue  # onnxruntime folds what has no element
            matmul_once(kind, a_shape, b_shape, constant)
    assert count("illegal_address") == 0
    assert count("misuse") == 0


@on_card(*FLAVOURS)
def test_every_release_of_the_libraries_runs() -> None:
    for kind in KINDS:
        matmul_once(kind, (4, 16), (16, 8), constant=True)
        gemm_once(kind, (4, 16), (16, 8), (8,), {})


# C of Gemm, for a result of 5 x 6, and what is special: shapes of m and n beside it.
C_SHAPES: list[tuple[int, ...] | None] = [None, (), (1,), (6,), (1, 6), (5, 1), (1, 1), (5, 6)]
ATTRIBUTES: list[dict[str, Any]] = [
    {},
    {"alpha": 0.5, "beta": 2.0},
    {"beta": 0.0},
    {"transA": 1},
    {"transB": 1},
    {"transA": 1, "transB": 1, "alpha": -1.5, "beta": 0.25},
    {"alpha": 0.0},
]


def gemm_once(
    kind: str,
    a_shape: tuple[int, int],
    b_shape: tuple[int, int],
    c_shape: tuple[int, ...] | None,
    attributes: dict[str, Any],
    constant: bool = False,
) -> None:
    a = narrow.random(a_shape[::-1] if attributes.get("transA") else a_shape, kind, 1)
    b = narrow.random(b_shape[::-1] if attributes.get("transB") else b_shape, kind, 2)
    arrays = {"A": a, "B": b}
    if c_shape is not None:
        arrays["C"] = narrow.random(c_shape, kind, 3)
    constants = {"B": b} if constant else {}
    model = narrow.one_node(
        "Gemm", {name: array.shape for name, array in arrays.items()}, constants, kind, **attributes
    )
    session = card_session(model)
    assert ours(session).count("Gemm") == 1
    feeds = {name: narrow.feed(array) for name, array in arrays.items() if name not in constants}
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    left = narrow.wide(a.T if attributes.get("transA") else a)
    right = narrow.wide(b.T if attributes.get("transB") else b)
    exact = alpha * (left @ right)
    magnitude = abs(alpha) * (np.abs(left) @ np.abs(right))
    if c_shape is not None and beta != 0.0:
        exact = exact + beta * narrow.wide(arrays["C"])
        magnitude = magnitude + np.abs(beta * narrow.wide(arrays["C"]))
    for run in range(2):
        what = f"{kind} {a_shape} @ {b_shape} + {c_shape} {attributes}, run {run}"
        narrow.check(session.run(None, feeds)[0], kind, exact, magnitude, a_shape[1], what)


@pytest.mark.parametrize("kind", KINDS)
@on_card(*BOTH)
def test_gemm_with_every_c(kind: str) -> None:
    for c_shape in C_SHAPES:
        for attributes in ATTRIBUTES:
            gemm_once(kind, (5, 8), (8, 6), c_shape, attributes)
    assert count("illegal_address") == 0
    assert count("misuse") == 0


@on_card(*BOTH)
def test_gemm_of_special_sizes() -> None:
    narrowest: list[tuple[int, ...]] = [(1,), (1, 1), (7, 1)]
    lowest: list[tuple[int, ...]] = [(4,), (1, 4), (1, 1), (1,)]
    of_nothing: list[tuple[int, ...] | None] = [None, (4,), (5, 1), (5, 4), (1,)]
    for attributes in ({}, {"beta": 3.0}):
        for c_shape in narrowest:
            gemm_once("fp32", (7, 8), (8, 1), c_shape, attributes)
        for c_shape in lowest:
            gemm_once("fp32", (1, 8), (8, 4), c_shape, attributes)
        for shape in of_nothing:  # empty sums
            gemm_once("fp32", (5, 0), (0, 4), shape, attributes)
        gemm_once("fp32", (0, 8), (8, 4), (4,), attributes)
        gemm_once("fp32", (5, 8), (8, 4), (4,), attributes, constant=True)


@on_card("cuda12", "cuda13")  # Python has a name for views on memory of CUDA's cards only
def test_a_c_in_the_memory_of_the_result_is_read_before_it_is_written() -> None:
    a, b = narrow.random((4, 8), "fp32", 1), narrow.random((8, 4), "fp32", 2)
    for c_shape in ((4, 4), (4,), (4, 1), (1,)):
        model = narrow.one_node("Gemm", {"A": (4, 8), "B": (8, 4), "C": c_shape}, {}, "fp32", beta=2.0)
        session = card_session(model)
        memory = value_on_card(np.arange(16, dtype=np.float32).reshape(4, 4))
        c = np.arange(16, dtype=np.float32)[: int(np.prod(c_shape))].reshape(c_shape)
        binding = session.io_binding()
        binding.bind_cpu_input("A", a)
        binding.bind_cpu_input("B", b)
        binding.bind_input("C", "cuda", 0, np.float32, c_shape, memory.data_ptr())
        binding.bind_output("Y", "cuda", 0, np.float32, (4, 4), memory.data_ptr())
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(memory.numpy(), a @ b + 2.0 * c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@on_card(*BOTH)
def test_less_precision_is_for_the_operands_of_products_and_not_for_c(precision: str) -> None:
    shapes: list[tuple[int, ...]] = [(5, 6), (5, 1), (1,), (6,)]
    for c_shape in shapes:
        for beta in (1.0, 0.75):
            c = narrow.random(c_shape, "fp32", 3)
            model = narrow.one_node("Gemm", {"A": (5, 8), "B": (8, 6), "C": c_shape}, {}, "fp32", beta=beta)
            session = card_session(model, precision=precision)
            feeds = {"A": np.zeros((5, 8), np.float32), "B": np.ones((8, 6), np.float32), "C": c}
            exact = np.broadcast_to(np.float32(beta) * c, (5, 6))
            got = session.run(None, feeds)[0]
            np.testing.assert_allclose(got, exact, rtol=1e-6, err_msg=f"C {c_shape}, beta {beta}")


@on_card(*BOTH)
def test_beta_times_c_is_not_rounded_to_the_type_before_it_is_added() -> None:
    shapes: list[tuple[int, ...]] = [(5, 6), (5, 1), (1,), (6,)]
    for c_shape in shapes:
        model = narrow.one_node("Gemm", {"A": (5, 8), "B": (8, 6), "C": c_shape}, {}, "fp16", beta=2.0)
        session = card_session(model)
        feeds = {
            "A": np.full((5, 8), -100.0, np.float16),
            "B": np.full((8, 6), 100.0, np.float16),
            "C": np.full(c_shape, 60000.0, np.float16),  # twice as much is too large for fp16
        }
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.float16(2.0 * 60000.0 - 80000.0))


@pytest.mark.parametrize("tuning", ["off", "online", "background"])
@on_card(*BOTH)
def test_a_library_without_an_epilogue_gets_the_biases_laid_under(tuning: str) -> None:
    # rocBLAS has no epilogues at all.
    for kind in KINDS:
        for attributes in ({}, {"beta": 0.5}):
            model = narrow.one_node("Gemm", {"A": (5, 8), "B": (8, 6), "C": (6,)}, {}, kind, **attributes)
            libraries = "rocblas" if backend() == "hip" else "cublaslt"
            session = card_session(model, candidates=libraries, tuning=tuning, max_tuning_ms=2)
            a, b, c = (narrow.random(shape, kind, 4) for shape in ((5, 8), (8, 6), (6,)))
            feeds = {"A": narrow.feed(a), "B": narrow.feed(b), "C": narrow.feed(c)}
            beta = attributes.get("beta", 1.0)
            exact = narrow.wide(a) @ narrow.wide(b) + beta * narrow.wide(c)
            magnitude = np.abs(narrow.wide(a)) @ np.abs(narrow.wide(b)) + np.abs(narrow.wide(c))
            for run in range(2):
                narrow.check(session.run(None, feeds)[0], kind, exact, magnitude, 8, f"{kind}, run {run}")


def backend_cases() -> list[Any]:
    cases = importlib.import_module("onnx.backend.test.case.node")
    for operator in ("matmul", "gemm"):
        importlib.import_module(f"onnx.backend.test.case.node.{operator}")
    return [case for case in cases._NodeTestCases if case.name.startswith(("test_matmul_", "test_gemm_"))]


@pytest.mark.parametrize("tuning", ["off", "online"])
@on_card(*BOTH)
def test_the_onnx_projects_own_cases(tuning: str) -> None:
    cases = backend_cases()
    assert len(cases) >= 14
    for case in cases:
        session = card_session(case.model, tuning=tuning, max_tuning_ms=2, warmup_iter=1)
        assert len(ours(session)) == len(case.model.graph.node) == 1
        for inputs, outputs in case.data_sets:
            names = [info.name for info in session.get_inputs()]
            for _ in range(2):
                got = session.run(None, dict(zip(names, inputs, strict=True)))
                for result, expected in zip(got, outputs, strict=True):
                    np.testing.assert_allclose(
                        result, expected, rtol=case.rtol, atol=case.atol, err_msg=case.name
                    )


@on_card(*BOTH)
def test_types_without_kernels_stay_on_the_cpu_and_are_explained() -> None:
    for name, dtype in {"int32": np.int32, "int64": np.int64, "uint32": np.uint32}.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        session = tunableop.InferenceSession(
            matmul_model([3, 4], [4, 5], dtype=kind), device=backend(), tuning="off"
        )
        assert EP not in {provider for provider, _, _ in assigned(session)}
        (node,) = tunableop.explain(session).nodes
        assert not node.claimed
        assert f"input type {name} has no kernel on {backend()}:0" in node.reason
        assert "fp32, fp16, bf16 and fp64 have" in node.reason
        a = np.arange(12, dtype=dtype).reshape(3, 4)
        b = np.arange(20, dtype=dtype).reshape(4, 5)
        np.testing.assert_array_equal(session.run(None, {"A": a, "B": b})[0], a @ b)


@on_card(*BOTH)
def test_claimed_nodes_say_their_type() -> None:
    for kind in KINDS:
        model = narrow.one_node(
            "MatMul", {"A": (3, 8), "B": (8, 6)}, {"B": narrow.random((8, 6), kind)}, kind
        )
        session = tunableop.InferenceSession(model, device=backend(), tuning="off")
        (node,) = tunableop.explain(session).nodes
        assert node.claimed
        assert f"{kind}, B is a weight" in node.reason


@on_card(*BOTH)
def test_old_operators_have_no_bf16() -> None:
    model = gemm_model([3, 4], [4, 5], with_c=False, opset=11, dtype=onnx.TensorProto.FLOAT16)
    assert ours(card_session(model)) == ["Gemm"]
    for opset in (7, 9, 11):
        model = gemm_model([3, 4], [4, 5], [5], opset=opset)
        assert ours(card_session(model)) == ["Gemm"]


@on_card("cuda12", "cuda13", SIM_GPU_ARCH="sm_75")  # from sm_80 on they are known to run them all
def test_a_type_that_no_library_can_run_is_refused() -> None:
    ep_devices()  # the cards are known before
    faults("no_heuristics")
    session = card_session(matmul_model([3, 4], [4, 5]))
    assert ours(session) == []
    a, b = narrow.random((3, 4), "fp32"), narrow.random((4, 5), "fp32")
    np.testing.assert_allclose(session.run(None, {"A": a, "B": b})[0], a @ b, rtol=1e-5)


def with_a_transposed_weight() -> tuple[ort.InferenceSession, dict[str, Any], Any]:
    """A session whose kernel reads a transposed copy of its weight, what to feed it, and the answer."""
    b = narrow.random((64, 96), "fp32", 2)
    model = narrow.one_node("MatMul", {"A": (5, 64), "B": (64, 96)}, {"B": b}, "fp32")
    a = narrow.random((5, 64), "fp32", 1)
    feeds = {"A": narrow.feed(a)}
    tuned = card_session(model, tuning="online")
    tuned.run(None, feeds)
    results = tunableop.get_tuning_results(tuned)
    entry = results["machines"][0]["entries"][0]
    listed = entry["default_kernel"].split(":", 1)
    entry["winner"] |= {"library": listed[0], "kernel": listed[1] + "/bt", "opaque_id": -1}
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1  # a forked child has no others to wait for
    session = card_session(model, settings=settings, tuning="cached")
    assert tunableop.set_tuning_results(session, results) == []
    return session, feeds, narrow.wide(a) @ narrow.wide(b)


@on_card("cuda13")  # hipBLASLt names its kernels otherwise for another layout
def test_an_elected_kernel_gets_the_transposed_weight_it_reads() -> None:
    session, feeds, right = with_a_transposed_weight()
    before = count("mallocs")
    for _ in range(3):
        assert np.allclose(session.run(None, feeds)[0], right, rtol=0, atol=1e-4)
        (shape,) = tunableop.explain(session).shapes
        assert shape.tuned
        assert shape.kernel.endswith("/bt")
    assert not [note for note in tunableop.explain(session).notes if "transposed" in note]
    made = count("mallocs") - before
    session.run(None, feeds)
    assert count("mallocs") - before == made, "the copy is made once"


@on_card("cuda13")
def test_products_of_one_tensor_keep_a_transposed_weight_each() -> None:
    """They share a problem, and were made anew for each call while they shared a place, too."""
    rows, size = 300, 64
    weights = {f"W{i}": narrow.random((size, size), "fp32", i) for i in range(3)}
    nodes = [helper.make_node("MatMul", ["X", f"W{i}"], [f"Y{i}"]) for i in range(3)]
    inputs = [value("X", ["batch", "rows", size])]
    model = simple_model(graph(nodes, inputs, [value(f"Y{i}", None) for i in range(3)], weights))
    x = narrow.random((1, rows, size), "fp32", 9)
    tuned = card_session(model, tuning="online", claim="all")
    tuned.run(None, {"X": x})
    told = tunableop.explain(tuned)
    assert {node.reason.partition(", fused as ")[2] for node in told.nodes} == {"Projections"}
    results = tunableop.get_tuning_results(tuned)
    machine = results["machines"][0]
    machine["forms"] = []  # the usual one: three products
    (entry,) = machine["entries"] = [entry for entry in machine["entries"] if entry["n"] == size]
    listed = entry["default_kernel"].split(":", 1)
    entry["winner"] |= {"library": listed[0], "kernel": listed[1] + "/bt", "opaque_id": -1}
    session = card_session(model, tuning="cached", claim="all")
    assert tunableop.set_tuning_results(session, results) == []
    took = []
    for _ in range(4):
        before = count("mallocs"), count("copies")
        got = session.run(None, {"X": x})
        took.append((count("mallocs") - before[0], count("copies") - before[1]))
        for i in range(3):
            np.testing.assert_allclose(got[i], x @ weights[f"W{i}"], rtol=1e-4, atol=1e-4)
    assert took[0] > took[1] == took[2] == took[3], "the copies are made once"
    (shape,) = tunableop.explain(session).shapes
    assert shape.kernel.endswith("/bt")


@on_card("cuda13")
def test_a_forked_child_gives_nothing_of_its_parents_card_back() -> None:
    session, feeds, right = with_a_transposed_weight()
    assert np.allclose(session.run(None, feeds)[0], right, rtol=0, atol=1e-4)
    child = os.fork()
    if child == 0:
        before = count("frees"), count("handles_destroyed")
        try:
            del session
            gc.collect()
        finally:
            os._exit(0 if (count("frees"), count("handles_destroyed")) == before else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert np.allclose(session.run(None, feeds)[0], right, rtol=0, atol=1e-4)


def deny(session: ort.InferenceSession, library: str, kernel: str) -> None:
    """For this process, as a file of results would."""
    results = tunableop.get_tuning_results(session)
    results["machines"][0]["denied"] = [
        {
            "library": library,
            "kernel": kernel,
            "library_identity": tunableop.devices()[0].libraries[library],
            "reason": "it hung",
            "deaths": 0,
            "until": 0,
            "denied_at": 1,
        }
    ]
    tunableop.set_tuning_results(session, results)


@on_card(*BOTH)
def test_where_all_others_are_denied_a_kernel_that_reads_a_transposed_weight_runs() -> None:
    weight = narrow.random((8, 8), "fp32", 2)
    body = matmul_model(["m", 8], None, constants={"B": weight})

    def check(session: ort.InferenceSession, rows: int) -> None:
        x = narrow.random((rows, 8), "fp32", rows)
        np.testing.assert_allclose(session.run(None, {"A": x})[0], x @ weight, rtol=1e-4, atol=1e-4)

    for _ in range(100):
        session = card_session(body, tuning="off")
        check(session, 8)
        (chosen,) = tunableop.explain(session).shapes
        library, _, kernel = chosen.kernel.partition(":")
        if kernel.endswith("/bt"):
            break
        deny(session, library, kernel)
    assert kernel.endswith("/bt")
    for tuning in ("cached", "background", "online"):
        session = card_session(body, tuning=tuning, max_tuning_ms=10)
        for rows in (8, 8, 3):
            check(session, rows)
