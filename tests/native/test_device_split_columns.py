"""Columns of one matrix as three tensors, on the host."""

from __future__ import annotations

import numpy as np
import pytest
from device_helpers import DTYPES, kernels, numbers


@pytest.mark.parametrize("kind", ["w2", "w4", "w8"])
def test_columns_become_tensors(kind: str, blocks: int) -> None:
    for rows, columns in (
        (5, (16, 16, 16)),
        (3, (32, 8, 8)),
        (4, (3, 5, 1)),
        (1, (8, 24, 8)),
        (7, (1, 1, 1)),
    ):
        x = numbers((rows, sum(columns)), kind)
        outs = [np.zeros((rows, n), DTYPES[kind]) for n in columns]
        assert kernels.split_columns(kind, x, *outs, blocks)
        np.testing.assert_array_equal(np.concatenate(outs, 1), x)
        first, second = np.cumsum(columns)[:2]
        np.testing.assert_array_equal(outs[1], x[:, first:second])
