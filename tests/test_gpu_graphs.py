"""Runs captured into graphs through ONNX Runtime, with numbers that the caller gives."""

from __future__ import annotations

import gc
import threading

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.captured import Bound, answer, captures, chain, numbered, whole
from support.cards import BOTH, card_session, count, faults, on_card
from support.cards import value_on_card as on_the_card

RNG = np.random.default_rng(1)


def graphs(session: ort.InferenceSession) -> tunableop.GraphStats:
    return tunableop.stats(session).graphs


@captures
@on_card("cuda12", "cuda13", "rocm6", "rocm7", "rocm10")
def test_a_chain_is_captured_within_the_first_run_and_replayed_from_then_on() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    memory = 0
    for run in range(5):
        x = whole(RNG, 8)
        assert np.array_equal(bound.run(x), answer(x)), run
        assert count("captures") == 1, run
        assert count("graph_launches") == run + 1
        memory = memory or count("mallocs")
        assert count("mallocs") == memory, "a replay allocates nothing"
    x = whole(RNG, 3)
    assert np.array_equal(session.run(None, {"X": x})[0], answer(x)), "without a number: without a graph"
    assert count("graph_launches") == 5
    assert graphs(session).replayed == 4
    assert count("misuse") == 0


@captures
@on_card("cuda13")
def test_nothing_is_captured_unless_it_is_asked_for() -> None:
    session = card_session(chain())
    asked = card_session(chain(), enable_graph=1)
    x = whole(RNG, 8)
    for made, number in ((session, 1), (asked, -1), (asked, 0)):
        bound = Bound(made, 8, number)
        for _ in range(4):
            assert np.array_equal(bound.run(x), answer(x))
    assert count("captures") == 0
    assert not graphs(session).enabled
    with pytest.raises(Exception, match=r"gpu_graph_id': expected -1 or 0 .* or a number from 1, found '-7'"):
        asked.run(None, {"X": x}, numbered(-7))
    assert np.array_equal(asked.run(None, {"X": x})[0], answer(x))


@on_card("cuda13")
def test_options_are_checked() -> None:
    for name, value, words in (
        ("enable_graph", 2, "0 or 1"),
        ("max_graphs", 0, "from 1 to 4096"),
        ("graph_memory", -1, "from 0"),
    ):
        with pytest.raises(tunableop.OptionError, match=f"{name}.*{words}"):
            tunableop.InferenceSession(chain(), **{name: value})


@captures
@on_card(*BOTH)
def test_graphs_of_several_numbers_and_plain_runs_share_a_session() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = [Bound(session, rows, rows) for rows in (1, 4, 9)]
    for _ in range(60):
        one = bound[RNG.integers(len(bound))]
        x = whole(RNG, one.x.shape()[0])
        if RNG.random() < 0.3:
            assert np.array_equal(session.run(None, {"X": x})[0], answer(x))
        else:
            assert np.array_equal(one.run(x), answer(x))
    assert graphs(session).captured == 3


