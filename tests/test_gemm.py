"""Gemm in a session: attributes, every C that broadcasts, opsets, and values that are no numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import gemm_model
from support.sessions import calls, check_runs, ours, quick_session, random
from support.tolerance import Array, gemm

C_SHAPES: dict[str, tuple[str | int, ...] | None] = {
    "none": None,
    "scalar": (),
    "one": (1,),
    "row": ("n",),
    "row_2d": (1, "n"),
    "column": ("m", 1),
    "one_2d": (1, 1),
    "full": ("m", "n"),
}


def c_shape(kind: str, m: int, n: int) -> tuple[int, ...] | None:
    pattern = C_SHAPES[kind]
    sizes: dict[str | int, int] = {"m": m, "n": n, 1: 1}
    return None if pattern is None else tuple(sizes[dim] for dim in pattern)


def check_gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    constant: str = "",
    opset: int = 17,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
    dynamic: bool = True,
    **options: Any,
) -> None:
    """`constant`: which of A, B and C are constants of the model, as in "BC"."""
    arrays = {"A": a, "B": b} | ({} if c is None else {"C": c})
    shapes = {name: [None] * array.ndim if dynamic else list(array.shape) for name, array in arrays.items()}
    constants = {name: arrays[name] for name in arrays if name in constant}
    attributes: dict[str, Any] = {
        "alpha": alpha,
        "beta": beta,
        "transA": int(trans_a),
        "transB": int(trans_b),
    }
    model = gemm_model(
        shapes["A"],
        shapes["B"],
        shapes.get("C"),
        with_c=c is not None,
        constants=constants,
        opset=opset,
        **attributes,
    )
    session = quick_session(model, **options)
    assert ours(session) == ["Gemm"]
    feeds = {name: array for name, array in arrays.items() if name not in constants}
    exact, bound = gemm(a, b, c, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b)
    check_runs(session, feeds, exact, bound)
    assert exact.size == 0 or calls(session) == 2


def operands(m: int, n: int, k: int, trans_a: bool, trans_b: bool, seed: int = 0) -> tuple[Array, Array]:
    a, b = random((m, k), seed), random((k, n), seed + 1)
    return (
        np.ascontiguousarray(a.T) if trans_a else a,
        np.ascontiguousarray(b.T) if trans_b else b,
    )


TRANSPOSITIONS = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize("kind", C_SHAPES)
@pytest.mark.parametrize("constant", ["", "B", "C", "BC", "A", "AC"])
def test_every_c_that_broadcasts(kind: str, constant: str) -> None:
    m, n, k = 6, 21, 10
    shape = c_shape(kind, m, n)
    c = None if shape is None else random(shape, 9)
    for (trans_a, trans_b), (alpha, beta) in zip(
        TRANSPOSITIONS, [(1.0, 1.0), (0.5, 1.0), (1.0, -2.5), (1.5, 0.25)], strict=True
    ):
        a, b = operands(m, n, k, trans_a, trans_b)
        check_gemm(a, b, c, constant=constant, alpha=alpha, beta=beta, trans_a=trans_a, trans_b=trans_b)


@pytest.mark.parametrize("dims", [(1, 1), (1, 20), (20, 1)], ids=str)
@pytest.mark.parametrize("kind", C_SHAPES)
def test_c_broadcasts_where_m_or_n_is_one(kind: str, dims: tuple[int, int]) -> None:
    """[1, 1] is a row, a column and a full C at once."""
    m, n = dims
    shape = c_shape(kind, m, n)
    a, b = operands(m, n, 7, False, False)
    check_gemm(a, b, None if shape is None else random(shape, 9), beta=0.5)
    check_gemm(a, b, None if shape is None else random(shape, 9), constant="B")


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSITIONS)
@pytest.mark.parametrize(
    ("alpha", "beta"), list(itertools.product((0.0, 1.0, -1.0, 0.3, 1e20), (0.0, 1.0, 2.0)))
)
def test_alpha_and_beta(alpha: float, beta: float, trans_a: bool, trans_b: bool) -> None:
    a, b = operands(5, 18, 12, trans_a, trans_b)
    for kind, constant in (("row", "B"), ("full", "")):
        shape = c_shape(kind, 5, 18)
        assert shape is not None
        check_gemm(
            a,
            b,
            random(shape, 3),
            constant=constant,
            alpha=alpha,
            beta=beta,
            trans_a=trans_a,
            trans_b=trans_b,
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("kind", [kind for kind in C_SHAPES if kind != "none"])
def test_c_is_not_read_when_beta_is_zero(kind: str, bad: float) -> None:
    shape = c_shape(kind, 4, 19)
    assert shape is not None
    a, b = operands(4, 19, 6, False, True)
    for constant in ("", "BC"):
        check_gemm(a, b, np.full(shape, bad, np.float32), constant=constant, beta=0.0, trans_b=True)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [kind for kind in C_SHAPES if kind != "none"])
def test_nan_and_infinity_in_c_reach_exactly_their_elements(kind: str, bad: float) -> None:
    shape = c_shape(kind, 4, 19)
    assert shape is not None
    c = random(shape, 3)
    c[(-1,) * len(shape)] = bad
    a, b = operands(4, 19, 6, False, False)
    check_gemm(a, b, c, beta=0.5)
    check_gemm(a, b, c, constant="BC")


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSITIONS)
@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
def test_nan_in_a_and_infinity_in_b_reach_exactly_their_row_and_column(
    constant: str, trans_a: bool, trans_b: bool
) -> None:
    a, b = operands(9, 35, 17, trans_a, trans_b)
    a[-1, -1] = math.nan
    b[0, 0] = math.inf
    check_gemm(a, b, random((35,), 3), constant=constant, trans_a=trans_a, trans_b=trans_b)


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSITIONS)
@pytest.mark.parametrize("kind", C_SHAPES)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(3, 20, 0), (0, 20, 5), (3, 0, 5), (0, 0, 0), (3, 0, 0), (0, 20, 0)]
)
def test_zero_size_dimensions(m: int, n: int, k: int, kind: str, trans_a: bool, trans_b: bool) -> None:
    """With k = 0 the result is beta * C, or zeros."""
    shape = c_shape(kind, m, n)
    c = None if shape is None else random(shape, 4)
    a, b = operands(m, n, k, trans_a, trans_b)
    check_gemm(a, b, c, trans_a=trans_a, trans_b=trans_b)
    check_gemm(a, b, c, constant="BC", beta=0.5, trans_a=trans_a, trans_b=trans_b, dynamic=False)


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSITIONS)
@pytest.mark.parametrize("k", [1, 5, 64, 130])
def test_tails_of_m_and_n_are_right(k: int, trans_a: bool, trans_b: bool) -> None:
    for n in (1, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 129):
        for constant in ("", "B"):
            b = operands(1, n, k, trans_a, trans_b, n)[1]
            c = random((n,), n + 1)
            attributes: dict[str, Any] = {"transA": int(trans_a), "transB": int(trans_b)}
            constants = {"B": b} if constant else {}
            model = gemm_model([None, None], [None, None], [n], constants=constants, **attributes)
            session = quick_session(model, max_tuning_ms=0.5)
            for m in (1, 2, 5, 8, 17, 33):
                a = operands(m, n, k, trans_a, trans_b, m)[0]
                exact, bound = gemm(a, b, c, trans_a=trans_a, trans_b=trans_b)
                check_runs(session, {"A": a, "C": c} if constant else {"A": a, "B": b, "C": c}, exact, bound)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    m, n, k = (draw(st.one_of(st.integers(0, 40), st.sampled_from((63, 64, 65, 100)))) for _ in range(3))
    scalar = st.one_of(st.sampled_from((0.0, 1.0, -1.0)), st.floats(-4, 4, width=32))
    return {
        "shape": (m, n, k),
        "kind": draw(st.sampled_from(list(C_SHAPES))),
        "alpha": draw(scalar),
        "beta": draw(scalar),
        "trans_a": draw(st.booleans()),
        "trans_b": draw(st.booleans()),
        "constant": draw(st.sampled_from(("", "A", "B", "C", "BC", "AC"))),
        "seed": draw(st.integers(0, 2**31)),
    }


@given(cases())
def test_any_gemm_is_right(case: dict[str, Any]) -> None:
    m, n, k = case.pop("shape")
    seed = case.pop("seed")
    shape = c_shape(case.pop("kind"), m, n)
    a, b = operands(m, n, k, case["trans_a"], case["trans_b"], seed)
    check_gemm(a, b, None if shape is None else random(shape, seed + 2), max_tuning_ms=0.5, **case)


@pytest.mark.parametrize("constant", ["", "B", "BC"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 192, 96), (1, 512, 640), (33, 131, 300)])
def test_every_candidate_in_the_race_still_gives_the_right_answer(
    m: int, n: int, k: int, constant: str
) -> None:
    for trans_b in (False, True):
        a, b = operands(m, n, k, False, trans_b)
        options: dict[str, Any] = {"candidates": "all", "max_tuning_ms": 40.0}
        check_gemm(a, b, random((n,), 1), constant=constant, trans_b=trans_b, **options)
        check_gemm(
            a, b, random((m, n), 1), constant=constant, alpha=0.5, beta=2.0, trans_b=trans_b, **options
        )


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 17, 21, onnx.defs.onnx_opset_version()])
def test_every_opset_of_gemm_runs_on_our_provider(opset: int) -> None:
    a, b = operands(4, 9, 5, True, True)
    c = random((9,), 3)
    model = gemm_model([5, 4], [9, 5], [9], opset=opset, transA=1, transB=1)
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        pytest.skip(f"onnxruntime {ort.__version__} refuses opset {opset}: {error}")
    check_gemm(a, b, c, opset=opset, trans_a=True, trans_b=True)
    if opset >= 11:  # C became optional
        check_gemm(a, b, None, opset=opset, trans_a=True, trans_b=True)


def test_gemm_older_than_opset_7_is_refused_with_a_reason() -> None:
    model = gemm_model([3, 4], [4, 5], [3, 5], opset=6)
    with pytest.raises(Exception, match="Could not find an implementation for Gemm"):
        quick_session(model)  # onnxruntime has none either


def test_an_absent_c_given_as_an_empty_name() -> None:
    model = gemm_model([3, 4], [4, 5], with_c=False)
    model.graph.node[0].input.append("")
    a, b = operands(3, 5, 4, False, False)
    session = quick_session(model)
    assert ours(session) == ["Gemm"]
    check_runs(session, {"A": a, "B": b}, *gemm(a, b, None, trans_a=False, trans_b=False))


@pytest.mark.parametrize("constant", ["", "B"], ids=["computed_b", "constant_b"])
@pytest.mark.parametrize(
    ("a", "b", "c", "wrong"),
    [
        ((3, 4), (5, 6), (6,), "AB"),
        ((3, 0), (1, 6), (6,), "AB"),
        ((3, 4), (4, 6), (5,), "C"),
        ((3, 4), (4, 6), (2, 6), "C"),
        ((3, 4), (4, 6), (3, 5), "C"),
        ((3, 4), (4, 6), (6, 1), "C"),
        ((0, 4), (4, 6), (3, 6), "C"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_an_error_with_the_shapes(
    a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], wrong: str, constant: str
) -> None:
    arrays = {"A": random(a), "B": random(b), "C": random(c)}
    constants = {name: arrays.pop(name) for name in constant}
    session = quick_session(gemm_model([None, None], [None, None], [None] * len(c), constants=constants))
    with pytest.raises(Exception) as caught:  # noqa: PT011  (onnxruntime's errors have no common base)
        session.run(None, arrays)
    text = str(caught.value).replace(" ", "")
    for name in wrong:
        shape = {"A": a, "B": b, "C": c}[name]
        assert str(list(shape)).replace(" ", "") in text, str(caught.value)
    good = random((a[0], b[0]), 1)
    if wrong == "AB" and a[0]:  # the session goes on
        feeds = arrays | {"A": good}
        exact, bound = gemm(good, random(b), arrays["C"], trans_a=False, trans_b=False)
        check_runs(session, feeds, exact, bound)


def test_a_c_of_another_shape_in_each_run() -> None:
    """Row, full, column, row: each is its own problem, and none is mistaken for another."""
    a, b = operands(6, 20, 8, False, False)
    session = quick_session(gemm_model([None, None], [None, None], None))
    for seed, kind in enumerate(
        ["row_2d", "full", "column", "one_2d", "row_2d", "full", "scalar", "one", "row"]
    ):
        shape = c_shape(kind, 6, 20)
        assert shape is not None
        c = random(shape, seed)
        check_runs(session, {"A": a, "B": b, "C": c}, *gemm(a, b, c, trans_a=False, trans_b=False))
    assert tunableop.stats(session).entries == 2  # with a bias, and onto a C laid down first
