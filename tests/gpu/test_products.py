"""MatMul and Gemm on a card, every form of them, against float64."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime_ep_tunableop import _selftest_cases
from onnxruntime_ep_tunableop._selftest_cases import Case
from support.graphs import matmul_model
from support.sessions import EP, assigned, quick_session

from .conftest import Card

TYPES = [("fp32", "exact"), ("fp16", "exact"), ("bf16", "exact"), ("fp32", "tf32"), ("fp32", "bf16")]


def check(card: Card, case: Case, others: list[Any], seed: int = 0, **options: Any) -> None:
    """Right while it is measured, right when it is known, and run by us."""
    ready = _selftest_cases.make(case, seed)
    session = quick_session(
        ready.model, device=card.id, providers=others, precision=case.precision, claim="gemm", **options
    )
    assert [(p, op) for p, op, _ in assigned(session) if op == case.op] == [(EP, case.op)]
    for run in range(2):
        (got,) = session.run(None, ready.feeds)
        worst = _selftest_cases.error(got, ready)
        assert worst <= 1.0, f"{case}, run {run}: {worst} tolerances\n{tunableop.explain(session)}"
    assert tunableop.stats(session).device == card.id
    assert tunableop.stats(session).denied == 0, tunableop.explain(session)


CASES = [case for case in _selftest_cases.cases(card=True, quick=False, seed=1) if case.dtype != "bf16"]
BF16 = [case for case in _selftest_cases.cases(card=True, quick=True, seed=1) if case.dtype == "bf16"]


@pytest.mark.parametrize("case", CASES + BF16, ids=str)
def test_the_forms_of_the_selftest(card: Card, case: Case) -> None:
    check(card, case, ["CPUExecutionProvider"], seed=2)


@pytest.mark.parametrize("case", [c for c in CASES if c.precision == "exact"][::3], ids=str)
def test_some_of_them_beside_other_providers(card: Card, case: Case, others: list[Any]) -> None:
    check(card, case, others, seed=3)


SIDES = st.sampled_from([1, 2, 3, 7, 8, 16, 24, 33, 64, 65, 96, 128, 129])
BATCHES = st.sampled_from(
    [
        ((), ()),
        ((3,), ()),
        ((), (3,)),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((1,), (4,)),
        ((2, 3), (1, 1)),
    ]
)


@given(m=SIDES, n=SIDES, k=SIDES, batches=BATCHES, kind=st.sampled_from(TYPES), constant=st.booleans())
@settings(max_examples=40)
def test_matmul(
    card: Card, m: int, n: int, k: int, batches: Any, kind: tuple[str, str], constant: bool
) -> None:
    left, right = batches
    case = Case("MatMul", (*left, m, k), (*right, k, n), constant=constant, dtype=kind[0], precision=kind[1])
    check(card, case, ["CPUExecutionProvider"])


ADDENDS = ("none", "scalar", "one", "row", "flat row", "column", "full")


@given(
    m=SIDES,
    n=SIDES,
    k=SIDES,
    trans=st.tuples(st.booleans(), st.booleans()),
    scale=st.tuples(st.sampled_from([1.0, 0.5, -2.0, 0.0]), st.sampled_from([1.0, 0.25, 0.0])),
    addend=st.sampled_from(ADDENDS),
    kind=st.sampled_from(TYPES),
    constant=st.booleans(),
)
@settings(max_examples=60)
def test_gemm(
    card: Card,
    m: int,
    n: int,
    k: int,
    trans: tuple[bool, bool],
    scale: tuple[float, float],
    addend: str,
    kind: tuple[str, str],
    constant: bool,
) -> None:
    c: dict[str, tuple[int, ...] | None] = {
        "none": None,
        "scalar": (),
        "one": (1, 1),
        "row": (1, n),
        "flat row": (n,),
        "column": (m, 1),
        "full": (m, n),
    }
    case = Case(
        "Gemm",
        (k, m) if trans[0] else (m, k),
        (n, k) if trans[1] else (k, n),
        c[addend],
        trans_a=trans[0],
        trans_b=trans[1],
        alpha=scale[0],
        beta=scale[1],
        dtype=kind[0],
        precision=kind[1],
        constant=constant,
    )
    check(card, case, ["CPUExecutionProvider"])


def _backend_cases() -> list[Any]:
    cases = importlib.import_module("onnx.backend.test.case.node")
    for operator in ("matmul", "gemm"):
        importlib.import_module(f"onnx.backend.test.case.node.{operator}")
    return [case for case in cases._NodeTestCases if case.name.startswith(("test_matmul_", "test_gemm_"))]


@pytest.mark.parametrize("case", _backend_cases(), ids=lambda case: case.name)
def test_onnxs_own_cases(card: Card, case: Any, others: list[Any]) -> None:
    assert {i.type.tensor_type.elem_type for i in case.model.graph.input} == {onnx.TensorProto.FLOAT}
    session = quick_session(case.model, device=card.id, providers=others, claim="gemm")
    for inputs, outputs in case.data_sets:
        feeds = {info.name: array for info, array in zip(session.get_inputs(), inputs, strict=True)}
        for _ in range(2):
            for got, expected in zip(session.run(None, feeds), outputs, strict=True):
                np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
    (node,) = [n for n in tunableop.explain(session).nodes if n.claimed]
    assert node.op_type in ("MatMul", "Gemm")


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5), (4, 5, 0)], ids=str)
def test_nothing_to_compute(card: Card, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    session = quick_session(matmul_model(["m", "k"], ["k", "n"]), device=card.id, claim="gemm")
    (got,) = session.run(None, {"A": np.ones((m, k), np.float32), "B": np.ones((k, n), np.float32)})
    np.testing.assert_array_equal(got, np.zeros((m, n), np.float32))
