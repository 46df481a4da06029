"""Models whose rows look at each other get no batches, whatever they declare."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.serve import rows
from onnxruntime_ep_tunableop.serve.model import Model
from onnxruntime_ep_tunableop.serve.rows import mixing
from onnxruntime_ep_tunableop.serve.settings import ModelSettings
from support.graphs import graph, matmul_model, model, value
from support.serving import (
    QUIET,
    endless,
    gather,
    liar,
    one_node,
    plus,
    request,
    run_async,
    save,
    serving,
    settings,
    small_bert,
)


def load(folder: Path, made: onnx.ModelProto, **more: Any) -> Model:
    path = save(folder, "m", made)
    return Model(ModelSettings("m", path, **QUIET, **more), "1", path, folder / "m.tune.json")


def centred() -> onnx.ModelProto:
    """y = x - mean over the rows."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    return model(graph(nodes, [value("x", ["n", 2])], [value("y", ["n", 2])]))


def quantized() -> onnx.ModelProto:
    """To 8 bits and back, with one scale for all rows."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    return model(graph(nodes, [value("x", ["n", 64])], [value("y", ["n", 64])]))


def largest() -> onnx.ModelProto:
    """Which row is the largest: whole numbers."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "one"], ["sums"], keepdims=0),
        helper.make_node("ReduceMax", ["sums"], ["most"], axes=[0], keepdims=1),
        helper.make_node("Equal", ["sums", "most"], ["y"]),
    ]
    constants = {"one": np.array([1])}
    return model(graph(nodes, [value("x", ["n", 8])], [value("y", ["n"], TensorProto.BOOL)], constants))


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize(
    ("made", "how"),
    [
        (centred, "output 'y' differs by"),
        (quantized, "output 'y' differs by"),
        (largest, "output 'y' is another one together than alone"),
        (lambda: liar("cut"), "output 'y': [1, 2] together, [2, 2] alone"),
        (lambda: liar("run"), "two rows do not run together"),
    ],
)
def test_rows_that_look_at_each_other_are_found(tmp_path: Path, made: Any, how: str, stock: bool) -> None:
    assert how in mixing(load(tmp_path, made(), stock=stock))


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize(
    "made",
    [
        small_bert,
        lambda: plus(1.0),
        gather,
        lambda: one_node("Neg", TensorProto.FLOAT16, ["n"]),
        lambda: one_node("Identity", TensorProto.BOOL, ["n", "k"]),
        lambda: one_node("Identity", TensorProto.STRING, ["n"]),  # cannot be tried
        lambda: one_node("Identity", TensorProto.BFLOAT16, ["n"]),  # the same
        lambda: one_node("Neg", TensorProto.FLOAT, [2]),  # has no rows
    ],
)
def test_rows_that_are_apart_are_left_alone(tmp_path: Path, made: Any, stock: bool) -> None:
    assert mixing(load(tmp_path, made(), stock=stock)) == ""


def test_sizes_to_try_come_from_the_shapes_to_warm_with(tmp_path: Path) -> None:
    """A model that runs with seven columns only, which nobody would guess."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["apart"]),
        helper.make_node("Add", ["apart", "seven"], ["y"]),
    ]
    constants = {"seven": np.arange(7, dtype=np.float32)}
    made = model(graph(nodes, [value("x", ["n", "k"])], [value("y", ["n", "k"])], constants))
    assert mixing(load(tmp_path, made)) == ""
    assert "differs" in mixing(load(tmp_path, made, warm=[{"x": [5, 7]}]))


def test_a_trial_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_PATIENCE_SECONDS", 0.2)
    assert mixing(load(tmp_path, endless())) == ""


def test_the_trial_is_neither_measured_nor_counted(tmp_path: Path) -> None:
    made = matmul_model(["n", 64], None, constants={"B": np.ones((64, 48), np.float32)})
    for mode in ("online", "background", "record"):
        loaded = load(tmp_path, made, options={"tuning": mode})
        assert mixing(loaded) == ""
        stats = tunableop.stats(loaded.session)
        assert (stats.tuning, stats.tuned, stats.misses, stats.hits) == (mode, 0, 0, 0)


def test_such_a_model_is_served_row_by_row_unless_it_is_to_be_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", centred())
        asked = request("m", {"x": np.array([[1.0, 2.0]], np.float32)})
        many = [asked] * 6
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:
            for response in await asyncio.gather(*(engine.infer(it) for it in many)):
                np.testing.assert_array_equal(response.outputs[0].data, [[0.0, 0.0]])
            assert engine.counters()["m", "1"].batch.number == 6
        async with serving(settings(tmp_path, ModelSettings("m", path, check_rows=False))) as engine:
            await asyncio.gather(*(engine.infer(it) for it in many))
            assert engine.counters()["m", "1"].batch.number == 1

    run_async(main())
    assert "no batches, rows run together give other answers than alone" in caplog.text
