"""The packed layout of a constant B."""

from __future__ import annotations

import numpy as np
import pytest
import tunableop_native_tests as native
from hypothesis import example, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("transposed", [False, True])
@settings(max_examples=40, deadline=None)
@given(k=st.integers(0, 90), n=st.integers(1, 200), batch=st.integers(1, 3))
def test_packing(transposed: bool, k: int, n: int, batch: int) -> None:
    rng = np.random.default_rng(k * 1000 + n)
    b = rng.standard_normal((batch, n, k) if transposed else (batch, k, n)).astype(np.float32)
    packed = native.pack_b(b, transposed=transposed)
    assert (packed.k, packed.n, packed.batch) == (k, n, batch)
    assert packed.address % 64 == 0
    assert np.array_equal(packed.to_numpy(), b.swapaxes(1, 2) if transposed else b)
    assert np.sum(packed.raw().astype(np.float64)) == pytest.approx(np.sum(b.astype(np.float64)))


@settings(max_examples=60, deadline=None)
@given(k=st.integers(0, 70), n=st.integers(1, 200), batch=st.integers(1, 2), gap=st.integers(0, 5))
@example(k=33, n=1, batch=2, gap=0)
@example(k=17, n=64, batch=1, gap=3)
@example(k=16, n=129, batch=2, gap=1)
def test_unpacking_gives_back_what_was_packed(k: int, n: int, batch: int, gap: int) -> None:
    b = np.random.default_rng(k * 1000 + n).standard_normal((batch, k, n)).astype(np.float32)
    packed = native.pack_b(b)
    for index in range(batch):
        rows = packed.unpack(index, n + gap)
        assert np.array_equal(rows[:, :n], b[index])
        assert np.isnan(rows[:, n:]).all()


def test_large_weights_are_on_their_own_pages() -> None:
    b = np.arange(1024 * 1000, dtype=np.float32).reshape(1000, 1024)
    for transposed in (False, True):
        packed = native.pack_b(b, transposed=transposed)
        assert packed.address % (2 << 20) == 0
        assert np.array_equal(packed.to_numpy()[0], b.T if transposed else b)
