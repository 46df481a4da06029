from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop import OptionError, _devices
from onnxruntime_ep_tunableop.bench import gemm, product
from onnxruntime_ep_tunableop.bench.gemm import GemmRow, Sampled
from onnxruntime_ep_tunableop.bench.shapes import Shape
from support.cards import BOTH, backend, on_card

WEIGHT = Shape("weight", 1, 5, 48, 32, True)
COMPUTED = Shape("computed", 3, 4, 16, 8, False)
SHARED = Shape("shared", 3, 4, 16, 8, True)
QUICK: dict[str, Any] = {"rounds": 3, "seconds": 0.001, "max_tuning_ms": 30.0}

CPU = "cpu"


def device() -> _devices.Listed:
    tunableop.register()
    return _devices.choose(CPU)


@pytest.fixture(scope="module")
def rows() -> list[GemmRow]:
    return gemm.run([WEIGHT, COMPUTED], device=CPU, threads=1, **QUICK)


@pytest.mark.parametrize("shape", [WEIGHT, COMPUTED])
def test_sessions_of_a_shape(rows: list[GemmRow], shape: Shape):
    mine = {row.role: row for row in rows if row.shape == shape and row.timed == "session"}
    assert list(mine) == ["stock", "untuned", "tuned"]
    assert mine["stock"].kernel == "stock:CPUExecutionProvider"
    for row in mine.values():
        assert (row.type, row.threads, row.samples) == ("fp32", 1, 3)
        assert row.median > 0.0
        assert row.spread >= 0.0
        assert row.error is not None
        assert row.error <= 1.0
        assert row.speedup is not None
        assert row.gain_interval is not None
        assert row.gain == row.gain_interval.value
        assert row.gain == pytest.approx(mine["untuned"].median / row.median)
        assert row.speedup.value == pytest.approx(mine["stock"].median / row.median)
    assert mine["untuned"].is_default
    assert mine["untuned"].note
    assert not mine["stock"].is_default


@pytest.mark.parametrize("shape", [WEIGHT, COMPUTED])
def test_kernels_of_an_election(rows: list[GemmRow], shape: Shape):
    mine = [row for row in rows if row.shape == shape and row.timed != "session"]
    assert len(mine) >= 2
    assert len({row.kernel for row in mine}) == len(mine)
    (winner,) = [row for row in mine if row.role == "winner"]
    (default,) = [row for row in mine if row.is_default]
    assert default.role == ("winner" if default is winner else "default")
    assert default.gain == pytest.approx(1.0)
    sessions = {row.role: row for row in rows if row.shape == shape and row.timed == "session"}
    assert sessions["tuned"].kernel == winner.kernel
    assert sessions["tuned"].is_default == winner.is_default
    assert sessions["untuned"].kernel == default.kernel
    assert winner.error is not None
    assert 0.0 <= winner.error <= 1.0
    for row in mine:
        assert row.role in ("winner", "default", "candidate")
        assert row.speedup is None
        assert row.gain == pytest.approx(default.median / row.median)
        assert (row.gain_interval is None) == (row.timed == "probe")
        assert row.error is None or row is winner
    racing = [row.median for row in mine if row.timed == "race"]
    assert racing == sorted(racing)
    assert [row.timed for row in mine] == sorted((row.timed for row in mine), reverse=True)


def test_rates_are_of_the_median(rows: list[GemmRow]):
    for row in rows:
        shape = row.shape
        assert row.bytes == 4 * shape.elements
        assert row.gflops == pytest.approx(2 * shape.batch * shape.m * shape.n * shape.k / row.median / 1e9)
        assert row.gigabytes_per_second == pytest.approx(row.bytes / row.median / 1e9)


def test_every_candidate_is_in_the_table(openblas: str):
    found = gemm.run([WEIGHT], device=CPU, threads=1, **QUICK)
    libraries = {row.kernel.partition(":")[0] for row in found if row.timed != "session"}
    assert {"native", "openblas"} <= libraries


def test_progress_and_processors(rows: list[GemmRow]):
    before = os.sched_getaffinity(0)
    seen: list[tuple[str, int, int]] = []
    gemm.run([SHARED, WEIGHT], device=CPU, threads=1, progress=lambda *step: seen.append(step), **QUICK)
    assert seen == [("shared fp32", 0, 2), ("weight fp32", 1, 2), ("done", 2, 2)]
    assert os.sched_getaffinity(0) == before


