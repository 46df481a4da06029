"""The session's shape cache: a map, bounded, and safe under fire."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import make_problem


def test_put_find_replace_erase() -> None:
    cache = native.SessionCache(8)
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
        ("a_type", native.DataType.float16), ("b_type", native.DataType.float16),
        ("c_type", native.DataType.float16), ("trans_a", 1), ("trans_b", 1),
        ("b_layout", native.BLayout.packed), ("b_constant", 1), ("alpha", native.ScalarClass.other),
        ("beta", native.ScalarClass.one), ("epilogue", native.Epilogue.relu),
        ("precision", native.Precision.bf16), ("align_a", 2), ("align_b", 2), ("align_c", 2),
        ("threads", 2),
    ],
)  # fmt: skip
def test_every_field_is_part_of_the_key(field: str, value: object) -> None:
    cache = native.SessionCache(8)
    cache.put(make_problem(3, 4, 5), "one")
    other = make_problem(3, 4, 5)
    setattr(other, field, value)
    assert cache.find(other) is None
    cache.put(other, "other")
    assert cache.find(make_problem(3, 4, 5)) == "one"
    assert cache.find(other) == "other"


def test_capacity_bounds_the_size() -> None:
    cache = native.SessionCache(100)
    for i in range(1000):
        cache.put(make_problem(i + 1, 1, 1), str(i))
        assert len(cache) <= 100
    assert len(cache) == 100
    assert cache.evicted == 900
    assert cache.capacity == 100
    assert len(cache.kernels()) == 100


def test_capacity_is_one_at_least() -> None:
    cache = native.SessionCache(0)
    cache.put(make_problem(1, 1, 1), "x")
    cache.put(make_problem(2, 1, 1), "y")
    assert cache.capacity == len(cache) == 1
    assert cache.find(make_problem(2, 1, 1)) == "y"


def test_what_is_used_stays() -> None:
    cache = native.SessionCache(64)
    hot = [make_problem(i + 1, 7, 7) for i in range(8)]
    for problem in hot:
        cache.put(problem, "hot")
    for i in range(2000):
        cache.put(make_problem(i + 1, 1, 1), "cold")
        for problem in hot:
            assert cache.find(problem) == "hot"


def use(cache: native.SessionCache, problem: native.Problem) -> bool:
    """What a session does: look it up, and put it where it is not. Whether it was there."""
    found = cache.find(problem) is not None
    if not found:
        cache.put(problem, "")
    return found


@pytest.mark.parametrize("capacity", [5, 64, 250])
def test_a_burst_of_rare_problems_leaves_the_hot_ones_in(capacity: int) -> None:
    cache = native.SessionCache(capacity)
    hot = [make_problem(i + 1, 7, 7) for i in range(capacity * 4 // 5)]
    for _ in range(5):
        for problem in hot:
            use(cache, problem)
    for i in range(10 * capacity):
        assert not use(cache, make_problem(i + 1, 1, 1))
        assert len(cache) <= capacity
    assert all(cache.find(problem) is not None for problem in hot)
    assert cache.evicted == 10 * capacity - (capacity - len(hot))


@pytest.mark.parametrize("capacity", [5, 64, 250])
def test_hot_ones_that_have_cooled_make_room(capacity: int) -> None:
    cache = native.SessionCache(capacity)
    for _ in range(10):
        for i in range(capacity):
            use(cache, make_problem(i + 1, 7, 7))
    # As many others, one after the other: none is there yet when it comes again.
    new = [make_problem(i + 1, 1, 1) for i in range(capacity)]
    hits = [sum(use(cache, problem) for problem in new) for _ in range(10)]
    assert hits[0] == 0
    assert hits[-1] == capacity, hits
    assert len(cache) == capacity


def test_more_hot_ones_than_there_is_room_for_still_hit() -> None:
    cache = native.SessionCache(100)
    source = random.Random(1)
    problems = [make_problem(i + 1, 7, 7) for i in range(130)]
    hits = sum(use(cache, problem) for problem in source.choices(problems, k=20_000))
    assert hits > 20_000 * 0.65  # as many as fit, nominally 100 / 130
    assert len(cache) == 100


def test_the_often_used_gain_over_the_rarely_used() -> None:
    # Of Zipf's law (what traffic looks like), the best that 100 entries could hit is the 100 most used.
    cache = native.SessionCache(100)
    source = random.Random(1)
    problems = [make_problem(i + 1, 7, 7) for i in range(2000)]
    weights = [1 / (i + 1) for i in range(2000)]
    hits = sum(use(cache, problem) for problem in source.choices(problems, weights, k=40_000))
    best = sum(weights[:100]) / sum(weights)
    lru: OrderedDict[int, None] = OrderedDict()
    lru_hits = 0
    source = random.Random(1)
    for i in source.choices(range(2000), weights, k=40_000):
        lru_hits += i in lru
        lru[i] = None
        lru.move_to_end(i)
        if len(lru) > 100:
            lru.popitem(last=False)
    assert lru_hits / 40_000 < hits / 40_000 < best
    assert hits / 40_000 > 0.9 * best


class Model:
    """The policy of cache/eviction.h, said again in a simpler way."""

    HOT, STEPS, DEMOTION_STEPS = 4, 64, 16

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.most = capacity * 4 // 5
        self.probation: OrderedDict[int, list[int]] = OrderedDict()  # [times found, since the hand]
        self.protected: OrderedDict[int, list[int]] = OrderedDict()
        self.past: OrderedDict[int, int] = OrderedDict()

    def find(self, key: int) -> bool:
        entry = self.probation.get(key) or self.protected.get(key)
        if entry:
            entry[:] = [min(entry[0] + 1, self.HOT), 1]
        return entry is not None

    def put(self, key: int) -> None:
        if key in self.probation or key in self.protected:
            return
        if len(self.probation) + len(self.protected) == self.capacity:
            victim = self.victim()
            self.past[victim] = self.probation.pop(victim)[0]
            if len(self.past) > self.capacity:
                self.past.popitem(last=False)
        self.probation[key] = [min(self.past.pop(key, -1) + 1, self.HOT), 0]

    def victim(self) -> int:
        steps = 0
        while steps < self.STEPS:
            key, (count, since) = next(iter(self.probation.items()))
            if count == self.HOT and self.most:
                self.protected[key] = self.probation.pop(key)
                if len(self.protected) > self.most:
                    self.demote()
                    steps += 1
            elif since:
                self.probation[key][1] = 0
                self.probation.move_to_end(key)
                steps += 1
            else:
                return key
        return next(iter(self.probation))

    def demote(self) -> None:
        for _ in range(self.DEMOTION_STEPS):
            key, entry = next(iter(self.protected.items()))
            if not entry[1]:
                break
            entry[1] = 0
            self.protected.move_to_end(key)
        key, _ = self.protected.popitem(last=False)
        self.probation[key] = [0, 0]

    def erase(self, key: int) -> bool:
        return (self.probation.pop(key, None) or self.protected.pop(key, None)) is not None

    def keys(self) -> list[int]:
        return sorted([*self.probation, *self.protected])


traffic = st.lists(
    st.tuples(st.sampled_from(["find"] * 6 + ["put", "use", "use", "use", "erase"]), st.integers(1, 60)),
    max_size=900,
)


@settings(max_examples=150, deadline=None)
@given(traffic, st.integers(1, 40), st.booleans())
def test_what_stays_is_what_the_policy_says(
    steps: list[tuple[str, int]], capacity: int, skewed: bool
) -> None:
    cache, model = native.SessionCache(capacity), Model(capacity)
    for action, number in steps:
        m = number * number // 60 + 1 if skewed else number
        problem = make_problem(m, 1, 1)
        if action == "erase":
            assert cache.erase(problem) == model.erase(m)
        if action in ("find", "use"):
            assert (cache.find(problem) is not None) == model.find(m)
        if action in ("put", "use"):
            cache.put(problem, str(m))
            model.put(m)
        assert sorted(map(int, cache.kernels())) == model.keys()


@pytest.mark.parametrize("seed", range(4))
def test_the_policy_over_long_traffic(seed: int) -> None:
    source = random.Random(seed)
    capacity = source.choice([1, 2, 7, 50, 120])
    cache, model = native.SessionCache(capacity), Model(capacity)
    for step in range(6000):
        m = step // 500 * 40 + int(source.paretovariate(0.6)) % (3 * capacity + 2)  # a set that drifts
        problem = make_problem(m + 1, 1, 1)
        assert (cache.find(problem) is not None) == model.find(m)
        cache.put(problem, str(m))
        model.put(m)
        if step % 50 == 0:
            assert sorted(map(int, cache.kernels())) == model.keys()


def test_an_eviction_does_not_look_at_all_entries() -> None:
    # Most of a large cache is in use all the time: putting one more must not go through all of it.
    def ns(capacity: int) -> float:
        return min(float(native.measure_put(capacity)) for _ in range(5))

    assert ns(20_000) < 20 * ns(200)  # nominally equal, but for the caches of the processor


def test_clearing_forgets_who_was_protected() -> None:
    cache = native.SessionCache(5)
    hot = [make_problem(i + 1, 7, 7) for i in range(4)]
    for problem in hot * 6:
        use(cache, problem)
    cache.clear()
    for problem in hot:
        use(cache, problem)
    for i in range(5):
        use(cache, make_problem(i + 1, 1, 1))
    assert all(cache.find(problem) is None for problem in hot)


def test_replacing_keeps_the_place() -> None:
    cache = native.SessionCache(5)
    hot = make_problem(1, 7, 7)
    for _ in range(5):
        use(cache, hot)
    for i in range(50):
        cache.put(hot, str(i))
        use(cache, make_problem(i + 1, 1, 1))
    assert cache.find(hot) == "49"


def test_replacing_never_evicts() -> None:
    cache = native.SessionCache(4)
    problems = [make_problem(i + 1, 1, 1) for i in range(4)]
    for turn in range(500):
        for problem in problems:
            cache.put(problem, str(turn))
    assert cache.evicted == 0
    assert sorted(cache.kernels()) == ["499"] * 4


def test_clear() -> None:
    cache = native.SessionCache(1000)
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
    cache = native.SessionCache(1000)  # nothing is evicted
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
    report = native.hammer_session_cache(threads, 1.0, distinct, capacity)
    assert report["wrong"] == 0
    assert report["hits"] > 0
    assert report["writes"] > 0
    assert report["size"] <= capacity
    assert report["live_at_end"] == 0


def test_memory_stays_flat_without_readers() -> None:
    # One thread, which writes: every replaced entry is freed at once.
    report = native.hammer_session_cache(1, 0.5, 1000, 100)
    assert report["live_peak"] <= 110


def test_many_caches_and_threads() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        for turn in range(20):
            cache = native.SessionCache(16)
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
