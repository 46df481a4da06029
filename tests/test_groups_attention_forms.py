"""Attention in one kernel, and as products: both are measured, and right."""

from __future__ import annotations

import copy
from typing import Any

import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from support.cards import backend, card_session, on_card
from test_groups_attention import PATTERNS, SHAPES, Pattern, apart, built, check, feeds

ALL = {"claim": "all", "enable_graph": 1}
ONLINE = {**ALL, "tuning": "online", "max_tuning_ms": 3000}
#: Of the shapes those that differ, and one in which heads share keys.
FEW = SHAPES[:3]


def dtypes() -> tuple[str, ...]:
    """Those that have a kernel for tensor cores, and those that have not."""
    return ("fp16", "fp32") if backend() == "cuda" else ("fp16",)


def attention(session: ort.InferenceSession) -> list[Any]:
    return [form for form in tunableop.explain(session).forms if form.group == "Attention"]


def told(proto: onnx.ModelProto, results: dict[str, Any], form: str) -> ort.InferenceSession:
    """A session to which that form was handed over for all shapes that are known."""
    changed = copy.deepcopy(results)
    for section in changed["machines"]:
        section["forms"] = [one | {"form": form} for one in section["forms"] if one["group"] == "Attention"]
    session = card_session(proto, tuning="cached", **ALL)
    assert tunableop.set_tuning_results(session, changed) == []
    return session


def both_ways(pattern: Pattern, dtype: str, shapes: list[tuple[int, ...]], kv_heads: int = 0) -> None:
    """Measures, and runs what was measured in either form."""
    proto = built(pattern, dtype)
    given = [feeds(pattern, shape, kv_heads) for shape in shapes]
    session = card_session(proto, **ONLINE)
    assert not apart(session), str(tunableop.explain(session))
    check(session, pattern, given, dtype)
    measured = attention(session)
    assert len(measured) == len(shapes)
    assert all(form.measured and "answer" not in form.why for form in measured), str(measured)
    results = tunableop.get_tuning_results(session)
    for form in ("one kernel", "apart"):
        session = told(proto, results, form)
        check(session, pattern, given, dtype)
        assert [one.form for one in attention(session)] == [form] * len(shapes)


@on_card("cuda13", "rocm7")
def test_both_forms_are_right() -> None:
    for name, pattern in PATTERNS.items():
        if name == "as BERT is exported":
            continue
        for dtype in dtypes():
            both_ways(pattern, dtype, FEW[1:2])


@on_card("cuda13", "rocm7")
def test_both_forms_of_what_is_exported_are_right() -> None:
    pattern = PATTERNS["as BERT is exported"]
    for dtype in dtypes():
        both_ways(pattern, dtype, FEW)
        both_ways(pattern, dtype, [(2, 4, 5, 6)], kv_heads=1)


@on_card("cuda13")
def test_off_is_the_usual_form() -> None:
    pattern = PATTERNS["as BERT is exported"]
    session = card_session(built(pattern, "fp16"), claim="all", tuning="off")
    check(session, pattern, [feeds(pattern, (3, 4, 5, 7))], "fp16")
    assert attention(session) == []
