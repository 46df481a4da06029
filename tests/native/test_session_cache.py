"""The session's shape cache: a map, bounded, and safe under fire."""

from __future__ import annotations

import threading

import pytest
import tunableop_native_tests as _core
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import make_problem


def test_put_find_replace_erase() -> None:
    cache = _core.SessionCache(8)
    problem = make_problem(3, 4, 5)
    assert cache.find(problem) is None
    cache.put(problem, "first")
    assert cache.find(problem) == "first"
    cache.put(problem, "second")
    assert cache.find(problem) == "second"
    assert len(cache) == 1
    assert cache.erase(problem)
    assert not cache.erase(problem)
    assert cache.find(problem) is None
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("m", 9), ("n", 9), ("k", 9), ("batch", 2), ("lda", 99), ("ldb", 99), ("ldc", 99),
        ("stride_a", 7), ("stride_b", 7), ("stride_c", 7),
        ("a_type", _core.DataType.float16), ("b_type", _core.DataType.float16),
        ("c_type", _core.DataType.float16), ("trans_a", 1), ("trans_b", 1),
        ("b_layout", _core.BLayout.packed), ("b_constant", 1), ("alpha", _core.ScalarClass.other),
        ("beta", _core.ScalarClass.one), ("epilogue", _core.Epilogue.relu),
        ("precision", _core.Precision.bf16), ("align_a", 2), ("align_b", 2), ("align_c", 2),
        ("threads", 2),
    ],
)  # fmt: skip
def test_every_field_is_part_of_the_key(field: str, value: object) -> None:
    cache = _core.SessionCache(8)
    cache.put(make_problem(3, 4, 5), "one")
    other = make_problem(3, 4, 5)
    setattr(other, field, value)
    assert cache.find(other) is None
    cache.put(other, "other")
    assert cache.find(make_problem(3, 4, 5)) == "one"
    assert cache.find(other) == "other"


def test_capacity_bounds_the_size() -> None:
    cache = _core.SessionCache(100)
    for i in range(1000):
        cache.put(make_problem(i + 1, 1, 1), str(i))
        assert len(cache) <= 100
    assert len(cache) == 100
    assert cache.evicted == 900
    assert cache.capacity == 100
    assert len(cache.kernels()) == 100


def test_capacity_is_one_at_least() -> None:
    cache = _core.SessionCache(0)
    cache.put(make_problem(1, 1, 1), "x")
    cache.put(make_problem(2, 1, 1), "y")
    assert cache.capacity == len(cache) == 1
    assert cache.find(make_problem(2, 1, 1)) == "y"


def test_what_is_used_stays() -> None:
    cache = _core.SessionCache(64)
    hot = [make_problem(i + 1, 7, 7) for i in range(8)]
    for problem in hot:
        cache.put(problem, "hot")
    for i in range(2000):
        cache.put(make_problem(i + 1, 1, 1), "cold")
        for problem in hot:
            assert cache.find(problem) == "hot"


def test_replacing_never_evicts() -> None:
    cache = _core.SessionCache(4)
    problems = [make_problem(i + 1, 1, 1) for i in range(4)]
    for turn in range(500):
        for problem in problems:
            cache.put(problem, str(turn))
    assert cache.evicted == 0
    assert sorted(cache.kernels()) == ["499"] * 4


def test_clear() -> None:
    cache = _core.SessionCache(1000)
    for i in range(500):
        cache.put(make_problem(i + 1, 1, 1), str(i))
    cache.clear()
    assert len(cache) == 0
    assert all(cache.find(make_problem(i + 1, 1, 1)) is None for i in range(500))
    cache.put(make_problem(1, 1, 1), "again")
    assert cache.find(make_problem(1, 1, 1)) == "again"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "put", "put", "erase", "find", "clear"]), st.integers(1, 300)),
        max_size=600,
    )
)
def test_it_is_a_map(steps: list[tuple[str, int]]) -> None:
    cache = _core.SessionCache(1000)  # nothing is evicted
    model: dict[int, str] = {}
    for step, (action, m) in enumerate(steps):
        problem = make_problem(m, 1, 1)
        if action == "put":
            cache.put(problem, str(step))
            model[m] = str(step)
        elif action == "erase":
            assert cache.erase(problem) == (model.pop(m, None) is not None)
        elif action == "clear" and m < 10:
            cache.clear()
            model.clear()
        assert cache.find(problem) == model.get(m)
        assert len(cache) == len(model)
    assert sorted(cache.kernels()) == sorted(model.values())


@pytest.mark.parametrize(("threads", "distinct", "capacity"), [(4, 64, 32), (8, 3000, 1000), (16, 10, 100)])
def test_readers_never_see_a_foreign_or_dead_entry(threads: int, distinct: int, capacity: int) -> None:
    report = _core.hammer_session_cache(threads, 1.0, distinct, capacity)
    assert report["wrong"] == 0
    assert report["hits"] > 0
    assert report["writes"] > 0
    assert report["size"] <= capacity
    assert report["live_at_end"] == 0


def test_memory_stays_flat_without_readers() -> None:
    # One thread, which writes: every replaced entry is freed at once.
    report = _core.hammer_session_cache(1, 0.5, 1000, 100)
    assert report["live_peak"] <= 110


def test_many_caches_and_threads() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        for turn in range(20):
            cache = _core.SessionCache(16)
            for i in range(64):
                cache.put(make_problem(i + 1, seed + 1, 1), f"{seed}.{turn}.{i}")
                if cache.find(make_problem(i + 1, seed + 1, 1)) != f"{seed}.{turn}.{i}":
                    failures.append(f"{seed}.{turn}.{i}")

    # More threads than slots in a block, in three generations.
    for _ in range(3):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
