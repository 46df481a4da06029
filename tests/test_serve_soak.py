"""The soak of a server: a short one, and that its verdict can be a bad one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
from benchmarks import serve_soak
from benchmarks.flat import judge


def samples(rss: Callable[[int], float], files: Callable[[int], int] = lambda i: 20) -> list[Any]:
    return [serve_soak.Sample(10.0 * i, i, rss(i), files(i), 15, 0.0, 0.0, 0.0) for i in range(121)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_short_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Too short to judge memory by: every answer right, nothing left in flight, an orderly end."""
    assert serve_soak.main(["--minutes", "0.1", "--rate", "30"]) == 0
    assert "wrong: 0" in capsys.readouterr().out


def test_a_leak_is_seen() -> None:
    def missed(found: list[Any]) -> list[str]:
        return judge(found, serve_soak.WARM_UP).missed(1.0, 0.01)

    assert missed(samples(lambda i: 150.0 + i % 7)) == []
    assert missed(samples(lambda i: 100.0 + min(i, 10))) == [], "warm-up"
    assert "memory grows" in missed(samples(lambda i: 150.0 + 0.05 * i + i % 7))[0]
    assert "open files" in missed(samples(lambda i: 150.0, lambda i: 20 + i // 20))[0]


@pytest.mark.parametrize(("wrong", "rss", "code"), [([], 0.0, 0), (["x"], 0.0, 1), ([], 0.5, 1)])
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, wrong: list[str], rss: float, code: int) -> None:
    answers = {"done": {"raw": 1}, "wrong": wrong}
    monkeypatch.setattr(serve_soak, "soak", lambda _: (samples(lambda i: 150.0 + rss * i), answers))
    assert serve_soak.main(["--check"]) == code
