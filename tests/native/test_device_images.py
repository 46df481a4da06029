"""Kernels of images of cards, and what attention adds to its scores, on the host, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from device_helpers import FLOATS, check, kernels, numbers, storage

ONE = [1, 1, 1]
#: Sizes; windows, strides, dilations, padding before and after.
POOLS: list[tuple[tuple[int, int, int], list[list[int]]]] = [
    ((1, 1, 9), [[1, 1, 3], [1, 1, 2], ONE, [0, 0, 1], [0, 0, 2]]),
    ((1, 7, 8), [[1, 3, 2], [1, 2, 1], [1, 1, 3], [0, 1, 0], [0, 2, 1]]),
    ((1, 40, 70), [[1, 3, 3], [1, 2, 2], ONE, [0, 1, 1], [0, 1, 1]]),
    ((4, 5, 6), [[2, 3, 2], [2, 1, 3], [1, 2, 1], [1, 0, 1], [0, 2, 1]]),
    ((1, 1, 4), [[1, 1, 3], [1, 1, 4], [1, 1, 2], [0, 0, 0], [0, 0, 0]]),  # reaches beyond
]


def windows(x: np.ndarray, window: list[list[int]], counts: bool) -> tuple[np.ndarray, ...]:
    """The largest of each, where that is, and the average."""
    size, stride, step, before, after = window
    outs = [
        (n + before[d] + after[d] - (size[d] - 1) * step[d] - 1) // stride[d] + 1
        if n + before[d] + after[d] > (size[d] - 1) * step[d]
        else 1
        for d, n in enumerate(x.shape[1:])
    ]
    most, average = np.zeros((x.shape[0], *outs)), np.zeros((x.shape[0], *outs))
    places = np.zeros((x.shape[0], *outs), np.int64)
    for plane, *at in itertools.product(range(x.shape[0]), *(range(n) for n in outs)):
        begin = [at[d] * stride[d] - before[d] for d in range(3)]
        inside, counted = [], 0
        for within in itertools.product(*(range(n) for n in size)):
            place = [begin[d] + within[d] * step[d] for d in range(3)]
            counted += all(place[d] < x.shape[d + 1] + after[d] for d in range(3))
            if all(0 <= place[d] < x.shape[d + 1] for d in range(3)):
                inside.append((plane, *place))
        values = np.array([x[one] for one in inside], np.float64)
        where = (plane, *at)
        most[where] = values.max()
        places[where] = np.ravel_multi_index(inside[int(values.argmax())], x.shape)
        average[where] = values.sum() / (counted if counts else len(inside))
    return most, places, average


@pytest.mark.parametrize("kind", FLOATS)
def test_pools(kind: str, blocks: int) -> None:
    for size, window in POOLS:
        if size[1] > 30 and kind != "f16":
            continue
        x = numbers((3, *size), kind, 1)
        for counts in (False, True):
            most, places, average = windows(x, window, counts)
            given = storage(x, kind)
            out, at = np.zeros(most.shape, given.dtype), np.zeros(most.shape, np.int64)
            assert kernels.pool(kind, True, given, window, counts, out, at, blocks)
            check(out, most, kind)
            assert np.array_equal(at, places)
            assert kernels.pool(kind, True, given, window, counts, out, None, blocks)
            check(out, most, kind)
            assert kernels.pool(kind, False, given, window, counts, out, None, blocks)
            check(out, average, kind)


def test_pools_of_bytes_and_what_is_no_number(blocks: int) -> None:
    size, window = POOLS[1]
    x = numbers((2, *size), "u8", 1)
    most, _, _ = windows(x, window, False)
    out = np.zeros(most.shape, np.uint8)
    assert kernels.pool("u8", True, x, window, False, out, None, blocks)
    assert np.array_equal(out, most)
    lowest = np.full((1, 1, 1, 4), -np.inf, np.float32)
    single = np.zeros((1, 1, 1, 2), np.float32)
    plain = [[1, 1, 2], [1, 1, 2], ONE, [0, 0, 0], [0, 0, 0]]
    assert kernels.pool("f32", True, lowest, plain, False, single, None, blocks)
    assert np.isneginf(single).all()


@pytest.mark.parametrize(
    "kinds", [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")]
)
def test_channels(kinds: tuple[str, str], blocks: int) -> None:
    kind, own = kinds
    for shape in ((2, 3, 7), (1, 5, 1), (4, 1, 130)):
        x = numbers(shape, kind, 1)
        scale, shift, mean = (numbers((shape[1],), own, n)[None, :, None] for n in (2, 3, 4))
        variance = np.abs(numbers((shape[1],), own, 5))[None, :, None]
        rows = [storage(one.reshape(-1), own) for one in (scale, shift, mean, variance)]
        given = storage(x, kind).copy()
        out = np.zeros_like(given)
        assert kernels.channels(kind, own, given, *rows, 0.5, out, blocks)
        exact = (x.astype(np.float64) - mean) / np.sqrt(variance + 0.5) * scale + shift
        check(out, exact, kind, {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}.get(kind, 0.0))
        # In place, without statistics.
        assert kernels.channels(kind, own, given, *rows[:2], None, None, 0.5, given, blocks)
        check(
            given, x.astype(np.float64) * scale + shift, kind, {"f16": 2e-3, "bf16": 1.6e-2}.get(kind, 2e-6)
        )


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("width", ["w1", "w2", "w4", "w8"])
def test_one_hot(width: str, kind: str, blocks: int) -> None:
    places = storage(np.array([[0, 2, -1], [3, -3, -4]]), kind)  # of three
    values = numbers((2,), width, 1)
    out = np.zeros((2, 3, 3), values.dtype)
    kernels.one_hot(width, kind, places, values, out, blocks)
    wrapped = np.where(places < 0, places + 3, places)
    expected = values[(wrapped[:, None, :] == np.arange(3)[None, :, None]).astype(int)]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_sizes(kind: str, blocks: int) -> None:
    x = numbers((2, 3, 4, 5), kind, 1)
    given = storage(x, kind)
    # Twice as large, half a place apart: three quarters of the nearer, one of the farther.
    out = np.zeros((2, 3, 8, 5), given.dtype)
    assert kernels.resize(kind, True, given, [1, 1, 2, 1], 0, 0, out, blocks)
    wide = np.concatenate([x[:, :, :1], x, x[:, :, -1:]], axis=2).astype(np.float64)
    expected = np.zeros(out.shape)
    expected[:, :, 0::2] = 0.25 * wide[:, :, :-2] + 0.75 * wide[:, :, 1:-1]
    expected[:, :, 1::2] = 0.75 * wide[:, :, 1:-1] + 0.25 * wide[:, :, 2:]
    check(out, expected, kind, {"f16": 2e-3, "bf16": 1.6e-2}.get(kind, 2e-6))
    assert kernels.resize(kind, False, given, [1, 1, 2, 1], 4, 2, out, blocks)  # asymmetric, floor
    check(out, np.repeat(x, 2, axis=2), kind)
    # Both dimensions, their corners in their places.
    out = np.zeros((2, 3, 7, 9), given.dtype)
    assert kernels.resize(kind, True, given, [1, 1, 1.75, 1.8], 3, 0, out, blocks)
    check(out[:, :, ::2, ::2], x, kind)
    middle = (
        x[:, :, :-1, :-1] + x[:, :, 1:, :-1] + x[:, :, :-1, 1:] + x[:, :, 1:, 1:].astype(np.float64)
    ) / 4
    check(out[:, :, 1::2, 1::2], middle, kind, {"f16": 2e-3, "bf16": 1.6e-2}.get(kind, 2e-6))


@pytest.mark.parametrize("kind", [*FLOATS, "i32", "i64"])
def test_the_largest_in_order(kind: str, blocks: int) -> None:
    for shape, axis in (((5, 37), 1), ((4, 6, 3), 1), ((1, 900), 1)):
        x = np.round(numbers(shape, kind, 1) * 2) / 2 if kind in FLOATS else numbers(shape, kind, 1) // 8
        for kept, smallest in itertools.product(
            (1, 4, shape[axis] if shape[axis] < 40 else 5), (False, True)
        ):
            order = np.argsort(x if smallest else -x.astype(np.float64), axis=axis, kind="stable")
            expected = np.take(order, range(kept), axis=axis)
            given = storage(x, kind)
            values = np.zeros(expected.shape, given.dtype)
            places = np.zeros(expected.shape, np.int64)
            kernels.topk(kind, given, axis, smallest, values, places, blocks)
            assert np.array_equal(places, expected)
            assert np.array_equal(values, np.take_along_axis(given, expected, axis))


def test_what_is_no_number_is_larger_than_all(blocks: int) -> None:
    x = np.array([[1, np.nan, np.inf, -np.inf, np.nan, 2]], np.float32)
    values, places = np.zeros((1, 6), np.float32), np.zeros((1, 6), np.int64)
    kernels.topk("f32", x, 1, False, values, places, blocks)
    assert places.tolist() == [[1, 4, 2, 5, 0, 3]]
    kernels.topk("f32", x, 1, True, values, places, blocks)
    assert places.tolist() == [[3, 0, 5, 2, 1, 4]]


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_what_attention_adds_to_its_scores(kind: str, blocks: int) -> None:
    batches, heads, queries, keys = scores = (2, 3, 4, 5)
    bounds = np.array([5, 3, 1, 0], np.int32)
    counts = np.arange(keys)
    of_bounds = (counts < bounds[:2, None]) & (counts >= bounds[2:, None])
    generator = np.random.default_rng(0)
    of_keys = generator.random((batches, keys)) < 0.5
    of_queries = generator.random((batches, queries, keys)) < 0.5
    masks: list[tuple[np.ndarray, Any]] = [
        (bounds, of_bounds[:, None, None, :]),
        (of_keys.astype(np.int32) * 3 - 2, of_keys[:, None, None, :]),  # -2 and 1
        (of_queries.astype(np.int32), of_queries[:, None]),
    ]
    for mask, stays in masks:
        for shape in (None, (1, 3, 4, 5), (2, 1, 1, 5), (2, 3, 4, 1)):
            added = None if shape is None else numbers(shape, kind, 1)
            given = None if added is None else np.broadcast_to(storage(added, kind), scores)
            out = storage(np.zeros(scores), kind)
            made = kernels.attention_bias(kind, mask, given, scores, -10000.0, out, blocks)
            expected = (0 if added is None else added) + np.where(stays, 0.0, -10000.0)
            expected = np.broadcast_to(expected, (batches, made[0], made[1], keys))
            assert made[0] in (1, heads)
            assert made[1] in (1, queries)
            check(out.reshape(-1)[: expected.size].reshape(expected.shape), expected, kind)


def test_what_is_added_stays_within_the_type() -> None:
    out = np.zeros((1, 1, 1, 2), np.float16)
    mask = np.array([[0, 1]], np.int32)
    kernels.attention_bias("f16", mask, None, (1, 1, 1, 2), -3.4e38, out, 1)
    assert out.reshape(-1).tolist() == [-65504.0, 0.0]