def test_no_budget_no_race():
    """A product of which one call is more than a quarter of the budget has no election to show."""
    found = gemm.run([Shape("large", 1, 64, 256, 256, True)], device=CPU, threads=1, rounds=1, seconds=0.001,
                     max_tuning_ms=0.02)  # fmt: skip
    assert [row.role for row in found if row.timed == "session"] == ["stock", "untuned", "tuned"]
    assert all(row.role != "winner" or row.is_default for row in found)
    (tuned,) = [row for row in found if row.role == "tuned"]
    assert tuned.is_default
    assert tuned.note


def test_types_that_a_device_cannot_have():
    with pytest.raises(OptionError, match="types: expected fp32 on cpu, found 'fp16'"):
        gemm.run([WEIGHT], device=CPU, types=["fp16"])
    with pytest.raises(OptionError, match="option 'device'"):
        gemm.run([WEIGHT], device="gpu")


# The trace


def _trace(path: Path, *lines: str) -> Path:
    head = "time_unix,problem,library,kernel,phase,round,ms,role,elected"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_an_election_by_hand(tmp_path: Path):
    lines = [f'1,"M=1,N=2",native,slow,race,{at},{ms},default,0' for at, ms in enumerate((4.0, 2.0, 4.0))]
    lines += [f'1,"M=1,N=2",native,fast,race,{at},{ms},winner,1' for at, ms in enumerate((2.0, 1.0, 2.0))]
    lines += [f'1,"M=1,N=2",openblas,out,probe,{at},{ms},challenger,0' for at, ms in enumerate((8.0, 10.0))]
    lines += [f'1,"M=1,N=2",stock,MatMul,race,{at},4.0,spectator,0' for at in range(3)]
    election = gemm.read_trace(_trace(tmp_path / "t.csv", *lines))
    assert election[1] == Sampled("native:fast", "winner", True, "race", (2e-3, 1e-3, 2e-3))
    made = gemm._election_rows(gemm._RowMaker(product.make(WEIGHT, "fp32"), 2), election, 0.25)
    assert [(row.kernel, row.role, row.is_default, row.timed) for row in made] == [
        ("native:fast", "winner", False, "race"),
        ("native:slow", "default", True, "race"),
        ("stock:MatMul", "spectator", False, "race"),
        ("openblas:out", "candidate", False, "probe"),
    ]
    fast, slow, stock, out = made
    assert (fast.median, fast.samples, fast.spread) == (2e-3, 3, pytest.approx(0.5e-3))
    assert fast.gain == 2.0
    assert fast.gain_interval is not None
    assert (fast.gain_interval.low, fast.gain_interval.high) == (2.0, 2.0), "rounds are drawn in pairs"
    assert (fast.error, slow.error, out.error) == (0.25, None, None)
    assert stock.gain == 1.0
    assert (out.gain, out.gain_interval) == (pytest.approx(4 / 9), None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,p,l,k,race,1,2.0,default,0", "several elections, or samples of l:k are missing"),
        ("1,p,l,k,race,0,fast,default,0", "could not convert"),
        ("1,p,l,k,race", "expected the trace of one election"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, line: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        gemm.read_trace(_trace(tmp_path / "t.csv", line))


def test_two_elections_are_not_mixed_up(tmp_path: Path):
    lines = ["1,p,l,k,race,0,2.0,default,0"] * 2
    with pytest.raises(ValueError, match="several elections"):
        gemm.read_trace(_trace(tmp_path / "t.csv", *lines))


# One product


@pytest.mark.parametrize("shape", [WEIGHT, COMPUTED, SHARED, Shape("row", 1, 1, 7, 300, True)])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "tf32"])
def test_a_product_is_the_product_and_mistakes_are_found(shape: Shape, kind: str):
    made = product.make(shape, kind, seed=3)
    expected_type = np.float16 if kind == "fp16" else np.float32
    assert made.a.dtype == made.b.dtype == expected_type
    assert sorted(made.feeds) == (["A"] if shape.constant_b else ["A", "B"])
    assert made.bytes == shape.elements * (2 if kind == "fp16" else 4)
    session = ort.InferenceSession(made.model, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, made.feeds)
    assert got.shape == (*((shape.batch,) if shape.batch > 1 else ()), shape.m, shape.n)
    exact = made.a.astype(np.float64) @ made.b.astype(np.float64)
    assert product.error(made, exact.astype(expected_type)) <= 1.0
    if kind != "fp16":  # stock's sums are in fp16, too
        assert product.error(made, got) <= 1.0
    for at in (0, -1):
        wrong = exact.astype(expected_type)
        wrong.reshape(-1)[at] += np.float32(0.25 * math.sqrt(shape.k))
        assert product.error(made, wrong) > 1.0
        wrong.reshape(-1)[at] = np.nan
        assert product.error(made, wrong) == math.inf


