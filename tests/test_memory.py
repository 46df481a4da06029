"""Peak memory of a session against the stock session's."""

from __future__ import annotations

import sys

import pytest

from benchmarks import memory


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_peak_memory_stays_within_five_percent_of_stock() -> None:
    # The whole of BERT-base: what the provider needs beside the weights (its libraries, buffers for
    # measuring: some 9 MB) is 5 % of a smaller model all by itself.
    for row in memory.measure(layers=12, repetitions=2):
        assert float(str(row["ratio"])) <= 1.05, row