@captures
@on_card(*BOTH)
def test_threads_with_a_number_each_do_not_meet() -> None:
    session = card_session(chain(), enable_graph=1, max_graphs=8)
    wrong: list[int] = []

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        bound = Bound(session, number, number)
        for _ in range(60):
            x = whole(rng, number)
            if not np.array_equal(bound.run(x), answer(x)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert graphs(session).captured == 5
    assert count("misuse") == 0


@captures
@on_card("cuda13")
def test_what_is_on_the_host_makes_a_run_without_a_graph() -> None:
    """ONNX Runtime would not copy it at a replay."""
    session = card_session(chain(), enable_graph=1)
    for _ in range(4):
        x = whole(RNG, 8)
        assert np.array_equal(session.run(None, {"X": x}, numbered(1))[0], answer(x))
    binding = session.io_binding()
    for _ in range(4):
        x = whole(RNG, 8)
        binding.bind_ortvalue_input("X", on_the_card(x))
        binding.bind_output("Y", "cpu")
        session.run_with_iobinding(binding, numbered(2))
        assert np.array_equal(binding.copy_outputs_to_cpu()[0], answer(x))
    assert count("captures") == 0
    (reason,) = graphs(session).refused
    assert "bind inputs and outputs on the card" in reason
    assert graphs(session).refused[reason] == 2


@captures
@on_card(*BOTH)
def test_the_least_recently_used_graph_makes_room() -> None:
    session = card_session(chain(), enable_graph=1, max_graphs=2)
    bound = {number: Bound(session, 8, number) for number in (1, 2, 3)}
    for number in (1, 2, 1, 3, 1, 2):
        x = whole(RNG, 8)
        assert np.array_equal(bound[number].run(x), answer(x)), number
    stats = graphs(session)
    assert (stats.captured, stats.evicted, stats.alive) == (4, 2, 2)
    assert count("graphs_destroyed") == 2


@captures
@on_card("cuda13")
def test_graphs_take_no_more_memory_than_they_may() -> None:
    one = card_session(chain(), enable_graph=1)
    Bound(one, 1000, 1).run(whole(RNG, 1000))
    each = graphs(one).bytes
    assert each > 0
    session = card_session(chain(), enable_graph=1, graph_memory=int(2.5 * each))
    for number in range(1, 7):
        bound = Bound(session, 1000, number)
        for _ in range(2):
            x = whole(RNG, 1000)
            assert np.array_equal(bound.run(x), answer(x))
        assert graphs(session).bytes <= 2.5 * each
    assert graphs(session).evicted == 4
    small = card_session(chain(), enable_graph=1, graph_memory=each - 1)
    bound = Bound(small, 1000, 1)
    for _ in range(3):
        x = whole(RNG, 1000)
        assert np.array_equal(bound.run(x), answer(x))
    assert list(graphs(small).refused) == ["its memory is more than graph_memory allows"]
    assert graphs(small).bytes == 0


@captures
@on_card("cuda13")
def test_nobody_else_gets_what_a_graph_writes_to() -> None:
    """What ONNX Runtime allocates for a plain run's outputs stays as it is while graphs are replayed."""
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    bound.run(whole(RNG, 8))
    kept = []
    for run in range(12):
        x = whole(RNG, 8)
        binding = session.io_binding()
        binding.bind_ortvalue_input("X", on_the_card(x))
        binding.bind_output("Y", "cuda")
        session.run_with_iobinding(binding, numbered(-1) if run % 2 else None)
        kept.append((binding.get_outputs()[0], answer(x)))
        other = whole(RNG, 8)
        assert np.array_equal(bound.run(other), answer(other))
    for value, expected in kept:
        assert value.device_name() != "cpu"
        assert np.array_equal(value.numpy(), expected)


@captures
@on_card("cuda13", "rocm7")
def test_a_kernel_that_fails_while_it_is_captured_fails_its_run_alone() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    x = whole(RNG, 8)
    for nth in (1, 3, 5):
        faults(f"capture_refuses:{nth}")
        with pytest.raises(Exception, match="MatMul"):
            bound.run(x)
        assert graphs(session).alive == 0
        faults("")
        for _ in range(2):
            x = whole(RNG, 8)
            assert np.array_equal(bound.run(x), answer(x))
        session = card_session(chain(), enable_graph=1)
        bound = Bound(session, 8, 1)
    faults("capture_refuses")
    for _ in range(2):
        with pytest.raises(Exception, match="MatMul"):
            bound.run(x)
    for _ in range(3):
        x = whole(RNG, 8)
        assert np.array_equal(bound.run(x), answer(x))
    stats = graphs(session)
    assert (stats.discarded, stats.captured) == (2, 0)
    assert stats.refused == {"a kernel failed whenever it was recorded": 1}


@captures
@on_card(*BOTH)
def test_a_kernel_that_fails_before_leaves_no_part_of_a_graph() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    x = whole(RNG, 8)
    faults("not_supported")
    for _ in range(4):
        with pytest.raises(Exception, match="MatMul"):
            bound.run(x)
    faults("")
    assert count("captures") == 0
    assert np.array_equal(bound.run(x), answer(x))
    assert graphs(session).captured == 1


@captures
@on_card(*BOTH)
def test_where_capturing_does_not_work_the_model_runs_all_the_same() -> None:
    for number, fault in enumerate(("capture_spoilt", "no_instance", "no_graph_launch"), 1):
        session = card_session(chain(), enable_graph=1)
        bound = Bound(session, 8, number)
        faults(fault)
        for _ in range(3):
            x = whole(RNG, 8)
            assert np.array_equal(bound.run(x), answer(x)), fault
        faults("")
        x = whole(RNG, 8)
        assert np.array_equal(bound.run(x), answer(x)), fault
        stats = graphs(session)
        assert (stats.captured, stats.discarded) == (0, 2), fault
        assert sum(stats.refused.values()) == 1


@captures
@on_card(*BOTH)
def test_a_session_goes_with_its_graphs() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = [Bound(session, 8, number) for number in (1, 2)]
    x = whole(RNG, 8)
    for one in bound:
        assert np.array_equal(one.run(x), answer(x))
    assert count("graphs_destroyed") == 0
    del session, one, bound
    gc.collect()
    assert count("graphs") == count("graphs_destroyed") == 2
    other = card_session(chain(), enable_graph=1)
    assert np.array_equal(Bound(other, 8, 1).run(x), answer(x))


@captures
@on_card("cuda13")
def test_nodes_in_parallel_are_captured_whole_or_not_at_all() -> None:
    settings = ort.SessionOptions()
    settings.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    settings.inter_op_num_threads = 3
    session = card_session(chain(("h1", "Y")), settings=settings, enable_graph=1)
    bound = Bound(session, 8, 1)
    bound.binding.bind_ortvalue_output("h1", on_the_card(np.zeros((8, 24), np.float32)))
    for _ in range(4):
        x = whole(RNG, 8)
        assert np.array_equal(bound.run(x), answer(x))


@captures
@on_card("cuda13")
def test_a_lost_card_is_told_and_does_not_hang_the_end() -> None:
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    x = whole(RNG, 8)
    assert np.array_equal(bound.run(x), answer(x))
    faults("lost:3")
    with pytest.raises(Exception, match="cuda:0"):
        bound.run(x)
    with pytest.raises(Exception, match="cuda:0 is lost"):
        bound.run(x)
    del session, bound
    gc.collect()