def test_of_a_large_product_some_rows_are_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(product, "_MOST_CHECKED", 0.0)
    monkeypatch.setattr(product, "_CHUNK", 64)  # so that columns come in parts
    for shape in (Shape("x", 1, 100, 30, 20, True), Shape("y", 10, 10, 30, 20, False)):
        made = product.make(shape, "fp32")
        right = made.a @ made.b
        assert product.error(made, right) <= 1.0
        for at in (0, -1):
            wrong = right.copy()
            wrong.reshape(-1)[at] += 1.0
            assert product.error(made, wrong) > 1.0, "the first and the last row are always looked at"
        everything = right + 1.0
        assert product.error(made, everything) > 1.0


def test_operands_stay_in_place_and_the_answer_is_new():
    made = product.make(COMPUTED, "fp32")
    session = product.stock_session(made, device(), 1)
    assert session is not None
    call, fetch = product.bound(session, made, device())
    answer = fetch()
    np.testing.assert_allclose(answer, made.a @ made.b, rtol=1e-4, atol=1e-4)
    answer[...] = -1.0
    call()
    np.testing.assert_allclose(fetch(), made.a @ made.b, rtol=1e-4, atol=1e-4)
    assert fetch().ctypes.data % 64 == 0


def test_threads_are_pinned_only_where_there_are_processors_enough():
    before = os.sched_getaffinity(0)
    with product.pinned(1):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
    for threads in (None, len(before) + 1):
        with product.pinned(threads):
            assert os.sched_getaffinity(0) == before


# On cards


@on_card(*BOTH)
def test_every_type_on_a_card() -> None:
    found = gemm.run([WEIGHT, COMPUTED], device="auto", rounds=2, seconds=0.001, max_tuning_ms=150.0)
    assert {row.type for row in found} == {"fp32", "fp16", "bf16"}
    libraries = set()
    for kind in ("fp32", "fp16", "bf16"):
        for shape in (WEIGHT, COMPUTED):
            mine = [row for row in found if row.type == kind and row.shape == shape]
            roles = [row.role for row in mine if row.timed == "session"]
            # There is no stock provider for a simulated card.
            assert roles == ["untuned", "tuned"]
            assert all(row.error is not None and row.error <= 1.0 for row in mine if row.timed == "session")
            assert all(row.speedup is None for row in mine)
            (winner,) = [row for row in mine if row.role == "winner"]
            assert winner.kernel == mine[1].kernel
            libraries.add(winner.kernel.partition(":")[0])
            assert mine[0].bytes == shape.elements * (4 if kind == "fp32" else 2)
    assert libraries <= ({"cublaslt"} if backend() == "cuda" else {"hipblaslt", "rocblas"})


@on_card(BOTH[0])
def test_tf32_on_a_card() -> None:
    found = gemm.run([WEIGHT], device="cuda:0", types=["tf32"], rounds=1, seconds=0.001, max_tuning_ms=100.0)
    assert {row.type for row in found} == {"tf32"}
    assert all(row.error is None or row.error <= 1.0 for row in found)
    try:
        gemm.run([WEIGHT], device="cuda", types=["int8"])
    except OptionError as error:
        assert "expected fp32, fp16, bf16, tf32 on cuda:0" in str(error)  # noqa: PT017 (no pytest here)
    else:
        raise AssertionError("int8 was taken")
