"""When a choice is measured again, and that a machine which swings is not measured at each swing."""

from __future__ import annotations

import math

import pytest
import tunableop_native_tests as native

State = native.MachineState
DAY_MS = 24 * 3600 * 1000


def rules(**fields: float) -> native.StalenessRules:
    made = native.StalenessRules()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def why(then: native.MachineState, now: native.MachineState, **fields: int) -> str | None:
    reason: str | None = native.why_stale(rules(), then=then, now=now, **fields)
    return reason


# ---- age ----------------------------------------------------------------------------------------


def test_age() -> None:
    assert native.why_stale(rules(), age_ms=299_999) is None
    reason = native.why_stale(rules(), age_ms=300_000)
    assert reason == "measured 300 s ago, holds for 300 s"


@pytest.mark.parametrize(
    ("confirmations", "factor"), [(-1, 1), (0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 16), (10_000, 16)]
)
def test_confirmations_double_the_time_to_live(confirmations: int, factor: int) -> None:
    limit = 300_000 * factor
    assert native.time_to_live(rules(), confirmations) == limit
    assert native.why_stale(rules(), age_ms=limit - 1, confirmations=confirmations) is None
    assert native.why_stale(rules(), age_ms=limit, confirmations=confirmations) is not None


def test_time_to_live_zero_is_never() -> None:
    for confirmations in (0, 3):
        never = native.why_stale(rules(time_to_live_ms=0), age_ms=1000 * DAY_MS, confirmations=confirmations)
        assert never is None


def test_a_huge_time_to_live_does_not_overflow() -> None:
    huge = rules(time_to_live_ms=2**62)
    assert native.time_to_live(huge, 4) == 2**63 - 1
    assert native.why_stale(huge, age_ms=DAY_MS, confirmations=4) is None


# ---- the machine --------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "stale"), [(49.9, False), (50.0, True), (30.1, False), (30.0, True)])
def test_temperature_in_both_directions(now: float, stale: bool) -> None:
    assert (why(State(temperature_c=40.0), State(temperature_c=now)) is not None) == stale


def test_the_reason_is_for_a_person() -> None:
    assert why(State(temperature_c=40.0), State(temperature_c=52.0)) == "52 C, measured at 40 C"
    reason = why(State(clock_mhz=3400), State(clock_mhz=2400), low_clock_readings=4)
    assert reason == "2400 MHz in 4 readings, measured at 3400 MHz"
    reason = why(State(memory_fragmentation=0.1), State(memory_fragmentation=0.45))
    assert reason == "device memory is 45 % fragmented, 10 % when measured"


@pytest.mark.parametrize("readings", range(6))
def test_a_clock_must_stay_low(readings: int) -> None:
    reason = why(State(clock_mhz=3000), State(clock_mhz=2600), low_clock_readings=readings)
    assert (reason is not None) == (readings >= 3)


def test_a_clock_that_returned_is_no_reason() -> None:
    assert why(State(clock_mhz=3000), State(clock_mhz=2701), low_clock_readings=9) is None
    assert why(State(clock_mhz=3000), State(clock_mhz=3600), low_clock_readings=9) is None


def test_fragmentation_counts_once() -> None:
    healthy = State(memory_fragmentation=0.30)
    assert why(healthy, State(memory_fragmentation=0.30)) is None
    assert why(healthy, State(memory_fragmentation=0.31)) is not None
    assert why(State(memory_fragmentation=0.31), State(memory_fragmentation=0.9)) is None


@pytest.mark.parametrize("known", ["then", "now", "neither"])
def test_missing_readings_are_no_reason(known: str) -> None:
    good, bad = State(20.0, 4000.0, 0.0), State(90.0, 400.0, 1.0)
    assert why(good, bad, low_clock_readings=9) is not None
    then = good if known == "then" else State()
    now = bad if known == "now" else State()
    assert why(then, now, low_clock_readings=9) is None


def test_a_confirmed_choice_rests() -> None:
    hot = {"then": State(temperature_c=40.0), "now": State(temperature_c=60.0)}
    for confirmations, rest_s in ((0, 0), (1, 60), (2, 120), (4, 480), (9, 480)):
        for time_to_live in (300_000, 0):
            same = rules(time_to_live_ms=time_to_live)
            age = {"confirmations": confirmations, "age_ms": rest_s * 1000}
            assert native.why_stale(same, **hot, **age) is not None
            if rest_s:
                age["age_ms"] -= 1
                assert native.why_stale(same, **hot, **age) is None


# ---- machines that swing ------------------------------------------------------------------------


class Machine:
    """A choice that is measured again whenever it is stale, on a machine read once a second."""

    def __init__(self, same_winner: bool = True) -> None:
        self.same_winner = same_winner
        self.measured = State()
        self.age_ms = 0
        self.confirmations = 0
        self.times = 0  # measured again

    def second(self, now: native.MachineState, low_clock_readings: int = 0) -> None:
        self.age_ms += 1000
        reason = native.why_stale(
            rules(time_to_live_ms=0),
            age_ms=self.age_ms,
            then=self.measured,
            confirmations=self.confirmations,
            now=now,
            low_clock_readings=low_clock_readings,
        )
        if reason is not None:
            self.times += 1
            self.measured, self.age_ms = now, 0
            self.confirmations = self.confirmations + 1 if self.same_winner else 0


def swing(machine: Machine, amplitude: float, seconds: int = 3600, period: int = 60) -> int:
    """The temperature swings by `amplitude` from the lowest to the highest; how often it was measured."""
    machine.measured = State(temperature_c=50.0 - amplitude / 2)
    for second in range(seconds):
        phase = math.cos(2 * math.pi * second / period)
        machine.second(State(temperature_c=50.0 - phase * amplitude / 2))
    return machine.times


def test_a_swing_below_the_step_measures_nothing() -> None:
    assert swing(Machine(), 9.0) == 0


def test_a_swing_above_the_step_does_not_flap() -> None:
    # 120 half swings in the hour. Rests of 0, 60, 120, 240 and 480 s hold for 1 + 4 + 6 of them.
    times = swing(Machine(), 11.0)
    assert 1 <= times <= 12
    # Each further hour costs what rests of 480 s leave room for.
    assert swing(Machine(), 11.0, seconds=2 * 3600) - times <= 3600 // 480 + 1


def test_a_swing_that_changes_the_winner_is_followed() -> None:
    # Then measuring pays: what is best hot is not what is best cold.
    assert swing(Machine(same_winner=False), 11.0) >= 60


def test_a_lasting_change_is_seen_when_the_rest_is_over() -> None:
    machine = Machine()
    machine.measured, machine.confirmations = State(temperature_c=40.0), 9
    for _ in range(479):
        machine.second(State(temperature_c=60.0))
    assert machine.times == 0
    machine.second(State(temperature_c=60.0))
    assert machine.times == 1


def test_a_clock_that_comes_and_goes_is_measured_once() -> None:
    machine = Machine()
    machine.measured = State(clock_mhz=3500.0)
    low = 0
    for second in range(3600):
        clock = 2500.0 if second % 60 >= 50 else 3500.0  # ten low seconds of each minute
        low = low + 1 if clock < 0.9 * machine.measured.clock_mhz else 0
        machine.second(State(clock_mhz=clock), low_clock_readings=low)
    # Measured at the low clock, it has nothing to fall from.
    assert machine.times == 1


def test_memory_at_the_border_is_measured_once() -> None:
    machine = Machine()
    machine.measured = State(memory_fragmentation=0.2)
    for second in range(3600):
        machine.second(State(memory_fragmentation=0.35 if second % 2 else 0.25))
    assert machine.times == 1
