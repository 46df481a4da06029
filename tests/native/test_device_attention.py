"""Attention of cards, on the host, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_helpers import check, kernels, numbers, storage

KINDS = ["f32", "f16", "bf16"]
TOLERANCES = {"f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2}

#: batches, heads, heads of keys and values, queries, keys, numbers of a vector
SHAPES = [
    (1, 2, 2, 5, 5, 16),
    (2, 4, 2, 3, 70, 64),
    (1, 4, 1, 1, 40, 32),
    (2, 1, 1, 9, 17, 10),
    (1, 1, 1, 2, 33, 256),
    (1, 3, 3, 40, 40, 8),
]


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, added: Any) -> np.ndarray:
    """All of [batch, head, token, size]."""
    sharing = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), sharing, 1) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * scale + added
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def run(
    kind: str, q: np.ndarray, k: np.ndarray, v: np.ndarray, blocks: int, inside: bool, **given: Any
) -> np.ndarray:
    """Takes and gives [batch, head, token, size]; with `inside` the kernel sees heads inside tokens."""
    arrays = [storage(x.swapaxes(1, 2) if inside else x, kind) for x in (q, k, v)]
    out = np.zeros_like(arrays[0])
    mask = given.get("mask")
    t1 = "b" if mask is not None and mask.dtype == np.bool_ else kind
    if mask is not None:
        given["mask"] = storage(mask, t1)
    assert kernels.attention(kind, t1, *arrays, out, blocks, heads_outside=not inside, **given)
    return np.ascontiguousarray(out.swapaxes(1, 2)) if inside else out


def operands(shape: tuple[int, ...], kind: str) -> list[np.ndarray]:
    batches, heads, kv_heads, queries, keys, size = shape
    dims = [(batches, heads, queries, size), *[(batches, kv_heads, keys, size)] * 2]
    return [numbers(d, kind, n) for n, d in enumerate(dims)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind: str, inside: bool, blocks: int) -> None:
    for shape in SHAPES:
        q, k, v = operands(shape, kind)
        out = run(kind, q, k, v, blocks, inside, scale=0.25)
        check(out, attended(q, k, v, 0.25, 0), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str, blocks: int) -> None:
    for shape in SHAPES:
        batches, heads, _, queries, keys, _ = shape
        q, k, v = operands(shape, kind)
        for dims in ((batches, 1, 1, keys), (1, heads, queries, keys), (batches, heads, queries, keys)):
            mask = numbers(dims, kind, 5)
            expected = attended(q, k, v, 0.25, mask)
            check(run(kind, q, k, v, blocks, True, scale=0.25, mask=mask), expected, kind, TOLERANCES[kind])
            flags = numbers(dims, "b", 6)
            flags[..., keys // 2] = True
            expected = attended(q, k, v, 0.25, np.where(flags, 0, -np.inf))
            check(run(kind, q, k, v, blocks, False, scale=0.25, mask=flags), expected, kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_causal_and_lengths(kind: str, blocks: int) -> None:
    for shape in SHAPES:
        batches, _, _, queries, keys, _ = shape
        q, k, v = operands(shape, kind)
        for past in (0, keys - queries):
            seen = np.arange(keys) <= np.arange(queries)[:, None] + past
            out = run(kind, q, k, v, blocks, False, scale=0.25, causal=True, past=past)
            check(out, attended(q, k, v, 0.25, np.where(seen, 0, -np.inf)), kind, TOLERANCES[kind])
        lengths = np.array([keys - 1 - b * (keys - queries) // 2 for b in range(batches)], np.int32)
        within = np.arange(keys) <= lengths[:, None, None, None]
        out = run(kind, q, k, v, blocks, True, scale=0.25, lengths=lengths)
        check(out, attended(q, k, v, 0.25, np.where(within, 0, -np.inf)), kind, TOLERANCES[kind])
        # The last query is the one of the last key.
        behind = (lengths + 1 - queries)[:, None, None, None] + np.arange(queries)[:, None]
        seen = np.arange(keys) <= behind
        given = {"lengths": lengths, "causal": True, "past_by_end": True}
        out = run(kind, q, k, v, blocks, True, scale=0.25, **given)
        check(out, attended(q, k, v, 0.25, np.where(seen, 0, -np.inf)), kind, TOLERANCES[kind])


def test_what_sees_nothing_is_no_number() -> None:
    q, k, v = operands((1, 1, 1, 2, 40, 16), "f32")
    flags = np.ones((1, 1, 2, 40), np.bool_)
    flags[0, 0, 1] = False
    out = run("f32", q, k, v, 1, False, mask=flags)
    assert np.isfinite(out[0, 0, 0]).all()
    assert np.isnan(out[0, 0, 1]).all()


def test_what_is_no_number_stays_so(blocks: int) -> None:
    q, k, v = operands((1, 2, 2, 3, 40, 16), "f32")
    q[0, 1, 2, 3] = np.nan
    out = run("f32", q, k, v, blocks, False)
    assert np.isnan(out[0, 1, 2]).all()
    out[0, 1, 2] = 0
    assert np.isfinite(out).all()


def test_shapes_that_are_refused() -> None:
    q, k, v = operands((1, 3, 2, 2, 5, 16), "f32")
    assert not kernels.attention("f32", "f32", q, k, v, np.zeros_like(q), 1)
    q, k, v = operands((1, 1, 1, 2, 5, 260), "f32")
    assert not kernels.attention("f32", "f32", q, k, v, np.zeros_like(q), 1)
