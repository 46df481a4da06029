"""Batches on a virtual clock: who is run when, with whom, and who is not."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest
from onnxruntime_ep_tunableop.serve.batcher import Batcher, Limits
from onnxruntime_ep_tunableop.serve.counters import Counters
from onnxruntime_ep_tunableop.serve.pace import Pace
from onnxruntime_ep_tunableop.serve.protocol import Kind, ProtocolError
from support.virtual_loop import run_virtual


class Bench:
    """A batcher whose runs take a time that is told, and are written down as (start, items)."""

    def __init__(
        self,
        *,
        takes: Callable[[Sequence[Any]], float] = lambda items: 0.010,
        instances: int = 1,
        max_batch: int = 8,
        max_delay: float = 0.002,
        queue_size: int = 100,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.takes = takes
        self.runs: list[tuple[float, list[Any]]] = []
        self.stopped: list[list[Any]] = []
        self.most_at_once = 0
        self.at_once = 0
        self.counters = Counters()
        self.batcher: Batcher[Any, Any] = Batcher(
            Limits(instances, max_batch, max_delay, queue_size), self.start, self.counters, self.loop.time
        )

    def start(self, items: Sequence[Any]) -> tuple[asyncio.Future[Sequence[Any]], Callable[[], None]]:
        future = self.loop.create_future()
        self.runs.append((self.loop.time(), list(items)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)

        def end() -> None:
            self.at_once -= 1
            future.set_result([item if isinstance(item, Exception) else (item, len(items)) for item in items])

        self.loop.call_later(self.takes(items), end)
        return future, lambda: self.stopped.append(list(items))

    def submit(
        self, item: Any, rows: int = 1, key: Hashable = "k", deadline: float | None = None
    ) -> asyncio.Task[Any]:
        return self.loop.create_task(self.batcher.submit(item, rows, key, deadline))

    @property
    def sizes(self) -> list[int]:
        return [len(items) for _, items in self.runs]

    def assert_empty(self) -> None:
        assert (self.counters.waiting, self.counters.running) == (0, 0)
        assert not self.batcher._groups
        assert not self.batcher._runs
        assert self.batcher._present == 0


async def clients(bench: Bench, count: int, rounds: int, think: float = 0.0002) -> list[float]:
    """Each asks, reads the answer, and asks again. The latencies of the second half of their requests."""
    latencies: list[float] = []

    async def client(number: int) -> None:
        for turn in range(rounds):
            began = bench.loop.time()
            answer, _ = await bench.submit((number, turn))
            assert answer == (number, turn)
            if turn >= rounds // 2:
                latencies.append(bench.loop.time() - began)
            await asyncio.sleep(think * (1 + number / count))

    await asyncio.gather(*(client(number) for number in range(count)))
    return latencies


def test_a_lone_client_is_never_held_back() -> None:
    async def main() -> None:
        bench = Bench(max_delay=1.0)
        latencies = await clients(bench, 1, 40)
        assert latencies == pytest.approx([0.010] * 20)
        assert set(bench.sizes) == {1}
        bench.assert_empty()

    run_virtual(main())


@pytest.mark.parametrize(("count", "least"), [(16, 7.0), (64, 7.9)])
def test_batches_form_from_clients_in_company(count: int, least: float) -> None:
    async def main() -> None:
        bench = Bench(takes=lambda items: 0.005 + 0.0005 * len(items))
        await clients(bench, count, 40)
        late = bench.sizes[len(bench.sizes) // 2 : -3]
        assert sum(late) / len(late) >= least, bench.sizes
        assert max(bench.sizes) <= 8
        bench.assert_empty()

    run_virtual(main())


def test_an_instance_works_while_the_next_batch_gathers() -> None:
    """Sixteen clients make two halves that take turns, not one crowd and a straggler."""

    async def main() -> None:
        bench = Bench(max_batch=32)
        await clients(bench, 16, 60)
        late = bench.sizes[len(bench.sizes) // 2 : -3]
        assert min(late) >= 6, bench.sizes

    run_virtual(main())


def test_what_comes_in_the_same_turn_of_the_loop_goes_together() -> None:
    async def main() -> None:
        bench = Bench()
        await asyncio.gather(*(bench.submit(number) for number in range(8)))
        assert bench.runs == [(0.0, list(range(8)))]

    run_virtual(main())


def test_waiting_for_company_ends_with_the_delay() -> None:
    async def main() -> None:
        bench = Bench(max_delay=0.003)
        crowd = [bench.submit(number) for number in range(8)]
        await asyncio.sleep(0.001)
        late = bench.submit("late")  # one of a crowd, as far as anybody knows
        await asyncio.gather(*crowd)
        await late
        assert bench.runs[1] == (pytest.approx(0.010 + 0.003), ["late"])
        # Nobody came: the next one who waits alone is not held.
        first = bench.submit("first")
        await asyncio.sleep(0.001)
        await asyncio.gather(first, bench.submit("second"))
        assert bench.runs[3] == (pytest.approx(bench.runs[2][0] + 0.010), ["second"])

    run_virtual(main())


def test_company_that_comes_ends_the_wait() -> None:
    async def main() -> None:
        bench = Bench(max_delay=0.005, max_batch=4)
        crowd = [bench.submit(number) for number in range(4)]
        await asyncio.sleep(0.001)
        late = [bench.submit("a")]
        await asyncio.gather(*crowd)
        await asyncio.sleep(0.001)
        late += [bench.submit("b"), bench.submit("c")]
        await asyncio.gather(*late)
        assert bench.runs[1] == (pytest.approx(0.011), ["a", "b", "c"])

    run_virtual(main())


def test_no_wait_is_longer_than_a_run() -> None:
    async def main() -> None:
        bench = Bench(takes=lambda items: 0.0004, max_delay=5.0)
        crowd = [bench.submit(number) for number in range(8)]
        await asyncio.sleep(0.0001)
        late = bench.submit("late")
        await asyncio.gather(*crowd, late)
        assert bench.runs[1] == (pytest.approx(0.0008), ["late"])

    run_virtual(main())


def test_batches_share_a_key_and_keep_the_limit() -> None:
    async def main() -> None:
        bench = Bench(max_batch=4)
        await asyncio.gather(
            bench.submit("a1", rows=2, key="a"),
            bench.submit("b1", key="b"),
            bench.submit("a2", rows=2, key="a"),
            bench.submit("alone", rows=0),
            bench.submit("a3", rows=1, key="a"),
            bench.submit("large", rows=9, key="b"),
            bench.submit("also alone", rows=0),
        )
        assert [items for _, items in bench.runs] == [
            ["a1", "a2"],
            ["b1"],
            ["alone"],
            ["a3"],
            ["large"],
            ["also alone"],
        ]
        assert bench.most_at_once == 1
        bench.assert_empty()

    run_virtual(main())


def test_instances_run_side_by_side() -> None:
    async def main() -> None:
        bench = Bench(instances=3, max_batch=1)
        await asyncio.gather(*(bench.submit(number) for number in range(7)))
        assert [start for start, _ in bench.runs] == pytest.approx([0.0] * 3 + [0.01] * 3 + [0.02])
        assert bench.most_at_once == 3

    run_virtual(main())


def test_a_full_queue_says_when_to_come_again() -> None:
    async def main() -> None:
        bench = Bench(max_batch=1, queue_size=3)
        await bench.submit("first")
        tasks = [bench.submit("runs")]
        await asyncio.sleep(0.001)
        tasks += [bench.submit(number) for number in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ProtocolError, match="3 requests wait already") as caught:
            await bench.submit("too many")
        assert caught.value.kind is Kind.BUSY
        assert caught.value.retry_after == pytest.approx(0.030)
        await asyncio.gather(*tasks)
        await bench.submit("again")
        bench.assert_empty()

    run_virtual(main())


def test_who_would_be_too_late_is_not_run() -> None:
    async def main() -> None:
        bench = Bench(max_batch=1)
        await bench.submit("first")
        now = bench.loop.time()
        running = bench.submit("running")
        in_the_queue = bench.submit("expires", deadline=now + 0.005)
        at_its_turn = bench.submit("no time for a run", deadline=now + 0.015)
        enough = bench.submit("enough", deadline=now + 0.021)
        for task, when in ((in_the_queue, 0.005), (at_its_turn, 0.010)):
            with pytest.raises(ProtocolError) as caught:
                await task
            assert caught.value.kind is Kind.DEADLINE
            assert bench.loop.time() == pytest.approx(now + when)
        await asyncio.gather(running, enough)
        with pytest.raises(ProtocolError, match="deadline"):
            await bench.submit("was over", deadline=bench.loop.time())
        assert [items for _, items in bench.runs] == [["first"], ["running"], ["enough"]]
        bench.assert_empty()

    run_virtual(main())


def test_a_run_that_passes_the_deadline_is_not_waited_for() -> None:
    async def main() -> None:
        bench = Bench(takes=lambda items: 1.0)
        task = bench.submit("slow", deadline=0.25)
        with pytest.raises(ProtocolError, match="deadline"):
            await task
        assert bench.loop.time() == pytest.approx(0.25)
        assert bench.stopped == [["slow"]]
        await bench.batcher.drain()
        bench.assert_empty()

    run_virtual(main())


def test_the_estimate_of_a_run_is_not_believed_for_ever() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.submit("slow")
        bench.takes = lambda items: 0.001
        refused = 0
        while True:
            try:
                await bench.submit("quick", deadline=bench.loop.time() + 0.003)
                break
            except ProtocolError:
                refused += 1
        assert 0 < refused < 20

    run_virtual(main())


def test_cancelled_requests_give_their_places_up() -> None:
    async def main() -> None:
        bench = Bench(max_batch=2)
        tasks = [bench.submit(number) for number in range(6)]
        await asyncio.sleep(0.001)
        for gone in (0, 1, 3, 4):  # all of the batch that runs, and two that wait
            tasks[gone].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.counters.waiting == 2
        assert bench.stopped == [[0, 1]]
        assert await tasks[2] == (2, 2)
        assert await tasks[5] == (5, 2)
        assert [items for _, items in bench.runs] == [[0, 1], [2, 5]]
        bench.assert_empty()

    run_virtual(main())


def test_a_batch_goes_on_for_those_who_stay() -> None:
    async def main() -> None:
        bench = Bench()
        tasks = [bench.submit(number) for number in range(3)]
        await asyncio.sleep(0.001)
        tasks[1].cancel()
        assert await tasks[0] == (0, 3)
        assert await tasks[2] == (2, 3)
        assert not bench.stopped

    run_virtual(main())


def test_an_error_is_one_requests_own() -> None:
    async def main() -> None:
        bench = Bench()
        wrong = ProtocolError(Kind.FAILED, "no")
        first, second, third = (bench.submit(item) for item in ("a", wrong, "b"))
        assert await first == ("a", 3)
        assert await third == ("b", 3)
        with pytest.raises(ProtocolError, match="no"):
            await second

    run_virtual(main())


def test_a_start_that_fails_blocks_nothing() -> None:
    async def main() -> None:
        bench = Bench()
        start, bench.batcher._start_run = bench.batcher._start_run, lambda items: 1 // 0
        with pytest.raises(ZeroDivisionError):
            await bench.submit("a")
        bench.batcher._start_run = start
        assert await bench.submit("b") == ("b", 1)
        bench.assert_empty()

    run_virtual(main())


def test_a_closed_one_answers_what_it_accepted_without_delay() -> None:
    async def main() -> None:
        bench = Bench(max_delay=1.0)
        crowd = [bench.submit(number) for number in range(8)]
        await asyncio.sleep(0.001)
        late = bench.submit("late")
        await asyncio.sleep(0)
        bench.batcher.close(lambda: ProtocolError(Kind.UNAVAILABLE, "closed"))
        with pytest.raises(ProtocolError, match="closed"):
            await bench.submit("after")
        await bench.batcher.drain()
        assert bench.loop.time() == pytest.approx(0.020)
        assert (await late) == ("late", 1)
        await asyncio.gather(*crowd)
        bench.assert_empty()

    run_virtual(main())


def test_giving_up_answers_everybody_now() -> None:
    async def main() -> None:
        bench = Bench(max_batch=2, takes=lambda items: 100.0)
        tasks = [bench.submit(number) for number in range(5)]
        await asyncio.sleep(0.001)
        bench.batcher.give_up(lambda: ProtocolError(Kind.UNAVAILABLE, "over"))
        for task in tasks:
            with pytest.raises(ProtocolError, match="over"):
                await task
        assert bench.loop.time() == pytest.approx(0.001)
        assert bench.stopped == [[0, 1]]
        await bench.batcher.drain()
        bench.assert_empty()

    run_virtual(main())


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_or_stuck_in_a_storm(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        bench = Bench(
            instances=chance.choice([1, 2, 3]),
            queue_size=12,
            takes=lambda items: chance.uniform(0.0005, 0.02),
        )
        ends: dict[str, int] = {}

        async def request(number: int) -> None:
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            deadline = bench.loop.time() + chance.uniform(0.0, 0.05) if chance.random() < 0.4 else None
            item = ValueError(str(number)) if chance.random() < 0.1 else number
            task = bench.submit(item, chance.choice([0, 1, 1, 1, 3, 9]), chance.choice("ab"), deadline)
            if chance.random() < 0.2:
                bench.loop.call_later(chance.uniform(0.0, 0.02), task.cancel)
            try:
                answer, _ = await task
                assert answer == number
                end = "answered"
            except ProtocolError as error:
                end = error.kind.value
            except ValueError as error:
                end = "own error" if error is item else "another's error"
            except asyncio.CancelledError:
                end = "cancelled"
            ends[end] = ends.get(end, 0) + 1

        await asyncio.gather(*(request(number) for number in range(600)))
        await bench.batcher.drain()
        bench.assert_empty()
        assert sum(ends.values()) == 600
        assert {"answered", "own error", "cancelled", "deadline"} <= ends.keys(), ends
        assert "another's error" not in ends
        for _, items in bench.runs:
            assert items

    run_virtual(main())


def test_failed_requests_leave_nothing_for_the_garbage_collector() -> None:
    """Each would hold its tensors until the collector comes."""

    class Item:
        pass

    async def main() -> None:
        bench = Bench()

        async def fail(deadline: float | None) -> None:
            try:
                await bench.batcher.submit(Item(), 1, "k", deadline)
            except (ProtocolError, ValueError):
                return
            raise AssertionError("it did not fail")

        start = bench.batcher._start_run

        def failing(items: Sequence[Any]) -> Any:
            return start([ValueError("its own error") for _ in items])

        bench.batcher._start_run = failing
        gc.collect()
        gc.disable()
        try:
            for left in (-1.0, 0.005, None):
                for _ in range(20):
                    await fail(None if left is None else bench.loop.time() + left)
            await bench.batcher.drain()
            await asyncio.sleep(0)
            bench.runs.clear()  # which hold the errors
            items = sum(isinstance(thing, Item) for thing in gc.get_objects())
        finally:
            gc.enable()
        assert items == 0

    run_virtual(main())


def test_the_pace_forgets_company_that_left() -> None:
    pace = Pace(instances=1, max_batch=32, max_delay=0.002)
    assert pace.wanted == 0
    for present in range(1, 65):
        pace.came(present)
    assert pace.wanted == 32
    for _ in range(30):
        pace.started(2)
    assert pace.wanted <= 2
    pace.in_vain(1)
    assert pace.wanted == 1
    assert pace.until_free(5) == 1.0  # nothing is known
    pace.ended(0.5)
    assert pace.patience == 0.002
    assert pace.until_free(33) == 1.0
