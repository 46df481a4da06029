"""What replicas of a server on Ray tell each other, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import matmul_model
from support.serving import QUIET, request, run_async, save, serving, settings

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
from onnxruntime_ep_tunableop.serve.counters import Counters
from onnxruntime_ep_tunableop.serve.protocol import Kind, ModelMetadata, ModelState
from onnxruntime_ep_tunableop.serve.ray.board import GONE_AFTER, LOAD, UNLOAD, Board
from onnxruntime_ep_tunableop.serve.ray.picture import Picture, Report
from onnxruntime_ep_tunableop.serve.ray.sharing import Sharing
from onnxruntime_ep_tunableop.serve.ray.traffic import Asked, Refusal
from onnxruntime_ep_tunableop.serve.settings import ModelSettings

B = np.random.default_rng(2).standard_normal((8, 5), dtype=np.float32)
KEY = ("m", "1")


def report(replica: str, state: str = "READY", requests: int = 0, orders: int = 0) -> Report:
    served = {KEY: ModelMetadata("m", ["1"], "", [], [])} if state == "READY" else {}
    counters = Counters(requests={"ok": requests}, waiting=2)
    return Report(replica, "n", 1, True, orders, [ModelState(*KEY, state)], served, {KEY: counters}, {})


def run(work: Coroutine[Any, Any, None]) -> None:
    run_async(work, 60.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_order_waits_for_every_replica_that_is_there() -> None:
    async def main() -> None:
        board = Board()
        await board.report(report("a"))
        await board.report(report("b"))
        ordered = asyncio.ensure_future(board.order(UNLOAD, "m"))
        await asyncio.sleep(0)
        for replica in ("a", "b"):
            assert not ordered.done()
            (order,) = (await board.report(report(replica))).orders
            assert (order.what, order.model) == (UNLOAD, "m")
            await board.done(replica, order.number, None)
        assert await ordered is None
        assert (await board.join()).unloaded == ["m"]
        assert not (await board.report(report("a", orders=order.number))).orders

    run(main())


def test_an_order_does_not_wait_for_a_replica_that_is_gone() -> None:
    async def main() -> None:
        clock = Clock()
        board = Board(clock=clock)
        await board.report(report("a"))
        ordered = asyncio.ensure_future(board.order(LOAD, "m"))
        await asyncio.sleep(0)
        clock.now += GONE_AFTER + 1
        assert await ordered is None

    run(main())


def test_an_order_that_could_not_be_carried_out_is_none_for_those_that_come() -> None:
    async def main() -> None:
        board = Board()
        await board.report(report("a"))
        ordered = asyncio.ensure_future(board.order(UNLOAD, "m"))
        await asyncio.sleep(0)
        await board.done("a", 1, Refusal(Kind.NOT_FOUND, "no"))
        refusal = await ordered
        assert refusal is not None
        assert refusal.error().kind is Kind.NOT_FOUND
        assert (await board.join()).unloaded == []

    run(main())


def test_a_new_board_goes_on_counting_orders() -> None:
    async def main() -> None:
        board = Board()
        await board.report(report("a", orders=7))
        ordered = asyncio.ensure_future(board.order(LOAD, "m"))
        await asyncio.sleep(0)
        assert [order.number for order in (await board.report(report("a", orders=7))).orders] == [8]
        await board.done("a", 8, None)
        await ordered

    run(main())


def test_what_a_replica_counted_stays_when_it_is_gone() -> None:
    async def main() -> None:
        clock = Clock()
        board = Board(clock=clock)
        await board.report(report("a", requests=3))
        await board.report(report("b", requests=4))
        assert (await board.look({})).picture.counters()[KEY].waiting == 4
        clock.now += GONE_AFTER + 1
        for later in (0.0, 10_000.0):  # when it may only be slow, and when it is forgotten
            clock.now += later
            await board.report(report("b", requests=5))
            picture = (await board.look({})).picture
            assert [one.replica for one in picture.replicas] == ["b"]
            counters = picture.counters()[KEY]
            assert (counters.requests, counters.waiting) == ({"ok": 8}, 2)
        await board.leave("b")
        assert (await board.look({})).picture.counters()[KEY].requests == {"ok": 8}

    run(main())


def test_replicas_take_turns_to_measure() -> None:
    async def main() -> None:
        clock = Clock()
        board = Board(clock=clock)
        assert await board.lease("cpu", "a")
        assert not await board.lease("cpu", "b")
        assert await board.lease("card", "b")
        await board.release("cpu", "b")  # not its own
        assert not await board.lease("cpu", "b")
        await board.release("cpu", "a")
        assert await board.lease("cpu", "b")
        clock.now += 60.0  # it died
        assert await board.lease("cpu", "a")

    run(main())


@pytest.mark.parametrize(
    ("states", "together"),
    [
        (("READY", "LOADING"), "LOADING"),
        (("UNAVAILABLE", "READY"), "READY"),
        (("UNAVAILABLE", "UNAVAILABLE"), "UNAVAILABLE"),
    ],
)
def test_the_state_of_all(states: tuple[str, ...], together: str) -> None:
    picture = Picture([report(str(number), state) for number, state in enumerate(states)])
    assert [state.state for state in picture.states] == [together]
    assert (picture.metadata("m", "") is not None) == ("READY" in states)


def test_deadlines_travel_as_time_that_is_left() -> None:
    asked = Asked.of(request("m", {}, deadline=1e12))
    assert asked.request.deadline is None
    here = asked.here().deadline
    assert here is not None
    assert abs(here - 1e12) < 60.0
    assert Asked.of(request("m", {})).here().deadline is None


def test_damaged_seeds_are_left_out() -> None:
    async def main() -> None:
        board = Board({"m": "{", "n": "[]"})
        assert (await board.look({})).results == {}

    run(main())


def test_machines_without_a_common_folder_share_results(tmp_path: Path) -> None:
    """Also by way of a new board, after the first was lost."""
    path = save(tmp_path, "m", matmul_model(["m", 8], None, constants={"B": B}))
    model = ModelSettings("m", path, options={"tuning": "online"}, max_batch=1, **QUIET)
    feeds = {"A": np.ones((3, 8), np.float32)}

    async def main() -> None:
        boards = [Board()]

        async def exchange(name: str, text: str | None) -> tuple[str, str | None]:
            return await boards[-1].exchange(name, text)

        told = [replace(settings(tmp_path, model), state=tmp_path / name) for name in "ab"]
        async with serving(told[0]) as first, serving(told[1]) as second:
            sharing = {engine: Sharing(exchange) for engine in (first, second)}

            async def share(engine: Any) -> bool:
                await engine.exchange()
                news = await sharing[engine]("m", engine.caches()["m"])
                await engine.exchange()
                return news

            await first.infer(request("m", feeds))
            assert first.stats()[KEY].tuned == 1
            assert not await share(first)
            boards.append(Board())
            assert sharing[first].behind((await boards[-1].report(report("a"))).versions) == ["m"]
            assert not await share(first)
            assert sharing[second].behind((await boards[-1].report(report("b"))).versions) == ["m"]
            assert await share(second)
            assert not await share(second)
            await second.infer(request("m", feeds))
            assert (second.stats()[KEY].tuned, second.stats()[KEY].hits) == (0, 1)

    run(main())
