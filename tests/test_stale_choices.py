"""Choices that no longer hold: they go on serving and are measured again, without flapping."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import matmul_model
from support.sessions import random
from support.waiting import until, until_stats
from test_background import run

B = random((96, 80), 2)
A = random((48, 96), 1)
MODEL = matmul_model(["m", 96], None, constants={"B": B})


@pytest.fixture
def thermometer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the temperature of a processor that is not there."""
    folder = tmp_path / "sys/class/hwmon/hwmon0"
    folder.mkdir(parents=True)
    (folder / "name").write_text("coretemp\n")
    monkeypatch.setenv("TUNABLEOP_SENSORS_ROOT", str(tmp_path))

    def set_to(celsius: float) -> None:
        (folder / "temp1_input").write_text(f"{int(celsius * 1000)}\n")

    set_to(40.0)
    return set_to


def online(**options: Any) -> tunableop.InferenceSession:
    settings = {"max_tuning_ms": 20.0, "background_share": 1.0} | options
    return tunableop.InferenceSession(MODEL, **settings)


def test_an_old_choice_serves_while_it_is_measured_again() -> None:
    session = online(revalidate_ms=100)
    run(session, A)
    assert tunableop.stats(session).tuned == 1
    until_stats(session, stale=1)
    before = tunableop.stats(session)
    run(session, A)  # serves, and takes the copies
    assert tunableop.stats(session).hits == before.hits + 1
    until(lambda: tunableop.stats(session).revalidated >= 1, "it is measured again")
    assert tunableop.stats(session).tuned == 1
    (shape,) = tunableop.explain(session).shapes
    assert shape.tuned


def test_no_choice_is_ever_old_when_revalidation_is_off() -> None:
    session = online(revalidate_ms=0)
    run(session, A)
    time.sleep(1.5)
    run(session, A)
    stats = tunableop.stats(session)
    assert (stats.stale, stats.revalidated) == (0, 0)


def test_ten_degrees_make_a_choice_stale_and_nine_do_not(thermometer: Any) -> None:
    session = online(revalidate_ms=1 << 40)
    run(session, A)
    thermometer(49.0)
    time.sleep(2.5)  # more than two looks at the sensors
    run(session, A)
    assert tunableop.stats(session).stale == 0
    thermometer(51.0)
    until_stats(session, stale=1)
    run(session, A)
    until_stats(session, revalidated=1)
    (shape,) = tunableop.explain(session).shapes
    assert shape.temperature_c == 51.0
    # It does not flap: at the temperature of the new measurement it holds.
    thermometer(45.0)
    time.sleep(2.5)
    run(session, A)
    stats = tunableop.stats(session)
    assert (stats.stale, stats.revalidated) == (0, 1)


def test_a_choice_that_was_loaded_grows_old_too(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = online()
    run(first, A)
    tunableop.save_cache(first, path)
    session = online(cache=path, revalidate_ms=100)
    run(session, A)
    assert tunableop.stats(session).tuned == 0
    until_stats(session, stale=1)
    run(session, A)
    until(lambda: tunableop.stats(session).revalidated >= 1, "it is measured again")


def of_another_build(path: Path) -> None:
    """As if the library had been replaced since."""
    document = json.loads(path.read_text())
    for section in document["machines"]:
        for entry in section["entries"]:
            entry["library_identity"] = "another build"
    path.write_text(json.dumps(document))


def test_a_stale_choice_is_not_measured_where_nothing_is_to_be(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = online()
    run(first, A)
    tunableop.save_cache(first, path)
    of_another_build(path)
    session = online(tuning="background", cache=path)
    tunableop.set_tuning(session, "cached")
    run(session, A, times=20)
    time.sleep(0.5)  # it would have been measured by now
    stats = tunableop.stats(session)
    assert (stats.hits, stats.pending, stats.revalidated) == (20, 0, 0)
    tunableop.set_tuning(session, "background")
    run(session, A, times=2)  # is taken up; is noticed
    until(lambda: tunableop.stats(session).revalidated >= 1, "it is measured again")


def test_measuring_again_in_vain_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    a = random((48, 8), 3)
    model = matmul_model(["m", 8], None, constants={"B": random((8, 4000), 4)})
    first = tunableop.InferenceSession(model, max_tuning_ms=200.0)
    run(first, a)
    (before,) = tunableop.explain(first).shapes
    assert before.milliseconds > 0
    tunableop.save_cache(first, path)
    of_another_build(path)
    # Room for a copy of A, and none for one of C.
    session = tunableop.InferenceSession(
        model, tuning="background", cache=path, max_tuning_bytes=65536, max_tuning_ms=200.0
    )
    run(session, a, times=2)
    until(lambda: tunableop.stats(session).revalidated >= 1, "it was tried")
    (after,) = tunableop.explain(session).shapes
    assert (after.kernel, after.milliseconds) == (before.kernel, before.milliseconds)


def test_the_choice_of_a_range_of_another_build_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = online(buckets="pow2")
    run(first, A)
    tunableop.save_cache(first, path)
    of_another_build(path)
    session = online(tuning="background", buckets="pow2", cache=path)
    run(session, A[:47], times=3)  # another m of the range
    assert tunableop.stats(session).hits == 3
    until_stats(session, revalidated=1)
    run(session, A[:47], times=3)
    assert tunableop.stats(session).hits == 6
