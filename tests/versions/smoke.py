"""One installation put to the test: registration, sessions, right answers, a cache saved and loaded, the end.

    python smoke.py               everything must work
    python smoke.py --too-old     onnxruntime is older than 1.24: a clear refusal, and no crash

Needs numpy, onnx, onnxruntime and the package. Prints one line; the return code says whether all is well.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper, numpy_helper

EP = tunableop.get_ep_name()
Array = npt.NDArray[np.float32]


def weights() -> dict[str, Array]:
    """W [24, 33] of a MatMul, V [40, 33] of a Gemm with transB, and its bias."""
    rng = np.random.default_rng(0)
    return {
        "W": rng.standard_normal((24, 33), dtype=np.float32),
        "V": rng.standard_normal((40, 33), dtype=np.float32),
        "c": rng.standard_normal(40, dtype=np.float32),
    }


def make_model() -> onnx.ModelProto:
    """Y = relu(X @ W) @ V^T + c."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["P"], name="matmul"),
        helper.make_node("Relu", ["P"], ["R"], name="relu"),
        helper.make_node("Gemm", ["R", "V", "c"], ["Y"], name="gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "smoke",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["m", 24])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["m", 40])],
        [numpy_helper.from_array(array, name) for name, array in weights().items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(session: ort.InferenceSession, sizes: tuple[int, ...] = (1, 5, 64)) -> None:
    """Right answers, at the first and the second run of each size."""
    known = weights()
    for m in (*sizes, *sizes):
        x = np.random.default_rng(m).standard_normal((m, 24), dtype=np.float32)
        expected = np.maximum(x @ known["W"], 0) @ known["V"].T + known["c"]
        np.testing.assert_allclose(session.run(None, {"X": x})[0], expected, rtol=1e-4, atol=1e-4)
    assert session.get_providers()[0] == EP, session.get_providers()


def by_device(model: bytes) -> ort.InferenceSession:
    """Plain onnxruntime, as every supported version can."""
    options = ort.SessionOptions()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP]
    options.add_provider_for_devices(devices, {"tuning": "online"})
    return ort.InferenceSession(model, sess_options=options)


def refusal(call: Callable[[], object], kind: type[Exception]) -> str:
    """The message with which `call` is refused."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"onnxruntime {ort.__version__}: there was no {kind.__name__}")


def too_old() -> str:
    """Every way in must say which version is needed."""
    for attempt in (tunableop.register, lambda: tunableop.InferenceSession(make_model())):
        message = refusal(attempt, tunableop.UnsupportedRuntimeError)
        assert ort.__version__ in message, message
        assert "1.24" in message, message
    direct = getattr(ort, "register_execution_provider_library", None)
    if direct is not None:  # without the package's help the library itself refuses
        message = refusal(lambda: direct("direct", tunableop.get_library_path()), Exception)
        assert "1.24" in message, message
    return "refused, as it must be"


def smoke() -> str:
    """The whole round."""
    model = make_model()
    tunableop.register()
    tunableop.register()
    session = tunableop.InferenceSession(model, max_tuning_ms=5.0)
    check(session)
    told = tunableop.explain(session)
    assert [(node.name, node.claimed) for node in told.nodes] == [("matmul", True), ("gemm", True)], told
    stats = tunableop.stats(session)
    assert stats.tuned == 6, stats
    assert (stats.hits, stats.misses) == (6, 6), stats

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smoke.json"
        tunableop.save_cache(session, path)
        second = tunableop.InferenceSession(model, tuning="cached")
        assert tunableop.load_cache(second, path) == []
        check(second)
        assert tunableop.stats(second).hit_rate == 1.0, tunableop.stats(second)

        own = Path(folder) / "own.json"
        third = tunableop.InferenceSession(model, cache=own, max_tuning_ms=5.0)
        check(third)
        del third
        assert own.is_file()

        lost = tunableop.InferenceSession(model, cache=own / "no folder.json", max_tuning_ms=5.0)
        check(lost)
        assert any("not saved" in note for note in tunableop.explain(lost).notes)
        del lost  # says so once more, and does not fall over

    device = by_device(model.SerializeToString())
    check(device)
    check(ort.InferenceSession(model.SerializeToString(), tunableop.session_options(tuning="off")))
    ways = "device"
    if tuple(int(part) for part in ort.__version__.split(".")[:2]) >= (1, 25):
        check(ort.InferenceSession(model.SerializeToString(), providers=[EP, "CPUExecutionProvider"]))
        ways += ", name"
    message = refusal(lambda: tunableop.InferenceSession(model, tuning="sometimes"), tunableop.OptionError)
    assert "off, cached, online" in message, message

    tunableop.unregister()
    check(session)  # a session outlives the registration
    return ways


def main() -> int:
    """Command line."""
    result = too_old() if "--too-old" in sys.argv[1:] else smoke()
    print(f"onnxruntime {ort.__version__}, onnx {onnx.__version__}, numpy {np.__version__}: {result}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
