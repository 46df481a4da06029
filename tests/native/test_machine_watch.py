"""MachineWatch: how often it reads, what it remembers of the clock."""

from __future__ import annotations

import pytest
import tunableop_native_tests as native

State = native.MachineState


def watched(*clocks: float | None, idle: tuple[int, ...] = ()) -> native.MachineWatch:
    """A watch that has read these clocks, a second apart; `idle`: which of them while nothing ran."""
    watch = native.MachineWatch()
    for index, clock in enumerate(clocks):
        watch.show(State(clock_mhz=clock))
        assert watch.poll(idle=index in idle)
        watch.advance(1000)
    return watch


def test_reads_once_an_interval() -> None:
    watch = native.MachineWatch(interval_ms=1000)
    watch.show(State(40.0, 3000.0, 0.1))
    assert watch.state().temperature_c is None
    assert watch.poll()
    state = watch.state()
    assert (state.temperature_c, state.clock_mhz, state.memory_fragmentation) == (40.0, 3000.0, 0.1)
    watch.show(State(50.0, 2000.0, 0.2))
    for _ in range(9):
        watch.advance(100)
        assert not watch.poll()
    assert watch.state().temperature_c == 40.0
    watch.advance(100)
    assert watch.poll()
    assert watch.state().temperature_c == 50.0
    assert watch.reads == 2


def test_low_clocks_in_a_row() -> None:
    assert watched().low_clock_readings(3000) == 0
    assert watched(2000).low_clock_readings(None) == 0
    assert watched(3000, 2000, 2000).low_clock_readings(3000) == 2
    assert watched(2000, 2000, 3000).low_clock_readings(3000) == 0
    assert watched(2000, 3000, 2000).low_clock_readings(3000) == 1


def test_each_choice_has_a_reference_of_its_own() -> None:
    watch = watched(2600, 2600, 2600)
    assert watch.low_clock_readings(3000) == 3
    assert watch.low_clock_readings(2800) == 0  # 2600 is above 90 % of it
    assert watch.low_clock_readings(2800, drop=0.05) == 3


def test_the_latest_readings_are_remembered() -> None:
    assert watched(*[2000.0] * 40).low_clock_readings(3000) == 16
    assert watched(*[3000.0] * 40, 2000.0, 2000.0).low_clock_readings(3000) == 2


def test_an_idle_processor_is_not_slow() -> None:
    watch = watched(3000, 800, 800, 800, 800, idle=(1, 2, 3, 4))
    assert watch.low_clock_readings(3000) == 0
    assert watch.state().clock_mhz == 3000
    # Idling neither ends nor feeds a row.
    assert watched(2000, 800, 2000, 2000, idle=(1,)).low_clock_readings(3000) == 3


def test_temperature_counts_when_idle() -> None:
    watch = native.MachineWatch()
    watch.show(State(temperature_c=30.0))
    watch.poll(idle=True)
    assert watch.state().temperature_c == 30.0


def test_a_reading_that_fails_counts_for_nothing() -> None:
    watch = watched(2000, 2000, None)
    assert watch.state().clock_mhz is None
    assert watch.low_clock_readings(3000) == 2


def test_a_measured_clock_takes_the_place_of_the_reading() -> None:
    watch = watched(2300, 2300, 2300)  # what a virtual machine says, always
    watch.feed_clock(3400)
    assert watch.state().clock_mhz == 3400
    assert watch.low_clock_readings(3400) == 0
    assert watch.poll()
    assert watch.state().clock_mhz == 3400
    for _ in range(3):
        watch.feed_clock(2500)
    assert watch.low_clock_readings(3400) == 3


@pytest.mark.parametrize("clock", [0.0, -1.0, float("nan"), float("inf")])
def test_nonsense_is_not_fed(clock: float) -> None:
    watch = watched(3000)
    watch.feed_clock(clock)
    assert watch.state().clock_mhz == 3000


def test_without_sensors() -> None:
    watch = native.MachineWatch(with_sensors=False)
    assert not watch.poll()
    assert watch.missing() == []
    watch.feed_clock(3000)
    assert watch.state().clock_mhz == 3000


def test_a_choice_gets_stale_when_the_clock_stays_low() -> None:
    watch = native.MachineWatch()
    then = State(clock_mhz=3000)
    seen = []
    for clock in (3000, 2000, 2000, 3000, 2000, 2000, 2000):
        watch.show(State(clock_mhz=clock))
        watch.poll()
        watch.advance(1000)
        low = watch.low_clock_readings(then.clock_mhz)
        why = native.why_stale(native.StalenessRules(), then=then, now=watch.state(), low_clock_readings=low)
        seen.append(why is not None)
    assert seen == [False] * 6 + [True]


def test_many_threads() -> None:
    watch = native.MachineWatch(interval_ms=0)
    assert watch.hammer(threads=4, rounds=2000)
