"""The packed layout of a constant B."""

from __future__ import annotations

import numpy as np
import pytest
import tunableop_native_tests as _core
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("transposed", [False, True])
@settings(max_examples=40, deadline=None)
@given(k=st.integers(0, 90), n=st.integers(1, 200), batch=st.integers(1, 3))
def test_packing(transposed: bool, k: int, n: int, batch: int) -> None:
    rng = np.random.default_rng(k * 1000 + n)
    b = rng.standard_normal((batch, n, k) if transposed else (batch, k, n)).astype(np.float32)
    packed = _core.pack_b(b, transposed=transposed)
    assert (packed.k, packed.n, packed.batch) == (k, n, batch)
    assert packed.address % 64 == 0
    assert np.array_equal(packed.to_numpy(), b.swapaxes(1, 2) if transposed else b)
    assert np.sum(packed.raw().astype(np.float64)) == pytest.approx(np.sum(b.astype(np.float64)))


def test_large_weights_are_on_their_own_pages() -> None:
    b = np.arange(1024 * 1000, dtype=np.float32).reshape(1000, 1024)
    for transposed in (False, True):
        packed = _core.pack_b(b, transposed=transposed)
        assert packed.address % (2 << 20) == 0
        assert np.array_equal(packed.to_numpy()[0], b.T if transposed else b)
