"""The stock provider's kernel in a nested session: right, bounded, and no trouble to its surroundings."""

from __future__ import annotations

import gc
import json
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import _core
from support.graphs import matmul_model
from support.process import run_python
from support.sessions import check_runs, quick_session, random
from support.tolerance import gamma, product

MEASURE = """
import json
from onnxruntime_ep_tunableop import _core
tunableop.register()
def measure(**a):
    return json.loads(_core.control(tunableop.get_library_path(), "measure_stock", json.dumps(a)))
"""


@pytest.fixture(autouse=True)
def registered() -> None:
    tunableop.register()


def measure(**arguments: int) -> dict[str, Any]:
    """The stock kernel on random operands in [-1, 1): see provider/stock_check.h."""
    answer = _core.control(tunableop.get_library_path(), "measure_stock", json.dumps(arguments))
    return dict(json.loads(answer))


def assert_right(arguments: dict[str, int], found: dict[str, Any]) -> None:
    """Within what fp32 allows of the fp64 result; NaN (null) is not."""
    k = arguments.get("k", 1)
    bound = gamma(k) * (k * abs(arguments.get("alpha", 1)) + abs(arguments.get("beta", 0)) + 1)
    assert found["max_difference"] is not None
    assert found["max_difference"] <= bound
    assert found["median_ms"] > 0
    assert found["first_ms"] > 0
    assert found["overhead_ms"] > 0
    assert found["alone_ms"] >= 0  # the overhead is taken off, of which a tiny product takes no more
    assert found["kernel"] == "stock:CPUExecutionProvider"


SIZES = [(1, 1, 1), (3, 5, 7), (33, 65, 130), (1, 200, 64), (17, 1, 129), (64, 64, 64)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("b", [{}, {"b_constant": 1}, {"packed": 1}], ids=["computed", "constant", "packed"])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_matmul(m: int, n: int, k: int, b: dict[str, int], threads: int) -> None:
    arguments = {"m": m, "n": n, "k": k, "threads": threads, "runs": 3} | b
    assert_right(arguments, measure(**arguments))


@pytest.mark.parametrize("b", [{}, {"b_constant": 1}, {"packed": 1}], ids=["computed", "constant", "packed"])
@pytest.mark.parametrize(
    "extra",
    [
        {"trans_a": 1},
        {"trans_b": 1},
        {"trans_a": 1, "trans_b": 1},
        {"alpha": 3},
        {"bias": 1},
        {"bias": 1, "alpha": -2, "trans_b": 1},
        {"beta": 1},
        {"beta": 2, "alpha": 3, "trans_a": 1},
    ],
    ids=str,
)
def test_gemm(extra: dict[str, int], b: dict[str, int]) -> None:
    arguments = {"m": 19, "n": 67, "k": 45, "runs": 3} | extra | b
    assert_right(arguments, measure(**arguments))


@pytest.mark.parametrize("b", [{}, {"b_constant": 1}, {"packed": 1}], ids=["computed", "constant", "packed"])
@pytest.mark.parametrize("shared_b", [0, 1])
def test_batch(b: dict[str, int], shared_b: int) -> None:
    arguments = {"m": 5, "n": 70, "k": 33, "batch": 4, "shared_b": shared_b, "runs": 3} | b
    assert_right(arguments, measure(**arguments))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"m": 3, "n": 5, "k": 7, "relu": 1}, "epilogue relu"),
        ({"m": 3, "n": 5, "k": 7, "bias": 1, "relu": 1}, "epilogue bias_relu"),
        ({"m": 3, "n": 5, "k": 7, "bias": 1, "beta": 1}, "a bias beside beta"),
        ({"m": 3, "n": 5, "k": 7, "ldc_gap": 1}, "leading dimension"),
        ({"m": 3, "n": 5, "k": 7, "batch": 2, "bias": 1}, "Gemm in batches"),
        ({"m": 0, "n": 5, "k": 7}, "empty"),
        ({"m": 3, "n": 5, "k": 0}, "empty"),
        ({"m": 3, "n": 5, "k": 7, "threads": 0}, "no CPU threads"),
    ],
    ids=str,
)
def test_what_one_node_cannot_express_is_refused(arguments: dict[str, int], why: str) -> None:
    with pytest.raises(NotImplementedError, match=why):
        measure(**arguments)


