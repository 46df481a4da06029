"""The engine whole: answers in batches and alone, failures, versions, warm-up, saving, the end."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.serve import service
from onnxruntime_ep_tunableop.serve.engine import Engine
from onnxruntime_ep_tunableop.serve.interface import Serving
from onnxruntime_ep_tunableop.serve.model import Model
from onnxruntime_ep_tunableop.serve.protocol import InferRequest, InferResponse, Kind, ProtocolError, Tensor
from onnxruntime_ep_tunableop.serve.settings import ModelSettings, ServerSettings, SettingsError
from support.graphs import graph, matmul_model, model, value
from support.serving import (
    QUIET,
    endless,
    gather,
    liar,
    plus,
    request,
    run_async,
    save,
    sentence,
    serving,
    settings,
    small_bert,
)

X = {"x": np.array([[1.0, 2.0]], np.float32)}


def only(response: InferResponse) -> Any:
    (result,) = response.outputs
    return result.data


async def outcomes(engine: Engine, requests: list[InferRequest]) -> list[Any]:
    return await asyncio.gather(*(engine.infer(asked) for asked in requests), return_exceptions=True)


def test_the_engine_is_what_front_ends_expect(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", plus(1))
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:
            front: Serving = engine
            response = await front.infer(request("m", X))
            assert (response.model, response.version, response.id) == ("m", "1", "id")
            np.testing.assert_array_equal(only(response), [[2.0, 3.0]])
            assert front.live()
            assert front.ready()
            assert front.model_ready("m")
            assert [(state.name, state.version, state.state) for state in front.index()] == [
                ("m", "1", "READY")
            ]
            for ask in (front.model_ready, front.metadata, front.tuning):
                with pytest.raises(ProtocolError, match="there is no model 'q'; there are: m") as caught:
                    ask("q")
                assert caught.value.kind is Kind.NOT_FOUND
                with pytest.raises(ProtocolError, match="no version '2' of model 'm'; there are: 1"):
                    ask("m", "2")

    run_async(main())


@pytest.mark.parametrize("stock", [False, True])
def test_batched_answers_are_those_of_requests_alone(tmp_path: Path, stock: bool) -> None:
    """Within what another order of sums gives; and bit for bit those of a single run of the whole batch."""

    async def main() -> None:
        path = save(tmp_path, "bert", small_bert())
        alone = ModelSettings("alone", path, max_batch=1, stock=stock, **QUIET)
        together = ModelSettings("together", path, max_batch=8, stock=stock, **QUIET)
        told = settings(tmp_path, alone, together)
        feeds = [sentence(1 + seed % 2, 6 + seed % 3, seed) for seed in range(36)]
        async with serving(told) as engine:
            singly = [only(await engine.infer(request("alone", feed))) for feed in feeds]
            batched = [only(it) for it in await outcomes(engine, [request("together", it) for it in feeds])]
            for feed, one, other in zip(feeds, singly, batched, strict=True):
                assert one.shape == other.shape == (*feed["input_ids"].shape, 32)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            rows = engine.counters()["together", "1"].batch
            assert rows.number < len(feeds) / 2, "batches were formed"
            assert max(bound for bound, n in zip(rows.bounds, rows.counts, strict=False) if n) <= 8
            assert set(engine.counters()["alone", "1"].requests) == {"ok"}

            same = [sentence(1, 7, seed) for seed in range(8)]
            whole = {key: np.concatenate([feed[key] for feed in same]) for key in same[0]}
            expected = only(await engine.infer(request("alone", whole)))
            parts = await outcomes(engine, [request("together", feed) for feed in same])
            np.testing.assert_array_equal(np.concatenate([only(part) for part in parts]), expected)

    run_async(main())


def test_batches_along_another_axis(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", plus(1, (2, "n")))
        async with serving(settings(tmp_path, ModelSettings("m", path, batch_axis=1))) as engine:
            feeds = [np.arange(2 * n, dtype=np.float32).reshape(2, n) for n in (1, 3, 2)]
            results = await outcomes(engine, [request("m", {"x": feed}) for feed in feeds])
            for feed, result in zip(feeds, results, strict=True):
                np.testing.assert_array_equal(only(result), feed + 1)
                assert only(result).flags.c_contiguous
            assert engine.counters()["m", "1"].batch.number == 1

    run_async(main())


def test_text_in_batches_and_bad_text_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        node = helper.make_node("Identity", ["x"], ["y"])
        kind = TensorProto.STRING
        made = model(graph([node], [value("x", ["n"], kind)], [value("y", ["n"], kind)]))
        path = save(tmp_path, "m", made)
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:
            texts = [[b"a", "ü".encode()], [b"\xff"], [b""]]
            feeds = [np.array(text, object) for text in texts]
            good, bad, empty = await outcomes(engine, [request("m", {"x": feed}) for feed in feeds])
            assert list(only(good)) == texts[0]
            assert list(only(empty)) == texts[2]
            assert isinstance(bad, ProtocolError)
            assert bad.kind is Kind.INVALID
            assert engine.counters()["m", "1"].split == 1

    run_async(main())


def test_a_request_that_fails_fails_alone(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", gather(rows=4))
        async with serving(settings(tmp_path, ModelSettings("m", path, max_batch=16))) as engine:
            for _ in range(5):  # it is the requests' fault each time: batches go on
                feeds = [np.array([number % 4 if number != 5 else 99]) for number in range(8)]
                results = await outcomes(engine, [request("m", {"x": feed}) for feed in feeds])
                for number, result in enumerate(results):
                    if number == 5:
                        assert isinstance(result, ProtocolError)
                        assert "99" in str(result)
                    else:
                        np.testing.assert_array_equal(only(result), feeds[number].astype(np.float32))
            counters = engine.counters()["m", "1"]
            assert counters.split == 5
            assert counters.requests == {"ok": 35, "invalid": 5}
            assert counters.batch.number == 5

    run_async(main())


@pytest.mark.parametrize("kind", ["cut", "run"])
def test_rows_that_turn_out_not_to_be_apart_get_no_batches_any_more(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", liar(kind))
        entry = ModelSettings("m", path, check_rows=False)
        async with serving(settings(tmp_path, entry)) as engine:
            for _ in range(6):
                results = await outcomes(engine, [request("m", X) for _ in range(4)])
                for result in results:
                    np.testing.assert_array_equal(only(result), X["x"])
            assert engine.counters()["m", "1"].split == (1 if kind == "cut" else 3)

    run_async(main())
    assert "no more batches" in caplog.text


def test_errors_of_the_request_itself(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", plus(1))
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:
            with pytest.raises(ProtocolError, match="there is no model 'other'; there are: m"):
                await engine.infer(request("other", X))
            with pytest.raises(ProtocolError, match="no version '3'"):
                await engine.infer(request("m", X, version="3"))
            with pytest.raises(ProtocolError, match="there is no input 'q'"):
                await engine.infer(request("m", {"q": X["x"]}))
            with pytest.raises(ProtocolError) as caught:
                await engine.infer(request("m", X, deadline=time.monotonic() - 1.0))
            assert caught.value.kind is Kind.DEADLINE
            np.testing.assert_array_equal(only(await engine.infer(request("m", X))), [[2.0, 3.0]])
            assert engine.counters()["m", "1"].requests == {"invalid": 1, "deadline": 1, "ok": 1}

    run_async(main())


def repository(
    folder: Path, name: str, versions: dict[int, float], config: dict[str, Any] | None = None
) -> Path:
    for version, number in versions.items():
        save(folder / name / str(version), "model", plus(number))
    if config is not None:
        (folder / name / "config.json").write_text(json.dumps(config))
    return folder


def test_versions_come_and_go_while_requests_run(tmp_path: Path) -> None:
    async def main() -> None:
        folder = repository(tmp_path / "models", "m", {1: 1.0}, {"versions": "all"})
        told = ServerSettings(repository=folder, state=tmp_path / "state")
        async with serving(told) as engine:
            stop = False
            seen: set[float] = set()

            async def client() -> None:
                while not stop:
                    seen.add(float(only(await engine.infer(request("m", X)))[0, 0]) - 1.0)

            tasks = [asyncio.create_task(client()) for _ in range(4)]
            repository(folder, "m", {2: 2.0, 10: 10.0})
            await engine.load("m")
            np.testing.assert_array_equal(only(await engine.infer(request("m", X))), [[11.0, 12.0]])
            np.testing.assert_array_equal(
                only(await engine.infer(request("m", X, version="2"))), [[3.0, 4.0]]
            )
            assert list(engine.metadata("m").versions) == ["1", "2", "10"]
            stop = True
            await asyncio.gather(*tasks)  # none failed
            assert {1.0} <= seen <= {1.0, 10.0}

            await engine.unload("m")
            assert not engine.model_ready("m")
            assert engine.ready(), "nobody wants it any more"
            with pytest.raises(ProtocolError, match="'m' is not ready: unloaded") as caught:
                await engine.infer(request("m", X))
            assert caught.value.kind is Kind.UNAVAILABLE
            assert {state.state for state in engine.index()} == {"UNAVAILABLE"}
            await engine.load("m")
            assert engine.model_ready("m", "10")
            with pytest.raises(ProtocolError, match="there is no model 'q'"):
                await engine.load("q")
            repository(folder, "new", {1: 5.0})
            await engine.load("new")
            np.testing.assert_array_equal(only(await engine.infer(request("new", X))), [[6.0, 7.0]])

    run_async(main())


def test_a_load_that_fails_leaves_what_served(tmp_path: Path) -> None:
    async def main() -> None:
        folder = repository(tmp_path / "models", "m", {1: 1.0})
        told = ServerSettings(repository=folder, state=tmp_path / "state")
        async with serving(told) as engine:
            (folder / "m" / "2").mkdir()
            (folder / "m" / "2" / "model.onnx").write_bytes(b"no model")
            with pytest.raises(ProtocolError, match="version 2 cannot be loaded"):
                await engine.load("m")
            np.testing.assert_array_equal(only(await engine.infer(request("m", X))), [[2.0, 3.0]])
            assert engine.model_ready("m", "1")
            assert [(state.version, state.state) for state in engine.index()] == [("1", "READY")]
            (folder / "m" / "config.json").write_text('{"max_bitch": 3}')
            with pytest.raises(ProtocolError, match="there is no setting 'max_bitch'"):
                await engine.load("m")
            assert engine.ready()

    run_async(main())


def test_a_model_that_cannot_be_loaded_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        bad = tmp_path / "bad.onnx"
        bad.write_bytes(b"no model")
        good = save(tmp_path, "good", plus(1))
        told = settings(tmp_path, ModelSettings("bad", bad), ModelSettings("good", good))
        engine = await Engine.start(told)
        assert not engine.ready()
        (failed,) = await engine.loaded()
        assert failed.name == "bad"
        assert "cannot be loaded" in failed.reason
        assert not engine.ready()
        assert not engine.model_ready("bad")
        assert engine.model_ready("good")
        with pytest.raises(ProtocolError, match=r"'bad' is not ready: .*cannot be loaded"):
            await engine.infer(request("bad", X))
        await engine.shut_down(10.0)

        with pytest.raises(SettingsError, match="there is no model q; there are: good"):
            await Engine.start(settings(tmp_path, ModelSettings("good", good), load=["q"]))
        with pytest.raises(SettingsError, match="No such file"):
            await Engine.start(ServerSettings(repository=tmp_path / "none", state=tmp_path))

    run_async(main())


def test_settings_of_tritons_are_not_passed_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = repository(tmp_path / "models", "a", {1: 1.0})
    repository(folder, "b", {1: 2.0}, {"max_batch": 8})
    for name in ("a", "b"):
        (folder / name / "config.pbtxt").write_text("max_batch_size: 8")

    async def main() -> None:
        async with serving(ServerSettings(repository=folder, state=tmp_path / "state")) as engine:
            assert engine.ready()

    run_async(main())
    said = [record.getMessage() for record in caplog.records if "config.pbtxt" in record.getMessage()]
    assert said == ["model 'a': config.pbtxt is Triton's and not read: what it says belongs into config.json"]


def test_only_the_models_to_load_are_loaded(tmp_path: Path) -> None:
    async def main() -> None:
        folder = repository(tmp_path / "models", "a", {1: 1.0})
        repository(folder, "b", {1: 2.0})
        told = ServerSettings(repository=folder, state=tmp_path / "state", load=["b"])
        async with serving(told) as engine:
            assert engine.ready()
            assert {state.name: state.state for state in engine.index()} == {"a": "UNAVAILABLE", "b": "READY"}
            await engine.load("a")
            assert engine.model_ready("a")

    run_async(main())


class Gate:
    """Holds the runs of a model until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        run = Model.run

        def held(model: Model, *arguments: Any) -> Any:
            self.entered.release()
            assert self.open.wait(60)
            return run(model, *arguments)

        monkeypatch.setattr(Model, "run", held)

    async def until_entered(self) -> None:
        await asyncio.to_thread(self.entered.acquire)


