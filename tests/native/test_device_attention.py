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
#: How vectors lie in memory: the order of batch, head, token and size.
LAYOUTS = {"heads outside": (0, 1, 2, 3), "heads inside": (0, 2, 1, 3), "batch inside": (2, 0, 1, 3)}


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, added: Any) -> np.ndarray:
    """All of [batch, head, token, size]."""
    sharing = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), sharing, 1) for x in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * scale + added
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


def laid(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The same array, in that order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def run(
    kind: str,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    blocks: int,
    layout: str = "heads outside",
    how: str = "attention 1",
    **given: Any,
) -> np.ndarray:
    """Takes and gives [batch, head, token, size]."""
    arrays = [laid(storage(x, kind), LAYOUTS[layout]) for x in (q, k, v)]
    out = laid(np.zeros((*q.shape[:3], v.shape[3]), arrays[0].dtype), LAYOUTS[layout])
    mask = given.pop("mask", None)
    if mask is not None:
        mask = storage(mask, "b" if mask.dtype == np.bool_ else kind)
        mask = np.broadcast_to(mask, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    assert kernels.attention(kind, *arrays, out, blocks, mask=mask, **given) == how
    return out


def operands(shape: tuple[int, ...], kind: str) -> list[np.ndarray]:
    batches, heads, kv_heads, queries, keys, size = shape
    dims = [(batches, heads, queries, size), *[(batches, kv_heads, keys, size)] * 2]
    return [numbers(d, kind, n) for n, d in enumerate(dims)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind: str, layout: str, blocks: int) -> None:
    for shape in SHAPES:
        q, k, v = operands(shape, kind)
        out = run(kind, q, k, v, blocks, layout, scale=0.25)
        check(out, attended(q, k, v, 0.25, 0), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_columns_and_packed_projections(kind: str, blocks: int) -> None:
    q, k, v = operands((2, 3, 3, 6, 6, 16), kind)
    expected = attended(q, k, v, 0.25, 0)
    columns = storage(k.swapaxes(2, 3), kind).swapaxes(2, 3)
    out = np.zeros(q.shape, columns.dtype)
    arrays = (storage(q, kind), columns, storage(v, kind))
    assert kernels.attention(kind, *arrays, out, blocks, scale=0.25) == "attention 1"
    check(out, expected, kind, TOLERANCES[kind])
    # [batch, token, three, head, size], and out [batch, token, head * size].
    packed = storage(np.stack([q, k, v]).transpose(1, 3, 0, 2, 4), kind)
    arrays = tuple(packed[:, :, n].swapaxes(1, 2) for n in range(3))
    flat = np.zeros((2, 6, 48), packed.dtype)
    out = flat.reshape(2, 6, 3, 16).swapaxes(1, 2)
    assert kernels.attention(kind, *arrays, out, blocks, scale=0.25) == "attention 1"
    check(flat, expected.swapaxes(1, 2).reshape(2, 6, 48), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str, blocks: int) -> None:
    for shape in SHAPES:
        batches, heads, _, queries, keys, _ = shape
        q, k, v = operands(shape, kind)
        every = (batches, heads, queries, keys)
        for dims in ((batches, 1, 1, keys), (1, 1, queries, 1), (1, heads, queries, keys), every):
            mask = numbers(dims, kind, 5)
            expected = attended(q, k, v, 0.25, mask)
            out = run(kind, q, k, v, blocks, "heads inside", scale=0.25, mask=mask)
            check(out, expected, kind, TOLERANCES[kind])
            flags = numbers(dims, "b", 6)
            flags[..., dims[-1] // 2] = True
            expected = attended(q, k, v, 0.25, np.where(flags, 0, -np.inf))
            check(run(kind, q, k, v, blocks, scale=0.25, mask=flags), expected, kind, TOLERANCES[kind])
            given = {"mask": ~flags, "keeps_false": True}
            check(run(kind, q, k, v, blocks, scale=0.25, **given), expected, kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_causal_and_lengths(kind: str, blocks: int) -> None:
    for shape in SHAPES:
        batches, _, _, queries, keys, _ = shape
        q, k, v = operands(shape, kind)
        for past in (0, keys - queries):
            seen = np.arange(keys) <= np.arange(queries)[:, None] + past
            out = run(kind, q, k, v, blocks, scale=0.25, causal=True, past=past)
            check(out, attended(q, k, v, 0.25, np.where(seen, 0, -np.inf)), kind, TOLERANCES[kind])
        lengths = np.array([keys - 1 - b * (keys - queries) // 2 for b in range(batches)], np.int32)
        within = np.arange(keys) <= lengths[:, None, None, None]
        out = run(kind, q, k, v, blocks, "heads inside", scale=0.25, lengths=lengths)
        check(out, attended(q, k, v, 0.25, np.where(within, 0, -np.inf)), kind, TOLERANCES[kind])
        # The last query is the one of the last key.
        behind = (lengths + 1 - queries)[:, None, None, None] + np.arange(queries)[:, None]
        seen = np.arange(keys) <= behind
        given = {"lengths": lengths, "causal": True, "past_by_end": True}
        out = run(kind, q, k, v, blocks, "heads inside", scale=0.25, **given)
        check(out, attended(q, k, v, 0.25, np.where(seen, 0, -np.inf)), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_length_of_nothing_may_stand_for_all(kind: str, blocks: int) -> None:
    q, k, v = operands((3, 1, 1, 2, 9, 8), kind)
    added = np.zeros((3, 1, 1, 9))
    added[2, :, :, 4:] = -np.inf
    out = run(kind, q, k, v, blocks, lengths=np.array([-1, -4, 3], np.int32), none_is_all=True)  # less one
    check(out, attended(q, k, v, 1.0, added), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_sinks_take_their_share(kind: str, blocks: int) -> None:
    for shape in ((2, 4, 2, 3, 9, 8), (1, 2, 1, 1, 300, 16)):
        q, k, v = operands(shape, kind)
        sinks = numbers((shape[1],), kind, 9) + 2
        # As a key of zeros but for the score, and of no value.
        scores = q.astype(np.float64) @ np.repeat(k, shape[1] // shape[2], 1).swapaxes(-1, -2) * 0.3
        least = np.broadcast_to(sinks[None, :, None, None], (*scores.shape[:3], 1))
        weights = np.exp(np.concatenate([scores, least], axis=-1))
        weights = (weights / weights.sum(-1, keepdims=True))[..., :-1]
        expected = weights @ np.repeat(v.astype(np.float64), shape[1] // shape[2], 1)
        for divided in (False, True):
            how = f"attention {3 if divided and shape[4] > 200 else 1}"
            given = {"scale": 0.3, "divided": divided, "sinks": storage(sinks, kind), "tiles": True}
            check(run(kind, q, k, v, blocks, how=how, **given), expected, kind, TOLERANCES[kind])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_another_size(kind: str, layout: str, blocks: int) -> None:
    for size, value_size in ((16, 4), (8, 64), (10, 7), (12, 30)):
        q, k, _ = operands((2, 4, 2, 3, 300, size), kind)
        v = numbers((2, 2, 300, value_size), kind, 5)
        expected = attended(q, k, v, 0.2, 0)
        check(run(kind, q, k, v, blocks, layout, scale=0.2), expected, kind, TOLERANCES[kind])
        out = run(kind, q, k, v, blocks, layout, "attention 3", scale=0.2, divided=True)
        check(out, expected, kind, TOLERANCES[kind])
        assert kernels.attention(kind, *(storage(x, kind) for x in (q, k, v)), out, blocks, tiles=True)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_parts(kind: str, blocks: int) -> None:
    q, k, v = operands((2, 4, 2, 3, 700, 32), kind)
    expected = attended(q, k, v, 0.25, 0)
    out = run(kind, q, k, v, blocks, "heads inside", "attention 6", scale=0.25, divided=True)
    check(out, expected, kind, TOLERANCES[kind])
    # The last parts see nothing, and in one batch nobody does.
    lengths = np.array([299, -1], np.int32)
    within = np.arange(700) <= lengths[:, None, None, None]
    out = run(kind, q, k, v, blocks, how="attention 6", scale=0.25, lengths=lengths, divided=True)
    check(out[:1], attended(q, k, v, 0.25, np.where(within, 0, -np.inf))[:1], kind, TOLERANCES[kind])
    assert np.isnan(attended(q, k, v, 0.25, np.where(within, 0, -np.inf))[1]).all()
    check(out[1], np.full_like(expected[1], np.nan), kind)


SIZES = [(kind, size) for kind in KINDS for size in (32, 64, 96, 128)]


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_entries_for_tensor_cores_are_right_without_them(kind: str, size: int, blocks: int) -> None:
    for shape, how in (
        ((1, 2, 1, 5, 300, size), "attention_keys 3"),
        ((8, 16, 8, 33, 5, size), "attention_rows 1"),
    ):
        q, k, v = operands(shape, kind)
        out = run(kind, q, k, v, blocks, "heads inside", how, scale=0.1, tiles=True, divided=True)
        check(out, attended(q, k, v, 0.1, 0), kind, TOLERANCES[kind])


def test_tiles_need_vectors_of_their_size_and_aligned() -> None:
    q, k, v = operands((1, 2, 1, 5, 30, 64), "f16")
    run("f16", q, k, v, 1, how="attention_keys 1", tiles=True)
    run("f32", *(x[..., :40] for x in (q, k, v)), 1, how="attention 1", tiles=True)
    run("f16", *(x[..., :48] for x in (q, k, v)), 1, how="attention 1", tiles=True)
    wide = np.zeros((1, 1, 30, 68), np.float16)
    wide[..., :64] = k
    out = np.zeros(q.shape, np.float16)
    arrays = (storage(q, "f16"), wide[..., :64], storage(v, "f16"))
    assert kernels.attention("f16", *arrays, out, 1, tiles=True) == "attention 1"
    check(out, attended(q, k, v, 1, 0), "f16", TOLERANCES["f16"])


def test_scores_are_replaced_by_what_a_mask_says() -> None:
    q, k, v = operands((1, 2, 1, 3, 40, 16), "f32")
    flags = numbers((1, 1, 3, 40), "b", 6)
    flags[0, 0, 1] = False
    for fill in (-3.4e38, 0.5):
        scores = np.where(flags, q.astype(np.float64) @ k.swapaxes(-1, -2), fill)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out = run("f32", q, k, v, 3, mask=flags, fill=fill)
        check(out, weights / weights.sum(-1, keepdims=True) @ v, "f32", TOLERANCES["f32"])


def test_what_sees_nothing_is_no_number() -> None:
    q, k, v = operands((1, 1, 1, 2, 40, 16), "f32")
    flags = np.ones((1, 1, 2, 40), np.bool_)
    flags[0, 0, 1] = False
    out = run("f32", q, k, v, 1, mask=flags)
    assert np.isfinite(out[0, 0, 0]).all()
    assert np.isnan(out[0, 0, 1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_sees_nothing_is_zero_where_that_is_asked_for(kind: str, blocks: int) -> None:
    q, k, v = operands((2, 2, 1, 2, 300, 64), kind)
    flags = np.ones((2, 1, 2, 300), np.bool_)
    flags[0, :, 1] = False
    expected = attended(q, k, v, 0.25, np.where(flags, 0, -np.inf))
    expected[0, :, 1] = 0
    for divided in (False, True):
        how = "attention 3" if divided else "attention 1"
        out = run(kind, q, k, v, blocks, how=how, mask=flags, scale=0.25, zeros=True, divided=divided)
        check(out, expected, kind, TOLERANCES[kind])


def test_what_is_no_number_stays_so(blocks: int) -> None:
    q, k, v = operands((1, 2, 2, 3, 40, 16), "f32")
    q[0, 1, 2, 3] = np.nan
    out = run("f32", q, k, v, blocks)
    assert np.isnan(out[0, 1, 2]).all()
    out[0, 1, 2] = 0
    assert np.isfinite(out).all()


def test_shapes_that_are_refused() -> None:
    q, k, v = operands((1, 3, 2, 2, 5, 16), "f32")
    assert not kernels.attention("f32", q, k, v, np.zeros_like(q), 1)
    q, k, v = operands((1, 1, 1, 2, 5, 513), "f32")
    assert not kernels.attention("f32", q, k, v, np.zeros_like(q), 1)
