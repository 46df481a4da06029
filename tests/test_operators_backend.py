"""The ONNX project's own node tests of every operator that has a kernel on cards."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnxruntime_ep_tunableop._control import operators
from support.cards import BOTH, card_session, on_card
from support.sessions import EP, assigned

NEWEST_OPSET = 25  # that onnxruntime 1.32 knows
#: ONNX Runtime counts the places that there are between corners, ONNX's example 1.4 of them.
OTHERWISE = {"test_resize_downsample_scales_linear_align_corners"}


def backend_cases(names: set[str]) -> list[Any]:
    """Those of ONNX's own operators: only their modules are imported, all would take many seconds."""
    cases = importlib.import_module("onnx.backend.test.case.node")
    wanted = {"rangeop" if name == "Range" else name.lower() for name in names}
    for module in pkgutil.iter_modules(cases.__path__):
        if module.name.replace("_", "") in wanted:
            importlib.import_module(f"onnx.backend.test.case.node.{module.name}")
    return list(cases._NodeTestCases)


def plain(values: Any) -> list[Any] | None:
    """As numpy has them. None: something that is no tensor, or of a type that numpy does not have."""
    arrays = [
        onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
        for value in values
    ]
    if not all(
        isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "biuf" for array in arrays
    ):
        return None
    return [np.asarray(array) for array in arrays]


@on_card(*BOTH)
def test_backend_cases_run_on_the_card() -> None:
    table = {row["op"] for row in operators() if not row["domain"]}
    complaints: list[str] = []
    counts: Counter[str] = Counter()
    for case in backend_cases(table):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in table or case.name in OTHERWISE:
            continue
        for imported in case.model.opset_import:  # newer than this onnxruntime, for new types alone
            imported.version = min(imported.version, NEWEST_OPSET)
        settings = ort.SessionOptions()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        settings.log_severity_level = 4
        try:
            session = card_session(case.model, settings=settings, claim="all")
        except Exception:
            continue  # a type or an opset that this onnxruntime does not have at all
        if not any(provider == EP for provider, _, _ in assigned(session)):
            continue
        for inputs, outputs in case.data_sets:
            given, wanted = plain(inputs), plain(outputs)
            infos = session.get_inputs()
            if given is None or wanted is None or len(given) != len(infos):
                continue
            feeds = {info.name: array for info, array in zip(infos, given, strict=True)}
            counts[nodes[0].op_type] += 1
            try:
                for got, expected in zip(session.run(None, feeds), wanted, strict=True):
                    assert got.dtype == expected.dtype
                    np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
            except Exception as error:
                told = tunableop.explain(session)
                complaints.append(f"{case.name}: {str(error)[:300]}\n{told}")
    print(counts)
    assert not complaints, f"{len(complaints)}:\n" + "\n".join(complaints[:30])
    # ONNX Runtime's own, in ONNX's domain.
    assert table - set(counts) == {"SimplifiedLayerNormalization"}, sorted(table - set(counts))