async def turns(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_the_end_answers_what_was_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        gate = Gate(monkeypatch)
        path = save(tmp_path, "m", plus(1))
        engine = await Engine.start(
            settings(tmp_path, ModelSettings("m", path, max_batch=2, check_rows=False))
        )
        await engine.loaded()
        tasks = [asyncio.create_task(engine.infer(request("m", X))) for _ in range(7)]
        await gate.until_entered()
        ending = asyncio.create_task(engine.shut_down(60.0))
        await turns(lambda: not engine.ready())
        await asyncio.sleep(0)
        assert engine.live()
        assert not engine.model_ready("m")
        with pytest.raises(ProtocolError, match="going down") as caught:
            await engine.infer(request("m", X))
        assert caught.value.kind is Kind.UNAVAILABLE
        with pytest.raises(ProtocolError, match="going down"):
            await engine.load("m")
        gate.open.set()
        for task in tasks:
            np.testing.assert_array_equal(only(await task), [[2.0, 3.0]])
        await ending
        assert not engine.stuck
        with pytest.raises(ProtocolError, match="going down"):
            await engine.infer(request("m", X))

    run_async(main())


def test_the_end_comes_in_the_grace_time_even_if_a_run_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        gate = Gate(monkeypatch)
        path = save(tmp_path, "m", plus(1))
        engine = await Engine.start(settings(tmp_path, ModelSettings("m", path, check_rows=False)))
        await engine.loaded()
        task = asyncio.create_task(engine.infer(request("m", X)))
        await gate.until_entered()
        await asyncio.wait_for(engine.shut_down(0.2), 30.0)
        assert engine.stuck
        assert engine.lost
        with pytest.raises(ProtocolError, match="going down"):
            await task
        gate.open.set()

    run_async(main())


def test_the_end_does_not_wait_for_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        entered, opened, left = threading.Event(), threading.Event(), threading.Event()

        def slow(model: Model, *, from_cache: bool) -> None:
            entered.set()
            assert opened.wait(60)
            left.set()

        monkeypatch.setattr(service, "warm_up", slow)
        path = save(tmp_path, "m", plus(1))
        engine = await Engine.start(settings(tmp_path, ModelSettings("m", path)))
        await asyncio.to_thread(entered.wait)
        with pytest.raises(ProtocolError, match="'m' is not ready: loading") as caught:
            await engine.infer(request("m", X))
        assert caught.value.retry_after is not None
        await asyncio.wait_for(engine.shut_down(10.0), 5.0)
        assert engine.stuck
        assert not engine.lost
        await engine.loaded()
        assert not engine.ready()
        opened.set()
        await asyncio.to_thread(left.wait)

    run_async(main())


def test_unloading_answers_what_was_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        gate = Gate(monkeypatch)
        path = save(tmp_path, "m", plus(1))
        async with serving(settings(tmp_path, ModelSettings("m", path, max_batch=1))) as engine:
            tasks = [asyncio.create_task(engine.infer(request("m", X))) for _ in range(3)]
            await gate.until_entered()
            unloading = asyncio.create_task(engine.unload("m"))
            await turns(lambda: engine.index()[0].state == "UNLOADING")
            with pytest.raises(ProtocolError, match="'m' is not ready: unloading"):
                await engine.infer(request("m", X))
            gate.open.set()
            for task in tasks:
                np.testing.assert_array_equal(only(await task), [[2.0, 3.0]])
            await unloading
            assert engine.index()[0].state == "UNAVAILABLE"

    run_async(main())


def test_a_run_that_nobody_wants_is_stopped(tmp_path: Path) -> None:
    """A loop that would take minutes."""

    async def main() -> None:
        entry = ModelSettings("m", save(tmp_path, "m", endless()), check_rows=False)
        async with serving(settings(tmp_path, entry)) as engine:
            deadline = time.monotonic() + 0.2
            with pytest.raises(ProtocolError) as caught:
                await engine.infer(request("m", {"x": np.ones(4, np.float32)}, deadline=deadline))
            assert caught.value.kind is Kind.DEADLINE
            task = asyncio.create_task(engine.infer(request("m", {"x": np.ones(4, np.float32)})))
            counters = engine.counters()["m", "1"]
            await turns(lambda: counters.running == 1 and counters.queue.number == 2)
            task.cancel()
            await turns(lambda: counters.running == 0)
            assert counters.requests == {"deadline": 1, "cancelled": 1}

    run_async(main())


MATMUL = matmul_model(["n", 64], None, constants={"B": np.ones((64, 48), np.float32)})


def test_results_are_warm_before_ready_and_saved_at_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", MATMUL)
        warm = [{"A": [1, 64]}, {"A": [4, 64]}]
        entry = ModelSettings("m", path, warm=warm, options={"max_tuning_ms": 20.0}, **QUIET)
        async with serving(settings(tmp_path, entry)) as engine:
            stats = engine.stats()["m", "1"]
            assert (stats.tuned, stats.tuning) == (2, "background")
            told = engine.tuning("m")
            assert told["stats"]["tuned"] == 2
            assert len(told["results"]["machines"][0]["entries"]) == 2
            json.dumps(told)
            await engine.infer(request("m", {"A": np.ones((4, 64), np.float32)}))
            assert engine.stats()["m", "1"].hits >= 1
        saved = json.loads((tmp_path / "state" / "m.tune.json").read_text())
        assert len(saved["machines"][0]["entries"]) == 2
        async with serving(settings(tmp_path, ModelSettings("m", path, **QUIET))) as engine:
            await engine.infer(request("m", {"A": np.ones((4, 64), np.float32)}))
            stats = engine.stats()["m", "1"]
            assert (stats.hits, stats.misses) == (1, 0)

    run_async(main())


def test_warming_from_the_cache_measures_what_was_seen(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", MATMUL)
        asked = request("m", {"A": np.ones((4, 64), np.float32)})
        record = ModelSettings("m", path, options={"tuning": "record"}, **QUIET)
        async with serving(settings(tmp_path, record)) as engine:
            await engine.infer(asked)
        async with serving(
            settings(tmp_path, ModelSettings("m", path, **QUIET), warm_from_cache=True)
        ) as engine:
            assert engine.stats()["m", "1"].tuned == 1
            await engine.infer(asked)
            assert engine.stats()["m", "1"].hits == 1
        cached = ModelSettings("m", path, options={"tuning": "cached"}, **QUIET)
        async with serving(settings(tmp_path, cached, warm_from_cache=True)) as engine:
            assert engine.stats()["m", "1"].tuned == 0

    run_async(main())


def test_warming_with_wrong_shapes_is_no_success(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", MATMUL)
        for stock in (False, True):
            entry = ModelSettings("m", path, warm=[{"A": [1, 65]}], stock=stock)
            engine = await Engine.start(settings(tmp_path, entry))
            (failed,) = await engine.loaded()
            assert "cannot be warmed: shapes: input 'A'" in failed.reason
            await engine.shut_down(10.0)

    run_async(main())


def test_replicas_learn_from_each_other_while_they_serve(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", MATMUL)
        options = {"max_tuning_ms": 20.0}
        cached = ModelSettings("m", path, options={"tuning": "cached"}, **QUIET)
        warm = ModelSettings("m", path, options=options, warm=[{"A": [4, 64]}], **QUIET)
        async with serving(settings(tmp_path, cached, save_every=0.05)) as first:
            assert first.stats()["m", "1"].entries == 0
            async with serving(settings(tmp_path, warm, save_every=0.05)) as second:
                assert second.stats()["m", "1"].tuned == 1
                await turns(lambda: len(first.tuning("m")["results"]["machines"][0]["entries"]) == 1)
            await first.infer(request("m", {"A": np.ones((4, 64), np.float32)}))
            stats = first.stats()["m", "1"]
            assert (stats.tuned, stats.hits) == (0, 1)

    run_async(main())


def test_the_stock_provider_serves_to_compare_with(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", MATMUL)
        entry = ModelSettings("m", path, stock=True, warm=[{"A": [1, 64]}])
        async with serving(settings(tmp_path, entry, save_every=0.01)) as engine:
            result = only(await engine.infer(request("m", {"A": np.ones((2, 64), np.float32)})))
            np.testing.assert_array_equal(result, np.full((2, 48), 64.0, np.float32))
            assert engine.stats() == {}
            assert "results" not in engine.tuning("m")
        assert not (tmp_path / "state").exists()

    run_async(main())


def test_an_error_of_our_own_is_the_protocols_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", plus(1))
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:

            def broken(model: Model, *arguments: Any) -> Any:
                raise MemoryError("no more")

            with monkeypatch.context() as patch:
                patch.setattr(Model, "run", broken)
                results = await outcomes(engine, [request("m", X)] * 3)
            for result in results:
                assert isinstance(result, ProtocolError)
                assert result.kind is Kind.FAILED
                assert "no more" in str(result)
            np.testing.assert_array_equal(only(await engine.infer(request("m", X))), [[2.0, 3.0]])

    run_async(main())


def test_many_clients_who_come_go_and_fail_leave_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        entry = ModelSettings("m", save(tmp_path, "m", gather(4)), max_batch=4, queue_size=6, instances=2)
        async with serving(settings(tmp_path, entry)) as engine:
            chance = np.random.default_rng(0)

            async def client(number: int) -> None:
                for turn in range(20):
                    index = int(chance.integers(0, 5))  # 4 is too large
                    deadline = time.monotonic() + 0.002 if turn % 5 == 0 else None
                    asked = request("m", {"x": np.array([index])}, deadline=deadline)
                    task = asyncio.create_task(engine.infer(asked))
                    if turn % 7 == 0:
                        asyncio.get_running_loop().call_later(0.0005, task.cancel)
                    try:
                        assert float(only(await task)[0]) == index
                    except ProtocolError as error:
                        kinds.add(error.kind)
                    except asyncio.CancelledError:
                        pass

            kinds: set[Kind] = set()
            await asyncio.gather(*(client(number) for number in range(16)))
            assert Kind.INVALID in kinds
            assert Kind.BUSY in kinds
            counters = engine.counters()["m", "1"]
            await turns(lambda: counters.running == 0)
            assert counters.waiting == 0
            assert sum(counters.requests.values()) == 16 * 20
            assert float(only(await engine.infer(request("m", {"x": np.array([3])})))[0]) == 3.0

    run_async(main())


def test_tensors_of_an_answer_are_plain(tmp_path: Path) -> None:
    async def main() -> None:
        path = save(tmp_path, "m", plus(1))
        async with serving(settings(tmp_path, ModelSettings("m", path))) as engine:
            (result,) = (await engine.infer(request("m", X))).outputs
            assert isinstance(result, Tensor)
            assert (result.datatype, result.shape) == ("FP32", (1, 2))

    assert ort.__version__
    run_async(main())
