"""Neighbours in m, and buckets."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import make_problem


def test_buckets_are_powers_of_two() -> None:
    expected = [(1, 1), (2, 2), (3, 4), (3, 4), (5, 8), (5, 8), (5, 8), (5, 8), (9, 16)]
    assert [native.bucket_of(m) for m in range(1, 10)] == expected
    assert native.bucket_of(0) == native.bucket_of(-3) == (0, 0)
    assert native.bucket_of(2**63 - 1) == (2**62 + 1, 2**63 - 1)


@given(st.integers(1, 2**62))
def test_a_bucket_holds_its_m_and_no_two_overlap(m: int) -> None:
    low, high = native.bucket_of(m)
    assert low <= m <= high < 2 * low or (low, high) in ((1, 1), (2, 2))
    assert native.bucket_of(low) == native.bucket_of(high) == (low, high)
    assert native.bucket_of(high + 1)[0] == high + 1


def test_the_nearest_in_ratio() -> None:
    neighbours = native.Neighbours(10)
    assert neighbours.nearest(make_problem(10, 8, 8)) is None
    neighbours.put(make_problem(10, 8, 8), "10")
    neighbours.put(make_problem(40, 8, 8), "40")
    for m, expected in [(1, "10"), (11, "10"), (19, "10"), (20, "40"), (21, "40"), (39, "40"), (1000, "40")]:
        assert neighbours.nearest(make_problem(m, 8, 8)) == expected  # 25 is nearer to 10 by difference
    assert neighbours.nearest(make_problem(10, 8, 8)) == "40"  # never of itself
    assert neighbours.nearest(make_problem(0, 8, 8)) is None
    neighbours.put(make_problem(40, 8, 8), "new")
    assert len(neighbours) == 2
    assert neighbours.nearest(make_problem(39, 8, 8)) == "new"


@pytest.mark.parametrize(
    "fields",
    [{"n": 9}, {"k": 9}, {"batch": 2}, {"threads": 2}, {"epilogue": native.Epilogue.relu}, {"ldc": 50},
     {"trans_b": 1}, {"b_constant": 1}, {"b_layout": native.BLayout.packed},
     {"a_type": native.DataType.float64}],
    ids=str,
)  # fmt: skip
def test_everything_but_m_and_alignment_must_match(fields: dict[str, Any]) -> None:
    neighbours = native.Neighbours(10)
    size = {"n": 8, "k": 8, **fields}
    neighbours.put(make_problem(10, **size), "x", 9, 16)
    neighbours.put(make_problem(10, **size), "x")
    assert neighbours.nearest(make_problem(12, 8, 8)) is None
    assert neighbours.bucket(make_problem(12, 8, 8)) is None
    assert neighbours.nearest(make_problem(12, **size)) == "x"
    assert neighbours.bucket(make_problem(12, **size)) == "x"
    unaligned = make_problem(10, **size)
    unaligned.align_a = unaligned.align_c = 2
    assert neighbours.nearest(unaligned) == "x"  # the same size: nothing is nearer
    assert not neighbours.erase(unaligned)


@pytest.mark.parametrize("trans_a", [0, 1])
def test_strides_that_follow_from_m_do_not_part_batches(trans_a: int) -> None:
    neighbours = native.Neighbours(10)
    neighbours.put(make_problem(10, 8, 5, batch=3, trans_a=trans_a), "x")
    assert neighbours.nearest(make_problem(12, 8, 5, batch=3, trans_a=trans_a)) == "x"
    assert neighbours.nearest(make_problem(12, 8, 5, batch=3, trans_a=trans_a, stride_a=1000)) is None
    assert neighbours.nearest(make_problem(12, 8, 5, batch=3, trans_a=trans_a, stride_c=1000)) is None
    assert neighbours.nearest(make_problem(12, 8, 5, batch=3, trans_a=1 - trans_a)) is None


def test_buckets_and_problems_do_not_mix() -> None:
    neighbours = native.Neighbours(10)
    neighbours.put(make_problem(12, 8, 8), "bucket", 9, 16)
    assert neighbours.nearest(make_problem(13, 8, 8)) is None
    assert not neighbours.erase(make_problem(12, 8, 8))
    neighbours.put(make_problem(12, 8, 8), "exact")
    assert [neighbours.bucket(make_problem(m, 8, 8)) for m in (8, 9, 16, 17)] == [
        None,
        "bucket",
        "bucket",
        None,
    ]
    neighbours.put(make_problem(30, 8, 8), "wide", 9, 64)
    assert [neighbours.bucket(make_problem(m, 8, 8)) for m in (16, 17, 65)] == ["bucket", "wide", None]
    assert len(neighbours) == 3
    assert neighbours.erase(make_problem(12, 8, 8))
    assert neighbours.erase_bucket(make_problem(10, 8, 8))  # the narrowest
    assert neighbours.bucket(make_problem(10, 8, 8)) == "wide"
    assert neighbours.erase_bucket(make_problem(10, 8, 8))
    assert not neighbours.erase_bucket(make_problem(10, 8, 8))
    assert len(neighbours) == 0


def test_beyond_its_capacity_the_oldest_goes() -> None:
    neighbours = native.Neighbours(3)
    for m in (1, 10, 100):
        neighbours.put(make_problem(m, 8, 8), str(m))
    neighbours.put(make_problem(1, 8, 8), "renewed")
    neighbours.put(make_problem(1000, 8, 8), "bucket", 513, 1024)
    assert len(neighbours) == neighbours.capacity == 3
    assert neighbours.nearest(make_problem(10, 8, 8)) == "100"  # 10 is gone, and of 1 and 100 ...
    assert neighbours.nearest(make_problem(2, 8, 8)) == "renewed"
    assert not neighbours.erase(make_problem(10, 8, 8))
    neighbours.clear()
    assert len(neighbours) == 0
    assert neighbours.nearest(make_problem(2, 8, 8)) is None
    assert native.Neighbours(0).capacity == 1


actions = st.tuples(
    st.sampled_from(["put", "put", "bucket", "erase", "near"]), st.integers(1, 40), st.integers(1, 2)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(actions, max_size=60), st.integers(1, 12))
def test_against_a_list(steps: list[tuple[str, int, int]], capacity: int) -> None:
    neighbours = native.Neighbours(capacity)
    model: dict[tuple[int, int, int], str] = {}  # (n, m, 0) or (n, low, high), in the order of putting
    for step, (action, m, n) in enumerate(steps):
        problem = make_problem(m, n, 8)
        if action == "erase":
            assert neighbours.erase(problem) == (model.pop((n, m, 0), None) is not None)
        elif action in ("put", "bucket"):
            low, high = native.bucket_of(m) if action == "bucket" else (0, 0)
            neighbours.put(problem, str(step), low, high)
            key = (n, low, high) if high else (n, m, 0)
            model.pop(key, None)
            model[key] = str(step)
            while len(model) > capacity:
                del model[next(iter(model))]
        others = [key for key in model if key[0] == n and key[2] == 0 and key[1] != m]
        best = min(
            others, key=lambda key: (max(Fraction(key[1], m), Fraction(m, key[1])), -key[1]), default=None
        )
        assert neighbours.nearest(problem) == (model[best] if best else None)
        assert neighbours.bucket(problem) == model.get((n, *native.bucket_of(m)))
        assert len(neighbours) == len(model)


def test_threads() -> None:
    neighbours = native.Neighbours(64)
    failures: list[str] = []

    def work(seed: int) -> None:
        for i in range(2000):
            m = 1 + (i * 7 + seed) % 200
            neighbours.put(make_problem(m, 8, 8), str(m))
            neighbours.put(make_problem(m, 8, 8), str(m), *native.bucket_of(m))
            found = neighbours.nearest(make_problem(m, 8, 8))
            if found is not None and int(found) == m:
                failures.append(f"{m} of itself")
            neighbours.bucket(make_problem(m, 8, 8))
            neighbours.erase(make_problem(m, 8, 8))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(neighbours) <= 64
