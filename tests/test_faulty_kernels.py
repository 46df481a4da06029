"""Kernels with defects, loaded into real sessions: never elected, never harmful, always named."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import pytest
from support.built import built
from support.process import run_python

# `tempting` is faster than every honest kernel, so that only the defect of the others keeps them out.
SCRIPT = """
one_thread = ort.SessionOptions()
one_thread.intra_op_num_threads = 1
K, N = 256, 250  # N has a tail
rng = np.random.default_rng(7)
WEIGHT = rng.standard_normal((K, N), dtype=np.float32)

def make(weight=True, **options):
    model = matmul_model(["m", K], [K, N], constants={"B": WEIGHT} if weight else None)
    return tunableop.InferenceSession(model, one_thread, **({"max_tuning_ms": 1000.0} | options))

def check(session, m=96, times=4, weight=True):
    for _ in range(times):
        a = rng.standard_normal((m, K), dtype=np.float32)
        y = session.run(None, {"A": a} if weight else {"A": a, "B": WEIGHT})[0]
        np.testing.assert_allclose(y, a.astype(np.float64) @ WEIGHT, rtol=1e-4, atol=1e-4)

def kernel(session):
    (shape,) = tunableop.explain(session).shapes
    return shape.kernel

def notes(session, name):
    return [note for note in tunableop.explain(session).notes if f"faulty:{name} " in note]
"""

#: What is known to be at fault, and the words with which it is told.
DENIED = {
    "wrong_element": "wrong answer: row 48, column 0: got",
    "wrong_tail": "wrong answer: row 95, column 249: got 0, expected",
    "nan_on_negative": "wrong answer: row 0, column 0: got nan, expected",
    "out_of_bounds": "wrong answer: wrote outside of C",
    "out_of_bounds_before": "wrong answer: wrote outside of C",
    "failing": "returned an error: faulty:failing returned 3",
    "failing_later": "returned an error: faulty:failing_later returned 3",
}
#: Right, and not faster in the long run.
USELESS = ["right", "slow", "noisy", "fast_then_slow"]


@pytest.fixture(scope="session")
def faulty() -> str:
    return str(built("libtunableop_faulty.so"))


def run(faulty: str, kernels: str, script: str, check: bool = True):
    environment = os.environ | {"TUNABLEOP_CANDIDATE_LIBRARIES": faulty, "FAULTY_KERNELS": kernels}
    return run_python(SCRIPT + textwrap.dedent(script), env=environment, check=check)


@pytest.mark.parametrize("weight", [True, False], ids=["weight", "plain"])
def test_the_kernel_that_the_defects_stand_on_would_be_elected(faulty: str, weight: bool) -> None:
    """What makes the other tests mean something; and a kernel of one's own is used when it is good."""
    script = f"""
    session = make({weight})
    check(session, weight={weight})
    assert kernel(session) == "faulty:quick", tunableop.explain(session)
    assert tunableop.explain(session).shapes[0].default_kernel.startswith("native:")
    assert tunableop.stats(session).denied == 0
    check(session, m=7, weight={weight})
    """
    run(faulty, "quick", script)


@pytest.mark.parametrize("name", DENIED)
def test_a_wrong_kernel_is_denied_and_named(faulty: str, name: str) -> None:
    script = f"""
    session = make()
    check(session)
    assert not kernel(session).startswith("faulty:"), tunableop.explain(session)
    (note,) = notes(session, {name!r})
    assert "rejected: " + {DENIED[name]!r} in note, note
    assert tunableop.stats(session).denied == 1
    assert tunableop.stats(session).rejected == {{{DENIED[name].split(":")[0]!r}: 1}}
    check(session, m=33)
    """
    run(faulty, name, script)


def test_a_tail_that_is_wrong_is_found_where_there_is_one(faulty: str) -> None:
    """It may be elected where it is right, and is dropped everywhere when it is wrong."""
    script = """
    N = 256
    WEIGHT = np.concatenate([WEIGHT, WEIGHT[:, :6]], axis=1)
    session = make()
    check(session)
    assert kernel(session) == "faulty:wrong_tail", tunableop.explain(session)
    check(session, m=95)
    assert "wrong answer: row 94" in notes(session, "wrong_tail")[0]
    check(session)
    assert all(not shape.kernel.startswith("faulty:") for shape in tunableop.explain(session).shapes)
    """
    run(faulty, "wrong_tail", script)


@pytest.mark.parametrize("name", USELESS)
def test_a_kernel_that_only_looks_fast_is_not_elected(faulty: str, name: str) -> None:
    script = """
    session = make()
    check(session)
    assert not kernel(session).startswith("faulty:"), tunableop.explain(session)
    assert tunableop.stats(session).denied == 0
    """
    run(faulty, name, script)


def test_all_of_them_at_once_leave_the_one_that_is_good(faulty: str) -> None:
    script = f"""
    session = make()
    check(session)
    assert kernel(session) == "faulty:quick", tunableop.explain(session)
    for name in {list(DENIED)}:
        assert notes(session, name), name
    assert tunableop.stats(session).denied == {len(DENIED)}
    """
    run(faulty, ",".join([*DENIED, *USELESS, "quick"]), script)


def test_nothing_is_loaded_unasked_and_nothing_gives_the_default(faulty: str) -> None:
    script = """
    (device,) = tunableop.devices()
    assert device.libraries["faulty"].startswith("1+"), device
    for tuning in ("off", "cached"):
        session = make(tuning=tuning)
        check(session)
        assert kernel(session).startswith("native:")
    """
    run(faulty, "wrong_element", script)
    run_python('assert "faulty" not in tunableop.devices()[0].libraries')


# ---- kernels that do not come back ---------------------------------------------------------------


def test_a_kernel_that_hangs_is_given_up(faulty: str) -> None:
    script = """
    import faulthandler
    faulthandler.dump_traceback_later(30, exit=True)
    session = make()
    check(session)
    assert not kernel(session).startswith("faulty:")
    (note,) = notes(session, "hanging")
    assert "rejected: did not return within 2 s" in note
    assert tunableop.stats(session).rejected == {"did not return": 1}
    check(session, m=33)
    """
    run(faulty, "hanging", script)


@pytest.mark.parametrize("name", ["crashing", "crashing_later"])
def test_a_kernel_that_kills_its_process_is_not_tried_by_the_next(
    faulty: str, name: str, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache.json")
    first = run(faulty, name, f"check(make(cache={cache!r}))", check=False)
    assert first.returncode == -signal.SIGSEGV, first.stderr
    script = f"""
    session = make(cache={cache!r})
    check(session)
    assert not kernel(session).startswith("faulty:")
    found = notes(session, {name!r})
    assert any("denied: a process ended while it ran" in note for note in found), found
    check(session, m=33)
    """
    run(faulty, name, textwrap.dedent(script) + "assert tunableop.stats(session).rejected['denied'] >= 1\n")
    # What one process died of stays known.
    run(faulty, name, script)
