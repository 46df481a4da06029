"""What a card needs some time for when it is first used, on a thread of its own."""

from __future__ import annotations

import os
import threading

import tunableop_native_tests as native
from test_run_gate import until


def test_each_step_is_done_once_however_often_it_is_asked_for() -> None:
    warm_up = native.WarmUp()
    threads = [threading.Thread(target=lambda: [warm_up.ask(i) for i in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: len(warm_up.begun) == 5)
    warm_up.end()
    assert sorted(warm_up.begun) == [0, 1, 2, 3, 4]


def test_those_that_wait_are_done_in_order_and_a_thread_begins_anew_when_there_are_more() -> None:
    warm_up = native.WarmUp()
    warm_up.hold(True)
    warm_up.ask(4)
    until(lambda: warm_up.begun == [4])
    for step in (9, 2, 4, 3):
        warm_up.ask(step)
    warm_up.hold(False)
    until(lambda: warm_up.begun == [4, 2, 3, 9])
    warm_up.ask(1)
    until(lambda: warm_up.begun == [4, 2, 3, 9, 1])


def test_a_step_that_fails_stops_no_other() -> None:
    warm_up = native.WarmUp()
    warm_up.hold(True)
    warm_up.ask(7)
    warm_up.ask(8)
    warm_up.hold(False)
    until(lambda: warm_up.begun == [7, 8])


def test_the_end_waits_for_the_step_that_runs_and_drops_the_others() -> None:
    warm_up = native.WarmUp()
    warm_up.hold(True)
    warm_up.ask(0)
    until(lambda: warm_up.begun == [0])
    warm_up.ask(1)
    ending = threading.Thread(target=warm_up.end)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive(), "it does not wait"
    warm_up.hold(False)
    ending.join(30)
    assert not ending.is_alive()
    warm_up.ask(2)
    assert warm_up.begun == [0]


def test_a_child_of_fork_begins_nothing_and_waits_for_nothing() -> None:
    warm_up = native.WarmUp()
    warm_up.hold(True)
    warm_up.ask(0)
    until(lambda: warm_up.begun == [0])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            warm_up.ask(1)
            warm_up.end()  # that thread is not here
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    warm_up.hold(False)
    warm_up.end()
    assert warm_up.begun == [0]
