"""Which of several ways to do the same work runs: who wins, who is refused, and what stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from tuning_helpers import US, make_problem

LIKE = make_problem(6, 20, 64)
HALVES = make_problem(6, 20, 64, a_type=native.DataType.float16, b_type=native.DataType.float16,
                      c_type=native.DataType.float16)  # fmt: skip
RIGHT = np.random.default_rng(5).standard_normal((6, 20)).astype(np.float32)


def form(name: str, ms: float, *answers: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "ms": ms, "answers": list(answers) or [RIGHT], **fields}


def race(*forms: dict[str, Any], like: native.Problem = LIKE, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = native.race_forms(list(forms), like, **options)
    assert result["left"] == 0
    assert result["left_events"] == 0
    return result


@pytest.mark.parametrize("cold", [False, True])
def test_the_faster_form_runs(cold: bool) -> None:
    result = race(form("one", 20 * US), form("two", 15 * US), cold=cold)
    assert result["winner"] == "two"
    assert result["winner_ms"] == pytest.approx(15 * US, rel=0.05)
    assert result["usual_ms"] == pytest.approx(20 * US, rel=0.05)
    assert "% faster than the usual form" in result["why"]
    assert result["cold"] == cold
    assert result["refused"] == []


def test_the_usual_form_stays_where_it_is_not_beaten() -> None:
    assert race(form("one", 15 * US), form("two", 20 * US))["winner"] == "one"
    assert race(form("one", 20 * US), form("two", 20 * US))["winner"] == "one"
    assert race(form("one", 1.0), form("two", 0.95), min_gain=0.10)["winner"] == "one"
    assert race(form("one", 1.0), form("two", 0.95), min_gain=0.03)["winner"] == "two"
    assert race(form("one", 20 * US), form("two", 18 * US), form("three", 12 * US))["winner"] == "three"


def test_equal_forms_do_not_flap() -> None:
    switched = 0
    for seed in range(60):
        forms = [form(name, 20 * US, noise=0.05, seed=2 * seed + i) for i, name in enumerate(("one", "two"))]
        switched += race(*forms)["winner"] == "two"
    assert switched <= 2


def test_a_form_that_only_gains_in_the_raced_caches_is_not_taken() -> None:
    result = race(form("one", 30 * US, warm_ms=20 * US), form("two", 25 * US, warm_ms=22 * US), cold=True)
    assert result["winner"] == "one"
    assert "slower in warm caches" in result["why"]
    result = race(form("one", 30 * US, warm_ms=20 * US), form("two", 25 * US, warm_ms=20 * US), cold=True)
    assert result["winner"] == "two"


def test_a_form_that_the_host_pays_for_is_not_taken() -> None:
    """A launch takes the host 2 us."""
    one, two = form("one", 12 * US), form("two", 10 * US, launches=3)
    result = race(one, two, launched=True)
    assert result["winner"] == "one"
    assert "but takes 0.006 ms of the host's time, and the usual form 0.002 ms" in result["why"]
    assert race(one, two)["winner"] == "two", "in a graph nobody launches it"
    assert race(one, form("two", 10 * US), launched=True)["winner"] == "two"
    assert race(form("one", 120 * US), form("two", 100 * US, launches=3), launched=True)["winner"] == "two"
    assert race(form("one", 12 * US, launches=3), form("two", 10 * US), launched=True)["winner"] == "two"


def spoilt(by: float, at: tuple[int, int] = (3, 7)) -> Any:
    answer = RIGHT.copy()
    answer[at] += by
    return answer


@pytest.mark.parametrize("wrong", [spoilt(0.1), spoilt(np.nan), spoilt(np.inf), RIGHT * 1.01])
def test_a_form_with_other_answers_is_refused(wrong: Any) -> None:
    result = race(form("one", 20 * US), form("two", 10 * US, wrong))
    assert result["winner"] == "one"
    assert len(result["refused"]) == 1
    assert result["refused"][0].startswith("two: answer 0, row ")
    assert result["calls"][1] == 1
    assert race(form("one", 20 * US), form("two", 10 * US, wrong), verify=False)["winner"] == "two"


def test_what_is_not_written_is_another_answer() -> None:
    """Who runs second finds poison there, and not what the first one left."""
    result = race(form("one", 20 * US, RIGHT), form("two", 10 * US, RIGHT[:5]))
    assert result["winner"] == "one"
    assert "row 5, column 0: no number" in result["refused"][0]


def test_rounding_is_no_other_answer() -> None:
    near = RIGHT * (1 + 3e-7 * np.sin(np.arange(RIGHT.size)).reshape(RIGHT.shape).astype(np.float32))
    assert race(form("one", 20 * US), form("two", 10 * US, near.astype(np.float32)))["winner"] == "two"
    half = RIGHT.astype(np.float16)
    near = np.nextafter(half, np.float16(9))
    assert race(form("one", 20 * US, half), form("two", 10 * US, near), like=HALVES)["winner"] == "two"
    assert race(form("one", 20 * US, half), form("two", 10 * US, half * np.float16(1.1)), like=HALVES)[
        "refused"
    ]
    infinite = RIGHT.copy()
    infinite[0, :2] = np.inf, np.nan
    assert race(form("one", 20 * US, infinite), form("two", 10 * US, infinite))["winner"] == "two"


def test_all_answers_are_compared() -> None:
    rows = np.ones((3, 4), np.float32)
    result = race(form("one", 20 * US, RIGHT, rows), form("two", 10 * US, RIGHT, rows * 2))
    assert result["winner"] == "one"
    assert result["refused"][0].startswith("two: answer 1, row 0, column 0: 2, and 1 in the usual form")


def test_of_large_answers_pieces_are_compared() -> None:
    large = np.random.default_rng(2).standard_normal((4096, 64)).astype(np.float32)
    assert race(form("one", 1.0, large), form("two", 0.5, large), max_ms=1000)["winner"] == "two"
    for row in (0, 4095):
        wrong = large.copy()
        wrong[row, 63] += 1
        result = race(form("one", 1.0, large), form("two", 0.5, wrong), max_bytes=1 << 18, max_ms=1000)
        assert f"row {row}, column 63" in result["refused"][0]


def test_a_form_that_fails_is_refused() -> None:
    result = race(form("one", 20 * US), form("two", 10 * US, defect="error"))
    assert result["winner"] == "one"
    assert result["refused"] == ["two: simulated failure"]
    result = race(form("one", 20 * US), form("two", 10 * US, defect="error", after=12))
    assert result["winner"] == "one"
    assert result["refused"] == ["two: simulated failure"]
    assert race(form("one", 20 * US, defect="error"), form("two", 10 * US))["error"] == "simulated failure"


@pytest.mark.parametrize("after", [0, 3, 20])
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("defect", ["hangs", "loses_card"])
def test_what_ends_the_card_is_an_error(defect: str, who: int, after: int) -> None:
    forms = [form("one", 20 * US), form("two", 10 * US)]
    forms[who] |= {"defect": defect, "after": after}
    result: dict[str, Any] = native.race_forms(forms, LIKE)
    assert "error" in result
    assert sum(result["calls"]) <= 2 * (after + 80)


def test_the_budget_holds() -> None:
    result = race(form("one", 20.0), form("two", 10.0), max_ms=50.0)
    assert result["winner"] == "one"
    assert "too much for a budget of 50 ms" in result["why"]
    assert result["spent_ms"] < 50.0 + 50.0  # two calls of the usual form
    for budget in (2.0, 5.0, 20.0):
        result = race(form("one", 0.1), form("two", 0.05), max_ms=budget)
        assert result["spent_ms"] < budget + 1.0


def test_nothing_is_measured_while_a_graph_is_captured() -> None:
    result = race(form("one", 1.0), form("two", 0.5), card={"capturing": True})
    assert result["error"] == "a graph is being captured"
    assert result["calls"] == [0, 0]


def test_what_was_queued_before_costs_none_of_the_budget() -> None:
    result = race(form("one", 20 * US), form("two", 10 * US), card={"busy_ms": 500.0}, max_ms=20)
    assert result["winner"] == "two"


# ---- what is known of shapes --------------------------------------------------------------------

SHAPE = "M=5,N=7,fp16,tf32"


def test_a_shape_is_looked_at_until_it_is_settled() -> None:
    choices = native.FormChoices()
    assert choices.find(5, 7) is None
    assert choices.add(5, 7, 0)
    assert choices.find(5, 7) == -1
    assert choices.find(7, 5) is None
    assert choices.adopt(5, 7) == (False, False, "")
    assert choices.put(5, 7, 1, 1.5)
    assert choices.find(5, 7) == 1
    assert choices.records() == [f"{SHAPE}: two"]
    assert choices.views() == [f"{SHAPE}: two, why"]
    choices.unsettle()
    assert choices.find(5, 7) == 1, "what was measured stays"
    assert not choices.put(5, 7, 1, 1.0), "the same form again is no change"


def test_what_was_not_measured_is_not_kept() -> None:
    choices = native.FormChoices()
    assert not choices.put(5, 7, 0, 0.0)
    assert choices.find(5, 7) == 0
    assert choices.records() == []


def test_what_is_handed_over_is_taken_when_it_is_wanted() -> None:
    choices = native.FormChoices()
    choices.take(SHAPE, "two")
    assert choices.find(5, 7) is None
    assert choices.adopt(5, 7) == (True, True, "")
    assert choices.find(5, 7) == 1
    choices.take("M=8,fp16,tf32", "two")  # of another one
    assert choices.find(5, 7) == 1
    choices.take(SHAPE, "one")
    assert choices.find(5, 7) == -2
    assert choices.adopt(5, 7) == (True, True, "")
    assert choices.find(5, 7) == 0
    assert sorted(choices.records()) == ["M=5,N=7,fp16,tf32: one", "M=8,fp16,tf32: two"]


def test_what_is_handed_over_meanwhile_is_not_settled_away() -> None:
    choices = native.FormChoices()
    assert choices.adopt(5, 7) == (False, False, "")
    choices.settle_unknown(5, 7)
    assert choices.find(5, 7) == 0
    choices.unsettle()
    assert choices.adopt(5, 7) == (False, False, "")
    choices.take(SHAPE, "two")  # by another thread, behind that look
    choices.settle_unknown(5, 7)
    assert choices.find(5, 7) == -1
    assert choices.adopt(5, 7) == (True, True, "")


def test_a_form_that_the_group_does_not_have_is_refused_once() -> None:
    choices = native.FormChoices()
    choices.take(SHAPE, "three")
    adopted, changed, refused = choices.adopt(5, 7)
    assert (adopted, changed) == (False, False)
    assert refused.startswith(f"form (Group, {SHAPE}): field 'form': expected one that the group has")
    assert choices.adopt(5, 7) == (False, False, "")
    assert choices.records() == []


def test_there_is_room_for_so_many() -> None:
    choices = native.FormChoices()
    most = native.FormChoices.most
    assert all(choices.add(m, 1, 1) for m in range(most))
    assert not choices.add(most, 1, 0)
    assert choices.add(most - 1, 1, 1)
    assert choices.find(most, 1) is None
    assert all(choices.find(m, 1) == -2 for m in range(most))
