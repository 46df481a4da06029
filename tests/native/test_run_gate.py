"""Runs in flight, holding them back, and the pacer that waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import tunableop_native_tests as native

LONG_MS = 60_000.0  # longer than a test takes


def in_thread(action: object) -> threading.Thread:
    thread = threading.Thread(target=action)  # type: ignore[arg-type]
    thread.start()
    return thread


def until(condition: object) -> None:
    end = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.001)


def test_a_hold_lets_runs_wait_until_it_is_ended() -> None:
    gate = native.Gate()
    assert gate.try_hold(LONG_MS)
    began = in_thread(gate.started)
    time.sleep(0.05)
    assert gate.in_flight == 0
    gate.end_hold(0.0)
    began.join(timeout=30)
    assert gate.in_flight == 1


def test_a_hold_ends_by_itself() -> None:
    gate = native.Gate()
    assert gate.try_hold(20.0)
    gate.started()  # returns: pytest's timeout says otherwise
    assert gate.in_flight == 1


def test_a_run_within_a_run_is_not_held_back() -> None:
    gate = native.Gate()
    gate.started()
    assert gate.try_hold(LONG_MS)
    gate.started()
    assert gate.in_flight == 2
    gate.ended()
    gate.ended()
    held = in_thread(gate.started)  # the thread's count is at its beginning again, and so is another's
    time.sleep(0.05)
    assert gate.in_flight == 0
    gate.end_hold(0.0)
    held.join(timeout=30)


def test_holds_come_no_sooner_than_was_said() -> None:
    gate = native.Gate()
    assert gate.try_hold(LONG_MS)
    assert not gate.try_hold(LONG_MS)  # another's is under way
    gate.end_hold(LONG_MS)
    assert not gate.try_hold(LONG_MS)
    gate.started()  # they are not held back meanwhile
    gate.end_hold(0.0)
    assert gate.try_hold(LONG_MS)


@contextmanager
def endless_runs(count: int = 2) -> Iterator[list[int]]:
    """Runs that overlap without end; how many there were of each thread."""
    stop = threading.Event()
    runs = [0] * count

    def serve(number: int) -> None:
        while not stop.is_set():
            native.run_started()
            time.sleep(0.01 + 0.003 * number)
            native.run_ended()
            runs[number] += 1

    native.run_started()  # of this thread: one run is always in flight, but for what a test lets go
    threads = [in_thread(lambda number=number: serve(number)) for number in range(count)]
    try:
        yield runs
    finally:
        native.run_ended()
        stop.set()
        for thread in threads:
            thread.join()


def test_without_a_share_runs_that_never_end_are_waited_for() -> None:
    pacer = native.Pacer(None, 0.0)
    with endless_runs():
        waiting = in_thread(pacer.wait_for_turn)
        time.sleep(0.5)
        assert waiting.is_alive()
        pacer.stop()
        waiting.join(timeout=30)
    assert pacer.waited_ms > 400.0


def test_with_a_share_a_turn_comes_when_the_runs_in_flight_end() -> None:
    pacer = native.Pacer(None, 0.5)
    with endless_runs() as runs:
        assert pacer.wait_for_turn()  # the first is for what is not timed
        assert pacer.disturbed()
        turn: list[bool] = []
        waiting = in_thread(lambda: turn.append(pacer.wait_for_turn()))
        time.sleep(0.3)
        assert not turn  # the run of this thread is still in flight
        native.run_ended()
        waiting.join(timeout=30)
        assert turn == [True]
        assert not pacer.disturbed()
        native.run_started()
        served = sum(runs)
        until(lambda: sum(runs) > served)  # they go on although nobody says that the turn is over


def test_a_pacer_that_is_gone_holds_nobody() -> None:
    pacer = native.Pacer(None, 0.5)
    with endless_runs() as runs:
        native.run_ended()
        assert pacer.wait_for_turn()
        assert pacer.wait_for_turn()
        del pacer
        served = sum(runs)
        until(lambda: sum(runs) > served)
        native.run_started()


def test_a_turn_is_waited_for_beyond_patience_unless_others_wait() -> None:
    """Where runs are long, the share allows holds seldom: to give up would be to begin again for ever."""
    pacer = native.Pacer(None, 0.02, patience_ms=100.0)
    with endless_runs():
        native.run_ended()
        assert pacer.wait_for_turn()
        assert pacer.wait_for_turn()  # takes some 20 ms, which are paid for by a second without
        until(pacer.disturbed)
        assert pacer.wait_for_turn()
        native.run_started()  # no turn comes any more
        turn: list[bool] = []
        waiting = in_thread(lambda: turn.append(pacer.wait_for_turn()))
        time.sleep(0.05)
        pacer.others_wait()
        waiting.join(timeout=30)
        assert turn == [False]


def test_a_hold_ends_when_the_measurement_is_no_longer_wanted() -> None:
    pacer = native.Pacer(None, 0.5)
    with endless_runs() as runs:
        assert pacer.wait_for_turn()
        turn: list[bool] = []
        waiting = in_thread(lambda: turn.append(pacer.wait_for_turn()))
        time.sleep(0.05)
        pacer.unwanted()
        waiting.join(timeout=30)
        assert turn == [False]
        assert not pacer.wait_for_turn()
        served = sum(runs)
        until(lambda: sum(runs) > served)


def test_pacers_learn_from_each_other_how_long_runs_last() -> None:
    """A hold that is too short for the runs in flight only costs."""
    with endless_runs():  # the run of this thread ends in none of the holds
        before = native.drain_ms()
        for _ in range(3):
            pacer = native.Pacer(None, 0.5)
            assert pacer.wait_for_turn()
            waiting = in_thread(pacer.wait_for_turn)
            until(lambda before=before: native.drain_ms() > max(before, 90.0))
            pacer.stop()
            waiting.join(timeout=30)
            assert native.drain_ms() >= 2 * before
            before = native.drain_ms()
