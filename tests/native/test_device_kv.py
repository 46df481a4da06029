"""Kernels of cards that keep keys and values, on the host, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from device_helpers import kernels, numbers


@pytest.mark.parametrize("width", ["w2", "w4"])
@pytest.mark.parametrize("size", [5, 8])
def test_fresh_tokens_come_behind_what_stays(width: str, size: int, blocks: int) -> None:
    batches, heads, room, fresh_tokens, tokens = 2, 3, 6, 2, 7
    past = numbers((batches, heads, room, size), width, 1)
    fresh = numbers((batches, fresh_tokens, heads, size), width, 2)  # tokens outside of heads
    for kept in (np.array([4, 1], np.int32), 3):
        lengths = kept if isinstance(kept, np.ndarray) else None
        expected = np.zeros((batches, heads, tokens, size), past.dtype)
        for batch in range(batches):
            stays = int(kept[batch]) if isinstance(kept, np.ndarray) else kept
            expected[batch, :, :stays] = past[batch, :, :stays]
            expected[batch, :, stays : stays + fresh_tokens] = fresh[batch].transpose(1, 0, 2)
        out = np.ones_like(expected)
        assert kernels.kv_append(width, past, fresh, lengths, 0 if lengths is not None else kept, out, blocks)
        assert np.array_equal(out, expected)
        # In the past's own memory nothing else is touched.
        own = past.copy()
        assert kernels.kv_append(width, own, fresh, lengths, 0 if lengths is not None else kept, own, blocks)
        for batch in range(batches):
            stays = int(kept[batch]) if isinstance(kept, np.ndarray) else kept
            behind = stays + fresh_tokens
            assert np.array_equal(own[batch, :, :behind], expected[batch, :, :behind])
            assert np.array_equal(own[batch, :, behind:], past[batch, :, behind:])


def test_without_a_past_and_beyond_the_room(blocks: int) -> None:
    fresh = numbers((1, 4, 2, 8), "w4", 2)
    out = np.ones((1, 2, 3, 8), fresh.dtype)
    assert kernels.kv_append("w4", None, fresh, None, 0, out, blocks)
    assert np.array_equal(out, fresh.transpose(0, 2, 1, 3)[:, :, :3])


def test_positions(blocks: int) -> None:
    lengths = np.array([4, 9, 0], np.int32)  # less one
    out = np.zeros((3, 3), np.int64)
    kernels.kv_positions(lengths, 1, False, out, blocks)
    assert np.array_equal(out, [[2, 3, 4], [7, 8, 9], [0, 0, 0]])
    kernels.kv_positions(lengths, 1, True, out, blocks)
    assert np.array_equal(out, [[0, 1, 2]] * 3)
