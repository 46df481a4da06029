"""Requests checked against what a model declares, and every type of tensor in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.serve.metadata import Signature
from onnxruntime_ep_tunableop.serve.model import Model
from onnxruntime_ep_tunableop.serve.protocol import DATATYPES, InferRequest, Kind, ProtocolError, Tensor
from onnxruntime_ep_tunableop.serve.settings import ModelSettings, SettingsError
from support.graphs import graph, model, value
from support.serving import one_node, plus, request, save, sentence, small_bert, tensor


class Said:
    """What a session says of an input or output."""

    def __init__(self, name: str, shape: list[Any], kind: str = "tensor(float)") -> None:
        self.name, self.shape, self.type = name, shape, kind


def signature(
    inputs: list[Said], outputs: list[Said], optional: list[Said] | None = None, axis: int | None = 0
) -> Signature:
    return Signature(inputs, outputs, optional or [], axis)


TWO = signature(
    [Said("a", ["n", 3, None]), Said("b", ["n", "k"], "tensor(int64)")],
    [Said("y", ["n", 3]), Said("z", ["n"], "tensor(double)")],
    [Said("scale", [])],
)
A, B = np.zeros((2, 3, 5), np.float32), np.zeros((2, 4), np.int64)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"a": A}, (), "expected inputs a, b; missing: 'b'"),
        ({"a": A, "b": B, "c": B}, (), "there is no input 'c'; the inputs are: a, b, scale"),
        ({"a": A, "b": A}, (), "input 'b': expected INT64, found FP32"),
        ({"a": A[0], "b": B}, (), "input 'a': expected 3 dimensions [n, 3, ?], found 2 [3, 5]"),
        ({"a": A.reshape(2, 5, 3), "b": B}, (), "input 'a': expected [n, 3, ?], found [2, 5, 3]"),
        (
            {"a": A, "b": B[:1]},
            (),
            "input 'b': expected 'n' to be 2 as in dimension 0 of 'a', found 1 in [1, 4]",
        ),
        ({"a": A, "b": B}, ("y", "q"), "there is no output 'q'; the outputs are: y, z"),
        ({"a": A, "b": B}, ("y", "y"), "expected each output once, found y, y"),
    ],
)
def test_a_wrong_request_hears_what_was_expected_and_found(
    inputs: dict[str, Any], outputs: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        TWO.check(request("m", inputs, outputs=outputs))
    assert str(caught.value) == message
    assert caught.value.kind is Kind.INVALID


def test_an_input_given_twice_or_in_other_data_is_refused() -> None:
    twice = InferRequest("m", "", "", [tensor("a", A), tensor("a", A), tensor("b", B)])
    with pytest.raises(ProtocolError, match="'a': expected once, found twice"):
        TWO.check(twice)
    other = InferRequest("m", "", "", [Tensor("a", "FP32", A.astype(">f4")), tensor("b", B)])
    with pytest.raises(ProtocolError, match="expected data of float32 for FP32, found >f4"):
        TWO.check(other)


def test_a_right_request_says_whom_it_may_share_a_batch_with() -> None:
    checked = TWO.check(request("m", {"b": B, "a": A}))
    assert list(checked.feeds) == ["a", "b"]
    assert (checked.outputs, checked.rows) == (("y", "z"), 2)
    more = TWO.check(request("m", {"a": np.zeros((7, 3, 5), np.float32), "b": np.zeros((7, 4), np.int64)}))
    assert (more.key, more.rows) == (checked.key, 7)
    others = [
        request("m", {"a": np.zeros((2, 3, 6), np.float32), "b": B}),
        request("m", {"a": A, "b": B}, outputs=["z"]),
        request("m", {"a": A, "b": B}, outputs=["z", "y"]),
    ]
    keys = {TWO.check(other).key for other in others}
    assert len(keys | {checked.key}) == 4
    scaled = TWO.check(request("m", {"a": A, "b": B, "scale": np.float32(2.0)[()].reshape(())}))
    assert scaled.rows == 0, "a value for all rows is not shared"


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [
        ([Said("a", ["n", 2])], [Said("y", ["n"])], ""),
        ([Said("a", [1, 2])], [Said("y", ["n"])], "dimension 0 of input 'a' is not declared free"),
        ([Said("a", [None, 2])], [Said("y", ["n"])], "dimension 0 of input 'a' is not declared free"),
        ([Said("a", [])], [Said("y", ["n"])], "dimension 0 of input 'a' is not declared free"),
        ([Said("a", ["n"])], [Said("y", ["m"])], "several names: 'm', 'n'"),
        ([Said("a", ["n"])], [Said("y", [])], "dimension 0 of output 'y' is not declared free"),
        ([Said("a", ["n", "n"])], [Said("y", ["n"])], "'n' stands more than once in the shape of input 'a'"),
        ([Said("a", ["n"])], [Said("y", ["n", "n"])], "'n' stands more than once in the shape of output 'y'"),
        ([], [Said("y", ["n"])], "there are no inputs"),
        (
            [Said("a", ["n"])],
            [Said("y", ["n"]), Said("p", [], "seq(map(int64,tensor(float)))")],
            "output 'p' is no tensor",
        ),
    ],
)
def test_batches_only_along_an_axis_that_all_declare(
    inputs: list[Said], outputs: list[Said], why: str
) -> None:
    made = signature(inputs, outputs)
    assert made.why_no_batches.startswith(why) if not why else why in made.why_no_batches
    assert (made.batch_axis == 0) is (why == "")


def test_another_axis_may_be_named() -> None:
    made = signature([Said("a", [3, "n"])], [Said("y", ["k", "n", 2])], axis=1)
    assert made.batch_axis == 1
    checked = made.check(request("m", {"a": np.zeros((3, 5), np.float32)}))
    assert checked.rows == 5
    assert signature([Said("a", [3, "n"])], [Said("y", ["k", "n"])], axis=None).batch_axis is None


def test_odd_metadata() -> None:
    """No rank, no names, a negative size, results that are no tensors."""
    made = signature(
        [Said("a", []), Said("b", [-1, "", None, 4])],
        [Said("y", []), Said("p", [], "seq(tensor(float))")],
    )
    assert made.inputs["b"].metadata().shape == [-1, -1, -1, 4]
    assert list(made.outputs) == ["y"]
    made.check(request("m", {"a": A, "b": np.zeros((1, 2, 3, 4), np.float32)}))
    with pytest.raises(
        ProtocolError, match=r"output 'p' is seq\(tensor\(float\)\), which the protocol cannot"
    ):
        made.check(request("m", {"a": A, "b": np.zeros((1, 2, 3, 4), np.float32)}, outputs=["p"]))
    with pytest.raises(ProtocolError, match=r"input 'a' is optional\(tensor\(float\)\)"):
        signature([Said("a", [], "optional(tensor(float))")], [Said("y", [])])
    with pytest.raises(ProtocolError, match=r"no output that the protocol can carry: 'y' is tensor\(int4\)"):
        signature([Said("a", [])], [Said("y", [], "tensor(int4)")])


def load(folder: Path, made: Any, **more: Any) -> Model:
    path = save(folder, "m", made)
    return Model(ModelSettings("m", path, **more), "1", path, folder / "m.tune.json")


def answer(loaded: Model, asked: InferRequest) -> list[Tensor]:
    checked = loaded.signature.check(asked)
    return loaded.tensors(checked, loaded.run(loaded.prepare(checked), checked.outputs))


TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}


def test_every_type_of_the_protocol_is_tested() -> None:
    assert TYPES.keys() == DATATYPES.keys()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=["scalar", "empty", "matrix"])
@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("stock", [False, True])
def test_tensors_of_every_type_come_back_as_they_were(
    tmp_path: Path, datatype: str, shape: tuple[int, ...], stock: bool
) -> None:
    loaded = load(tmp_path, one_node("Identity", TYPES[datatype], [None] * len(shape)), stock=stock)
    numbers = np.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 2)
    data = numbers.astype(DATATYPES[datatype])
    if datatype == "BF16":
        data = np.asarray(numbers + 0.5).astype(ml_dtypes.bfloat16).view(np.uint16)
    if datatype == "BYTES":
        data = np.empty(shape, object)
        data.reshape(-1)[:] = [f"wört {number}\0".encode() for number in range(data.size)]
    (result,) = answer(loaded, InferRequest("m", "", "", [Tensor("x", datatype, data)]))
    assert (result.name, result.datatype, result.shape) == ("y", datatype, shape)
    assert result.data.dtype == DATATYPES[datatype]
    np.testing.assert_array_equal(result.data, data)
    assert result.data.flags.c_contiguous


def test_a_strided_array_is_read_as_it_looks(tmp_path: Path) -> None:
    for kind, data in (
        ("FP32", np.arange(12, dtype=np.float32).reshape(3, 4).T),
        ("BF16", np.arange(12, dtype=np.uint16).reshape(3, 4).T),
    ):
        loaded = load(tmp_path, one_node("Identity", TYPES[kind], [None, None]))
        (result,) = answer(loaded, InferRequest("m", "", "", [Tensor("x", kind, data)]))
        np.testing.assert_array_equal(result.data, data)


def test_bytes_that_are_no_text_are_the_requests_fault(tmp_path: Path) -> None:
    loaded = load(tmp_path, one_node("Identity", TensorProto.STRING, [None]))
    data = np.array([b"a", b"\xff\xfe"], object)
    with pytest.raises(ProtocolError, match=r"expected UTF-8.*found") as caught:
        answer(loaded, request("m", {"x": data}))
    assert caught.value.kind is Kind.INVALID


def test_an_input_with_a_value_of_its_own_may_be_left_out(tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    inputs = [value("x", ["n"]), value("scale", [1])]
    made = model(graph([node], inputs, [value("y", ["n"])], {"scale": np.array([3.0], np.float32)}))
    loaded = load(tmp_path, made)
    x = np.ones(2, np.float32)
    assert [entry.name for entry in loaded.metadata(["1"]).inputs] == ["x"]
    np.testing.assert_array_equal(answer(loaded, request("m", {"x": x}))[0].data, [3.0, 3.0])
    given = {"x": x, "scale": np.array([5.0], np.float32)}
    np.testing.assert_array_equal(answer(loaded, request("m", given))[0].data, [5.0, 5.0])
    with pytest.raises(ProtocolError, match="'scale': expected FP32, found INT64"):
        answer(loaded, request("m", {"x": x, "scale": np.array([5])}))


def test_only_the_outputs_asked_for_in_their_order(tmp_path: Path) -> None:
    nodes = [helper.make_node(op, ["x"], [op]) for op in ("Neg", "Abs", "Sqrt")]
    made = model(graph(nodes, [value("x", ["n"])], [value(op, ["n"]) for op in ("Neg", "Abs", "Sqrt")]))
    loaded = load(tmp_path, made)
    results = answer(loaded, request("m", {"x": np.array([4.0], np.float32)}, outputs=["Sqrt", "Neg"]))
    assert [(tensor.name, float(tensor.data[0])) for tensor in results] == [("Sqrt", 2.0), ("Neg", -4.0)]


def test_a_model_without_inputs(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["c"], ["y"])
    made = model(graph([node], [], [value("y", [2])], {"c": np.array([1.0, 2.0], np.float32)}))
    np.testing.assert_array_equal(answer(load(tmp_path, made), request("m", {}))[0].data, [1.0, 2.0])


def test_metadata_says_what_the_model_declares(tmp_path: Path) -> None:
    said = load(tmp_path, small_bert()).metadata(["1", "2"])
    assert (said.name, said.versions, said.platform) == ("m", ["1", "2"], "onnxruntime_onnx")
    assert [(entry.name, entry.datatype, entry.shape) for entry in said.inputs] == [
        ("input_ids", "INT64", [-1, -1]),
        ("attention_mask", "INT64", [-1, -1]),
        ("token_type_ids", "INT64", [-1, -1]),
    ]
    assert said.outputs[0].shape == [-1, -1, 32]


def test_what_onnx_runtime_blames_on_the_arguments(tmp_path: Path) -> None:
    loaded = load(tmp_path, small_bert())
    feeds = sentence(1, 4, 0)
    feeds["input_ids"][0, 0] = 1_000_000
    with pytest.raises(ProtocolError, match=r"model 'm' failed: .*indices") as caught:
        answer(loaded, request("m", feeds))
    assert caught.value.kind is Kind.INVALID


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ProtocolError, match="model 'm' version 7 cannot be loaded: ") as caught:
        Model(ModelSettings("m", path), "7", path, tmp_path / "cache.json")
    assert caught.value.kind is Kind.FAILED
    save(tmp_path, "m", plus(1))
    with pytest.raises(SettingsError, match="no option 'tunning'"):
        Model(ModelSettings("m", path, options={"tunning": "off"}), "1", path, tmp_path / "cache.json")


def test_a_closed_model_runs_no_more(tmp_path: Path) -> None:
    loaded = load(tmp_path, plus(1))
    loaded.close()
    loaded.close()
    assert not loaded.tunes
    with pytest.raises(ProtocolError, match="was unloaded") as caught:
        answer(loaded, request("m", {"x": np.zeros((1, 2), np.float32)}))
    assert caught.value.kind is Kind.UNAVAILABLE
