"""What a side of a comparison does, wherever it runs."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.bench.sides import InProcess, SideError, SideSpec, open_side
from onnxruntime_ep_tunableop.bench.turns import Plan, take_turns
from onnxruntime_ep_tunableop.bench.worker import Runner
from onnxruntime_ep_tunableop.bench.worker.arrays import rounded_to_bfloat16
from onnxruntime_ep_tunableop.bench.worker.callers import Caller, together
from support.graphs import graph, model, relu_model, value
from support.sessions import EP
from support.sides import CPU, THIS, everywhere, ours, product, stock


@pytest.fixture(autouse=True)
def unpinned() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    assert os.sched_getaffinity(0) == before


def saved(path: Path, made: onnx.ModelProto) -> Path:
    onnx.save(made, path)
    return path


@everywhere
def test_a_stock_side_answers_and_tells_what_it_is(tmp_path: Path, python: Path | None) -> None:
    path, feeds, exact = product(tmp_path)
    with open_side(stock(path), feeds, python) as side:
        assert side.name == "stock"
        np.testing.assert_allclose(side.outputs()["Y"], exact, rtol=1e-5, atol=1e-5)
        facts = side.facts()
        assert (facts["onnxruntime"], facts["providers"]) == (ort.__version__, ["CPUExecutionProvider"])
        assert facts["nodes"] == [["CPUExecutionProvider", "MatMul", 1]]
        assert (facts["pid"] == os.getpid()) == (python is None)
        assert (facts["import_seconds"] == 0.0) == (python is None)
        assert facts["creation_seconds"] > 0.0
        assert side.stats() == {"counters": {}, "explain": {"nodes": [], "shapes": [], "notes": []}}
        assert side.peak_bytes() > 10 << 20


@everywhere
def test_a_side_of_ours_answers_and_explains(tmp_path: Path, python: Path | None) -> None:
    path, feeds, exact = product(tmp_path)
    cache = tmp_path / "known.json"
    with open_side(ours(path, cache=cache, max_tuning_ms=5), feeds, python) as side:
        np.testing.assert_allclose(side.outputs()["Y"], exact, rtol=1e-5, atol=1e-5)
        side.block(seconds=None, calls=7, warmup_calls=0)
        assert side.facts()["providers"] == [EP, "CPUExecutionProvider"]
        told = side.stats()
        assert (told["counters"]["tuned"], told["counters"]["hits"]) == (1, 7)
        (node,) = told["explain"]["nodes"]
        assert (node["op_type"], node["claimed"]) == ("MatMul", True)
        (shape,) = told["explain"]["shapes"]
        assert (shape["m"], shape["n"], shape["k"], shape["tuned"]) == (4, 32, 16, True)
    assert cache.is_file()  # it was saved when the side was closed


@everywhere
def test_a_block_ends_after_its_calls_or_its_seconds(tmp_path: Path, python: Path | None) -> None:
    path, feeds, _ = product(tmp_path)
    with open_side(stock(path), feeds, python) as side:
        counted = side.block(seconds=None, calls=7, warmup_calls=1)
        assert len(counted.latencies) == 7
        assert min(counted.latencies) > 0.0
        assert counted.wall_seconds >= sum(counted.latencies)
        assert len(side.block(seconds=1e-9, calls=None, warmup_calls=0).latencies) == 1
        assert 1 <= len(side.block(seconds=0.01, calls=10**9, warmup_calls=0).latencies) < 10**9
        with pytest.raises(ValueError, match="expected seconds, or at least one call"):
            side.block(seconds=None, calls=None, warmup_calls=0)
        assert len(side.block(seconds=None, calls=1, warmup_calls=0).latencies) == 1  # it goes on


@everywhere
def test_callers_share_the_calls_of_a_block(tmp_path: Path, python: Path | None) -> None:
    path, feeds, _ = product(tmp_path)
    with open_side(stock(path, concurrency=3), feeds, python) as side:
        assert len(side.block(seconds=None, calls=8, warmup_calls=1).latencies) == 8
        assert len(side.block(seconds=1e-9, calls=None, warmup_calls=0).latencies) == 3


def test_callers_make_requests_at_the_same_time() -> None:
    meeting = threading.Barrier(3)  # no call returns before three are under way
    callers = [Caller(lambda: None, lambda: meeting.wait(60)) for _ in range(3)]
    together(callers, 2, iter(range(9)), None)
    assert [len(caller.latencies) for caller in callers] == [3, 3, 3]


def test_one_caller_that_fails_ends_the_block() -> None:
    seen: set[int] = set()
    failures = iter([True])

    def call() -> None:
        seen.add(threading.get_ident())
        if len(seen) == 2 and next(failures, False):  # once, when both are timing
            raise RuntimeError("first line\nthe reason")

    callers = [Caller(call, call) for _ in range(2)]
    with pytest.raises(Exception, match="a request failed: first line the reason"):
        together(callers, 0, iter(range(10**9)), None)

    def warm_up() -> None:
        raise RuntimeError("cold")

    with pytest.raises(RuntimeError, match="cold"):
        together([Caller(call, call), Caller(warm_up, call)], 1, iter(range(10**9)), 0.0)


def runner(path: Path, feeds: Any, **more: Any) -> Runner:
    return Runner(stock(path, **more).as_json(), feeds)


@pytest.mark.parametrize(("concurrency", "pinned"), [(1, True), (2, False)])
def test_the_calling_thread_is_pinned_while_timing_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int, pinned: bool
) -> None:
    path, feeds, _ = product(tmp_path)
    before = os.sched_getaffinity(0)
    timed = runner(path, feeds, concurrency=concurrency)
    seen: list[set[int]] = []
    monkeypatch.setattr(timed, "_call", lambda: seen.append(os.sched_getaffinity(0)))
    timed.block(seconds=None, calls=3, warmup_calls=1)
    one = {min(before)}
    first, *later = seen
    assert first == before  # what a provider starts at its first request inherits no pin
    assert len(later) >= 3 + concurrency
    assert all(processors == (one if pinned else before) for processors in later)
    assert os.sched_getaffinity(0) == before


def test_a_block_that_fails_puts_the_thread_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, feeds, _ = product(tmp_path)
    before = os.sched_getaffinity(0)
    with InProcess(stock(path), feeds) as side:
        side.outputs()

        def call() -> None:
            raise RuntimeError("no more")

        monkeypatch.setattr(side._runner, "_call", call)
        with pytest.raises(SideError, match="stock: a request failed: no more"):
            side.block(seconds=None, calls=3, warmup_calls=0)
        assert os.sched_getaffinity(0) == before


def test_a_closed_side_lets_go_of_its_session(tmp_path: Path) -> None:
    """It takes room, and saves its results when it goes."""
    made, feeds, _ = product(tmp_path)
    cache = tmp_path / "results.json"
    with InProcess(ours(made, cache=cache), feeds) as side:
        side.block(seconds=None, calls=2, warmup_calls=0)
        session = weakref.ref(side._runner._session)
    assert session() is None
    assert cache.is_file()


def entry(options: ort.SessionOptions, key: str) -> str | None:
    try:
        return str(options.get_session_config_entry(key))
    except RuntimeError:
        return None


def test_pools_are_pinned_when_the_processors_suffice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, feeds, _ = product(tmp_path)
    affinities = "session.intra_op_thread_affinities"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {9, 4, 6})
    for threads, concurrency, expected in [(1, 1, None), (4, 1, None), (3, 2, None), (None, 1, None)]:
        made = runner(path, feeds, threads=threads, concurrency=concurrency)
        options = made._session_options()
        assert entry(options, affinities) == expected
    made = Runner.__new__(Runner)  # those processors are not here, so no session
    made._ort, made._threads, made._concurrency, made._processors = ort, 3, 1, [4, 6, 9]
    assert entry(made._session_options(), affinities) == "7;10"  # the caller has processor 4; counted from 1


def test_ours_and_stock_get_the_same_session_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, feeds, _ = product(tmp_path)
    seen = []
    plain = Runner._session_options
    monkeypatch.setattr(Runner, "_session_options", lambda self: seen.append(plain(self)) or seen[-1])
    for spec in (stock(path), ours(path)):
        open_side(spec, feeds).close()
    stock_options, our_options = seen
    # What users have: a pool that had to be woken for every run would make small models look slow.
    for key in ("session.force_spinning_stop", "session.intra_op.allow_spinning"):
        assert entry(stock_options, key) is None
        assert entry(our_options, key) is None
    key = "session.intra_op_thread_affinities"
    assert entry(stock_options, key) == entry(our_options, key)
    assert stock_options.intra_op_num_threads == our_options.intra_op_num_threads == 1


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_block_ends_when_the_process_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    """In a process of its own nobody else can wait for its pool, which spins on."""
    path, feeds, _ = product(tmp_path)
    made = runner(path, feeds, concurrency=concurrency)
    told: list[str] = []
    module = sys.modules[Runner.__module__]
    monkeypatch.setattr(module, "wait_until_idle", lambda: told.append("idle"))
    plain = made._call
    made._call = lambda: told.append("run") or plain()
    made.outputs()
    told.clear()
    made.block(seconds=None, calls=3, warmup_calls=0)
    assert (told[0], told[-1]) == ("idle", "idle")
    assert told[1:-1] == ["run"] * 3


def test_one_session_takes_the_same_time_here_and_in_another_process(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path, 256, 512, 512)
    with open_side(stock(path), feeds) as here, open_side(stock(path), feeds, THIS) as there:
        for attempt in range(5):  # a machine that does other things as well may spoil some
            turns = take_turns({"here": here, "there": there}, Plan(rounds=7, seed=attempt))
            ratio = turns.ratio("here", "there").value
            if 0.5 <= ratio <= 2.0:
                return
    pytest.fail(f"the other process was {ratio:.2f} times as fast")


@everywhere
def test_elements_that_numpy_does_not_know(tmp_path: Path, python: Path | None) -> None:
    kind = TensorProto.BFLOAT16
    nodes = [helper.make_node("Identity", ["X"], ["Y"])]
    body = graph(nodes, [value("X", ["n", 2], kind)], [value("Y", None, kind)])
    path = saved(tmp_path / "bfloat16.onnx", model(body))
    exact = np.array([[1.0, -2.5], [3.0, 0.0]], np.float32)
    bits = (exact.view(np.uint32) >> 16).astype(np.uint16)
    fed: list[Any] = [exact, bits]
    try:
        import ml_dtypes
    except ImportError:  # bfloat16 is then fed as float32 or as bits
        pass
    else:
        fed.append(exact.astype(ml_dtypes.bfloat16))
    for x in fed:
        with open_side(stock(path), {"X": x}, python) as side:
            y = side.outputs()["Y"]
            assert y.dtype == np.float32
            np.testing.assert_array_equal(y, exact)
            assert len(side.block(seconds=None, calls=2, warmup_calls=0).latencies) == 2
    with pytest.raises(SideError, match=r"input X is tensor\(bfloat16\), and what is fed to it int64"):
        open_side(stock(path), {"X": exact.astype(np.int64)}, python)


def test_rounding_to_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1.00390625, 1.01171875]
    values = np.array([*special, *np.random.default_rng(0).standard_normal(1000)], np.float32)
    got = rounded_to_bfloat16(values).view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(got, values.astype(ml_dtypes.bfloat16).astype(np.float32))


@everywhere
def test_text_and_sequences(tmp_path: Path, python: Path | None) -> None:
    kind = TensorProto.STRING
    nodes = [
        helper.make_node("Identity", ["T"], ["text"]),
        helper.make_node("SequenceConstruct", ["X", "X"], ["pair"]),
    ]
    sequence = helper.make_tensor_sequence_value_info("pair", TensorProto.FLOAT, None)
    inputs = [value("T", ["n"], kind), value("X", [3])]
    body = graph(nodes, inputs, [value("text", None, kind), sequence])
    path = saved(tmp_path / "text.onnx", model(body))
    x = np.array([1, 2, 3], np.float32)
    with open_side(stock(path), {"T": np.array(["ein", "Wörtchen"]), "X": x}, python) as side:
        found = side.outputs()
    assert list(found) == ["text", "pair[0]", "pair[1]"]
    assert found["text"].tolist() == ["ein", "Wörtchen"]
    np.testing.assert_array_equal(found["pair[1]"], x)


@everywhere
def test_what_is_wrong_is_said(tmp_path: Path, python: Path | None) -> None:
    path, feeds, _ = product(tmp_path)
    rubbish = tmp_path / "rubbish.onnx"
    rubbish.write_bytes(b"no model at all")
    cuda = (("CUDAExecutionProvider", {}),)
    for spec, fed, words in [
        (stock(tmp_path / "none.onnx"), feeds, f"there is no model file {tmp_path}/none.onnx"),
        (stock(rubbish), feeds, f"no session of {rubbish}: .*Protobuf parsing failed"),
        (ours(rubbish), feeds, f"no session of {rubbish}: .*Protobuf parsing failed"),
        (stock(path), {"B": feeds["A"]}, "the model has no input B; nothing is fed to A; its inputs are A$"),
        (stock(path), {**feeds, "X": feeds["A"]}, "the model has no input X; its inputs are A$"),
        (stock(path), {}, "nothing is fed to A; its inputs are A$"),
        (
            stock(path, providers=cuda),
            feeds,
            f"onnxruntime {ort.__version__} has no CUDAExecutionProvider; it has .*CPUExecutionProvider",
        ),
    ]:
        with pytest.raises(SideError, match=words) as failed:
            open_side(spec, fed, python)
        assert str(failed.value).startswith(spec.name)
        assert (str(THIS) in str(failed.value)) == (python is not None)


def test_a_provider_that_is_not_in_the_session_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, feeds, _ = product(tmp_path)
    cuda = stock(path, providers=(("CUDAExecutionProvider", {}), *CPU))
    names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: names)
    with (
        pytest.warns(UserWarning, match="not in available provider names"),  # all that onnxruntime says
        pytest.raises(SideError, match=r"made the session without CUDAExecutionProvider \(its log says why"),
    ):
        open_side(cuda, feeds)

    def falls_back(*arguments: Any, **keywords: Any) -> ort.InferenceSession:  # as versions before 1.23 do
        print("*** EP Error ***\nEP Error no driver when using that\nFalling back")
        return plain(str(path), providers=["CPUExecutionProvider"])

    plain = ort.InferenceSession
    monkeypatch.setattr(ort, "InferenceSession", falls_back)
    with pytest.raises(SideError, match=r"without CUDAExecutionProvider \(EP Error no driver when using"):
        open_side(cuda, feeds)


@everywhere
def test_a_request_that_fails_leaves_a_side_that_says_so_again(tmp_path: Path, python: Path | None) -> None:
    path, _, _ = product(tmp_path)
    with open_side(stock(path), {"A": np.zeros((4, 3), np.float32)}, python) as side:
        for _ in range(2):
            with pytest.raises(SideError, match=r"a request failed: .*Expected: 16"):
                side.outputs()
        with pytest.raises(SideError, match=r"a request failed: .*Expected: 16"):
            side.block(seconds=None, calls=1, warmup_calls=0)


@everywhere
def test_errors_of_our_provider_keep_their_kind(tmp_path: Path, python: Path | None) -> None:
    path, feeds, _ = product(tmp_path)
    with pytest.raises(tunableop.OptionError, match="there is no option 'tunning'"):
        open_side(ours(path, tunning="online"), feeds, python)
    with pytest.raises(tunableop.OptionError, match="tuning"):
        open_side(ours(path, tuning="sometimes"), feeds, python)
    with pytest.raises(tunableop.NoDeviceError, match="device='hip:77'"):
        open_side(ours(path, device="hip:77"), feeds, python)


def test_a_model_without_products_is_a_side_of_ours_all_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path / "relu.onnx", relu_model())
    with open_side(ours(path), {"X": np.array([-1, 0, 2], np.float32)}) as side:
        assert side.outputs()["Y"].tolist() == [0, 0, 2]
        assert side.stats()["explain"]["nodes"] == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"providers": ()}, "a stock side needs a provider"),
        ({"options": {"tuning": "off"}}, "takes none of our options"),
        ({"threads": 0}, "at least 1"),
        ({"concurrency": 0}, "at least 1"),
    ],
)
def test_a_side_that_cannot_be(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SideSpec("stock", "stock", Path("model.onnx"), **{"providers": CPU, **more})


@pytest.mark.parametrize("callers", [1, 2])
def test_a_closed_side_keeps_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: int
) -> None:
    """It saves its results when it ends: at once, and not when the interpreter collects cycles."""
    made: list[weakref.ref[ort.InferenceSession]] = []
    create = tunableop.InferenceSession

    def noted(*args: Any, **kwargs: Any) -> ort.InferenceSession:
        session = create(*args, **kwargs)
        made.append(weakref.ref(session))
        return session

    monkeypatch.setattr(tunableop, "InferenceSession", noted)
    path, feeds, _ = product(tmp_path)
    gc.disable()
    try:
        with InProcess(replace(ours(path, max_tuning_ms=5), concurrency=callers), feeds) as side:
            side.block(seconds=None, calls=4, warmup_calls=1)
        assert [session() for session in made] == [None]
    finally:
        gc.enable()


def test_a_closed_side_says_so(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    for python in (None, THIS):
        side = open_side(stock(path), feeds, python)
        side.close()
        side.close()
        with pytest.raises(SideError, match=r"is closed|has ended"):
            side.outputs()
