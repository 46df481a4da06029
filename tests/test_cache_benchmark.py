"""The benchmark of the cache: its table, its file, and what it calls missed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `benchmarks` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from benchmarks import cache, common, measure, native  # noqa: E402


def costs(load_ms: float) -> list[cache.Cost]:
    """What a measurement may find."""
    twice = measure.Ratio(2.0, 1.9, 2.1, 2.0)
    return [
        cache.Cost("a hit", "ns", 10, 10_000, 30.0, 60.0, 55.0, twice),
        cache.Cost("loading a document", "ms", 1000, 10_000, 2.5, load_ms + 5, load_ms, twice),
    ]


def test_slow_loading_is_missed(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(cache, "measure", lambda entries, args: costs(51.0))
    file = tmp_path / "cache.json"
    assert cache.main(["--json", str(file)]) == 0
    assert cache.main(["--check"]) == 1
    printed = capsys.readouterr()
    assert "loading a document: 51.0 ms for 10000 entries, bound 50 ms" in printed.err
    assert "2.000 (1.900-2.100)" in printed.out
    assert json.loads(file.read_text())["results"][0]["times"]["value"] == 2.0
    monkeypatch.setattr(cache, "measure", lambda entries, args: costs(49.0))
    assert cache.main(["--check"]) == 0


def test_it_measures() -> None:
    try:
        native.load()
    except ImportError as error:
        pytest.skip(str(error))
    parser = common.arguments("", threads=(1,))
    found = cache.measure(50, parser.parse_args(["--rounds", "1", "--quick"]))
    assert [cost.what for cost in found] == [
        "a hit, the same ten",
        "a hit, all of them",
        "an eviction",
        "loading a document",
        "saving one entry into a file",
    ]
    assert all(cost.small > 0 and cost.large > 0 and cost.times.value > 0 for cost in found)