@pytest.mark.parametrize(("b", "copies"), [("b_constant", 2), ("packed", 3)])
def test_the_ceiling_counts_the_copies_of_a_weight(b: str, copies: int) -> None:
    arguments = {"m": 2, "n": 100, "k": 50, b: 1, "runs": 1}
    enough = 100 * 50 * 4 * copies
    assert_right(arguments, measure(**arguments, max_bytes=enough))
    with pytest.raises(MemoryError, match=rf"takes {enough} bytes; the ceiling is {enough - 1}"):
        measure(**arguments, max_bytes=enough - 1)


def test_a_computed_b_has_no_ceiling() -> None:
    arguments = {"m": 2, "n": 100, "k": 50, "runs": 1}
    assert_right(arguments, measure(**arguments, max_bytes=0))


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_memory_is_given_back() -> None:
    """Forty sessions more leave less behind than two weights; a leak would leave forty."""
    weight = 1024 * 1000 * 4
    arguments = {"m": 2, "n": 1024, "k": 1000, "packed": 1, "runs": 1, "threads": 2}
    for _ in range(10):
        measure(**arguments)
    gc.collect()
    before = resident()
    for _ in range(40):
        measure(**arguments)
    gc.collect()
    assert resident() - before < 2 * weight


def test_beside_a_session_that_runs() -> None:
    b = random((64, 48), 1)
    session = quick_session(matmul_model(["m", 64], None, constants={"B": b}))
    feeds = {"A": random((9, 64), 2)}
    check_runs(session, feeds, *product(feeds["A"], b))
    stop = threading.Event()
    failures: list[str] = []
    runs = 0

    def serve() -> None:
        nonlocal runs
        first = session.run(None, feeds)[0]
        while not stop.is_set():
            runs += 1
            if not np.array_equal(session.run(None, feeds)[0], first):
                failures.append(f"run {runs} differs")

    server = threading.Thread(target=serve)
    server.start()
    try:
        for i in range(10):
            arguments = {"m": 8 + i, "n": 40, "k": 30, "packed": 1, "threads": 1 + i % 2, "runs": 20}
            assert_right(arguments, measure(**arguments))
    finally:
        stop.set()
        server.join()
    assert not failures
    assert runs > 0


def test_several_at_once() -> None:
    found: list[tuple[dict[str, int], dict[str, Any]]] = []

    def work(seed: int) -> None:
        for i in range(5):
            arguments = {"m": 3 + seed, "n": 30 + i, "k": 20, "packed": i % 2, "threads": 2, "runs": 5}
            found.append((arguments, measure(**arguments)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 15
    for arguments, figures in found:
        assert_right(arguments, figures)


@pytest.mark.parametrize("end", ["", "tunableop.unregister()"])
def test_the_process_ends_well(end: str) -> None:
    """Also when the last session ends first, and when another thread measured."""
    script = f"""
    import threading
    session = plain()
    right(session)
    thread = threading.Thread(target=lambda: print(measure(m=3, n=65, k=9, packed=1, threads=2)["kernel"]))
    thread.start()
    thread.join()
    right(session)
    del session
    print(measure(m=3, n=65, k=9)["kernel"])
    {end}
    """
    done = run_python(MEASURE + textwrap.dedent(script))
    assert done.stdout.split() == ["stock:CPUExecutionProvider"] * 2


def test_the_logger_of_the_process_stays_as_it_was() -> None:
    script = """
ort.set_default_logger_severity(1)
measure(m=3, n=5, k=7)
print("marker", file=sys.stderr, flush=True)
plain()
"""
    done = run_python(MEASURE + script)
    before, after = done.stderr.split("marker")
    assert "[I:onnxruntime" in after
    assert "[W:" not in before


def test_without_onnxruntime_there_is_none() -> None:
    script = (
        MEASURE.replace("tunableop.register()\n", "")
        + """
try:
    measure(m=3, n=5, k=7)
except NotImplementedError as error:
    print(error)
"""
    )
    assert "no ONNX Runtime has loaded this library" in run_python(script).stdout
