"""Fresh processes: medians of what a user waits for once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime_ep_tunableop.bench import fresh
from onnxruntime_ep_tunableop.bench.fresh import Probe, probe
from onnxruntime_ep_tunableop.bench.sides import SideError, open_side
from support.sides import ours, product, stock


def test_figures_are_medians_over_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, feeds, _ = product(tmp_path)
    ones = iter(
        [Probe(3.0, 30.0, 9.0, 1.0, 70), Probe(1.0, 50.0, 7.0, 4.0, 90), Probe(2.0, 40.0, 8.0, 2.0, 80)]
    )
    monkeypatch.setattr(fresh, "_once", lambda *_: next(ones))
    steps: list[Any] = []
    found = probe(stock(path), feeds, repeats=3, progress=lambda *step: steps.append(step))
    assert found == Probe(2.0, 40.0, 8.0, 2.0, 80)
    assert steps == [("fresh process: stock", done, 3) for done in (1, 2, 3)]
    with pytest.raises(ValueError, match="nothing to measure"):
        probe(stock(path), feeds, repeats=0)


def test_a_fresh_stock_process(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    found = probe(stock(path), feeds)
    assert min(found.import_seconds, found.creation_seconds) > 0.0
    assert min(found.first_request_seconds, found.second_request_seconds) > 0.0
    assert found.peak_bytes > 10 << 20


def test_a_peak_is_that_of_the_process(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    ballast = np.ones(32 << 20)  # 256 MiB in this process; what another one had would be seen here
    small = probe(stock(path), feeds).peak_bytes
    assert small < ballast.nbytes
    large_path, large_feeds, _ = product(tmp_path, 4096, 4096, 16)  # 64 MiB of output
    assert probe(stock(large_path), large_feeds).peak_bytes > small + (48 << 20)


def test_a_known_cache_is_read_and_left_alone(tmp_path: Path) -> None:
    path, feeds, _ = product(tmp_path)
    cache, trace = tmp_path / "known.json", tmp_path / "trace.csv"
    spec = ours(path, cache=cache, trace=trace, max_tuning_ms=5)

    def samples() -> int:
        return len(trace.read_text().splitlines()) if trace.exists() else 0

    probe(spec, feeds, repeats=1)
    cold = samples()
    assert cold > 1
    assert not cache.exists()  # each process has a copy
    probe(spec, feeds, repeats=1)
    assert samples() > cold  # so the second one measured again
    with open_side(spec, feeds) as side:
        side.outputs()
    before, known = samples(), cache.read_bytes()
    probe(spec, feeds, repeats=2)
    assert samples() == before
    assert cache.read_bytes() == known


def test_what_goes_wrong_there_is_said(tmp_path: Path) -> None:
    path, _, _ = product(tmp_path)
    with pytest.raises(SideError, match="nothing is fed to A"):
        probe(stock(path), {})
