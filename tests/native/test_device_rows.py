"""Normalising and softmax of cards, on the host, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_helpers import FLOATS, bits, check, kernels, numbers, storage

#: The last ones do not fit into a thread's registers, or into packs.
COLUMNS = [1, 8, 16, 31, 32, 48, 257, 512]
TOLERANCES = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-11}


def normalised(z: np.ndarray, epsilon: float, mean: bool) -> tuple[np.ndarray, ...]:
    z = z.astype(np.float64)
    middle = z.mean(-1, keepdims=True) if mean else np.zeros((*z.shape[:-1], 1))
    inverse = 1 / np.sqrt(((z - middle) ** 2).mean(-1, keepdims=True) + epsilon)
    return (z - middle) * inverse, middle[..., 0], inverse[..., 0]


@pytest.mark.parametrize("entry", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("kind", FLOATS)
def test_norms(kind: str, entry: str, blocks: int) -> None:
    for columns in COLUMNS:
        x = numbers((2, 3, columns), kind, columns)
        gamma, beta = numbers((columns,), kind, 1), numbers((columns,), kind, 2)
        out = storage(np.zeros_like(x), kind)
        mean, inverse = np.full((2, 3), 7, np.float32), np.zeros((2, 3), np.float32)
        assert kernels.layer_norm(
            *(entry, kind, storage(x, kind), out, 1e-5, blocks),
            gamma=storage(gamma, kind),
            beta=storage(beta, kind),
            mean=mean,
            inverse=inverse,
        )
        expected, middle, factor = normalised(x, 1e-5, entry == "layer_norm")
        check(out, expected * gamma + beta, kind, TOLERANCES[kind])
        np.testing.assert_allclose(inverse, factor, rtol=1e-4)
        if entry == "layer_norm":
            np.testing.assert_allclose(mean, middle, rtol=1e-4, atol=1e-4)
        else:
            assert (mean == 7).all()


#: x and what is added to it.
SKIPS = [((2, 3), (2, 3)), ((4, 3), (1, 3)), ((4, 3), (3,)), ((1, 3), (4, 1)), ((3,), (2, 3)), ((), ())]


@pytest.mark.parametrize("entry", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("kind", FLOATS)
def test_norms_of_sums(kind: str, entry: str, blocks: int) -> None:
    for rows, skip_rows in SKIPS:
        for columns in (7, 32, 96):
            x, skip = numbers((*rows, columns), kind, 1), numbers((*skip_rows, columns), kind, 2)
            bias, gamma = numbers((columns,), kind, 3), numbers((columns,), kind, 4)
            z = x.astype(np.float64) + skip + bias
            out, total = storage(np.zeros(z.shape), kind), storage(np.zeros(z.shape), kind)
            given = {"skip": skip, "bias": bias, "gamma": gamma}
            assert kernels.layer_norm(
                *(entry, kind, storage(x, kind), out, 1e-6, blocks),
                **{name: storage(array, kind) for name, array in given.items()},
                sum=total,
            )
            check(total, z, kind)
            check(out, normalised(z, 1e-6, entry == "layer_norm")[0] * gamma, kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", FLOATS)
def test_norms_at_addresses_that_allow_no_packs(kind: str) -> None:
    names = ["x", "out", "gamma", "beta", "skip"]
    for which in names:
        arrays = {name: storage(numbers((1, 65), kind, n), kind) for n, name in enumerate(names)}
        parts = {name: a[:, 1:] if name == which else a[:, :64] for name, a in arrays.items()}
        z = bits(parts["x"], kind).astype(np.float64) + bits(parts["skip"], kind)
        x, out = parts.pop("x"), parts.pop("out")
        assert kernels.layer_norm("layer_norm", kind, x, out, 1e-5, 1, **parts)
        expected = normalised(z, 1e-5, True)[0] * bits(parts["gamma"], kind) + bits(parts["beta"], kind)
        check(out, expected, kind, TOLERANCES[kind])


def test_rows_that_do_not_fit_are_refused() -> None:
    x, skip, out = (np.zeros(shape, np.float32) for shape in ((2, 3, 8), (2, 2, 8), (2, 3, 8)))
    assert not kernels.layer_norm("layer_norm", "f32", x, out, 1e-5, 1, skip=skip)
    assert not kernels.softmax("f32", "f32", x, out, 1, mask=np.zeros((2, 8), np.float32))


def softmax(z: np.ndarray, axis: int = -1, log: bool = False) -> np.ndarray:
    z = z.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = z - z.max(axis, keepdims=True)
        total = np.exp(shifted).sum(axis, keepdims=True)
        return shifted - np.log(total) if log else np.exp(shifted) / total


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_softmax(kind: str, log: bool, blocks: int) -> None:
    for columns in COLUMNS:
        x = numbers((2, 3, columns), kind, columns)
        out = storage(np.zeros_like(x), kind)
        assert kernels.softmax(kind, kind, storage(x, kind), out, blocks, log=log)
        check(out, softmax(x, log=log), kind, TOLERANCES[kind])


def test_softmax_of_one_number() -> None:
    out = np.zeros((), np.float32)
    assert kernels.softmax("f32", "f32", np.full((), 5, np.float32), out, 1)
    assert out == 1


def test_softmax_of_what_is_no_number_or_infinite() -> None:
    x = np.array([[-np.inf] * 3, [np.inf, 0, 0], [np.nan, 0, 0], [0, -np.inf, 0]], np.float32)
    out = np.zeros_like(x)
    assert kernels.softmax("f32", "f32", x, out, 1)
    assert np.isnan(out[:3]).all()
    assert list(out[3]) == [0.5, 0, 0.5]
    out = np.zeros((2, 40), np.float32)  # the same in rows of more than 32
    x = np.zeros((2, 40), np.float32)
    x[0, 39] = np.nan
    x[1, :39] = -np.inf
    assert kernels.softmax("f32", "f32", x, out, 1)
    assert np.isnan(out[0]).all()
    assert list(out[1]) == [0.0] * 39 + [1.0]


MASKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 4, 16), (2, 3, 4, 16)),
    ((2, 3, 4, 16), (2, 1, 1, 16)),
    ((2, 3, 4, 64), (1, 1, 4, 64)),
    ((2, 3, 4, 16), (4, 16)),
    ((2, 3, 4, 16), (16,)),
    ((2, 3, 4, 16), (1,)),
    ((2, 3, 4, 16), (3, 1, 1)),
    ((2, 3, 4, 50), (2, 1, 4, 50)),
    ((5, 1), (5, 1)),
    ((5, 33), (5, 1)),
]


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_masked(kind: str, flags: bool, blocks: int) -> None:
    for shape, mask_shape in MASKS:
        x = numbers(shape, kind, 1)
        given: dict[str, Any]
        if flags:
            mask = numbers(mask_shape, "b", 2)
            mask[..., 0] = True
            added = np.where(mask, 0, -np.inf)
        else:
            added = mask = numbers(mask_shape, kind, 2)
        given = {"mask": storage(mask, "b" if flags else kind), "scale": 0.125}
        out = storage(np.zeros(shape), kind)
        assert kernels.softmax(kind, "b" if flags else kind, storage(x, kind), out, blocks, **given)
        check(out, softmax(x * 0.125 + added), kind, TOLERANCES[kind])


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_flags_that_put_a_number_in_place(kind: str, inverted: bool, blocks: int) -> None:
    for shape, mask_shape in MASKS:
        x = numbers(shape, kind, 1)
        flags = numbers(mask_shape, "b", 2)
        flags[0] = inverted  # rows in which all is hidden are even
        out = storage(np.zeros(shape), kind)
        for hidden in (-3.0, -65504.0):
            given = {"mask": flags, "scale": 0.125, "hidden": hidden, "inverted": inverted}
            assert kernels.softmax(kind, "b", storage(x, kind), out, blocks, **given)
            z = np.where(flags != inverted, x * 0.125, hidden)
            check(out, softmax(z), kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", FLOATS)
def test_softmax_in_place(kind: str) -> None:
    for columns in [*COLUMNS, 4096]:
        x = numbers((5, columns), kind, columns)
        out = storage(x.copy(), kind)
        assert kernels.softmax(kind, kind, out, out, 1)
        check(out, softmax(x), kind, TOLERANCES[kind])


@pytest.mark.parametrize("entry", ["embed_layer_norm", "embed_rms_norm"])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_embeddings(kind: str, entry: str, blocks: int) -> None:
    rng = np.random.default_rng(1)
    for columns in [*COLUMNS, 4096]:
        tables = [numbers((rows, columns), kind, rows) for rows in (9, 4, 5)]
        words = rng.integers(-9, 9, (3, 5))
        kinds = rng.integers(0, 4, (3, 1)).astype(np.int32)
        gamma, beta = numbers((columns,), kind, 1), numbers((columns,), kind, 2)
        for count in (1, 2, 3):
            picked = [tables[0][words], tables[1][kinds], tables[2]][:count]
            z = sum(part.astype(np.float64) for part in picked)
            out, total = (storage(np.zeros(z.shape), kind) for _ in range(2))
            assert kernels.embed_norm(
                *(entry, kind, [storage(t, kind) for t in tables[:count]], [words, kinds, None][:count]),
                *(out, 1e-3, blocks),
                gamma=storage(gamma, kind),
                beta=storage(beta, kind) if count > 1 else None,
                sum=total if count != 2 else None,
            )
            expected = normalised(z, 1e-3, entry == "embed_layer_norm")[0] * gamma
            check(out, expected + beta if count > 1 else expected, kind, 2 * TOLERANCES[kind])
            if count != 2:
                check(total, z, kind, TOLERANCES[kind])


def test_places_outside_of_a_table_count_as_zeros() -> None:
    table, gamma = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones(4, np.float32)
    out, total = np.zeros((4, 4), np.float32), np.full((4, 4), 7, np.float32)
    places = np.array([2, 1, -3, -1])
    assert kernels.embed_norm(
        "embed_rms_norm", "f32", [table], [places], out, 1e-5, 1, gamma=gamma, sum=total
    )
    assert not total[[0, 2]].any()
    assert np.array_equal(total[[1, 3]], table[[1, 1]])


@pytest.mark.parametrize("kind", FLOATS)
def test_norm_in_place(kind: str) -> None:
    for columns in [*COLUMNS, 4096]:
        x = numbers((5, columns), kind, columns)
        out = storage(x.copy(), kind)
        assert kernels.layer_norm("layer_norm", kind, out, out, 1e-5, 1)
        check(out, normalised(x, 1e-5, True)[0], kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", FLOATS)
def test_causal(kind: str, blocks: int) -> None:
    for queries, columns, past in ((5, 5, 0), (3, 16, 13), (40, 40, 0), (1, 9, 8), (4, 8, 0)):
        x = numbers((2, 3, queries, columns), kind, 1)
        seen = np.arange(columns) <= np.arange(queries)[:, None] + past
        out = storage(np.zeros(x.shape), kind)
        assert kernels.softmax(kind, kind, storage(x, kind), out, blocks, causal=True, past=past)
        check(out, softmax(np.where(seen, x, -np.inf)), kind, TOLERANCES[kind])
        assert not bits(out, kind)[:, :, ~seen].any()


@pytest.mark.parametrize("kind", FLOATS)
def test_softmax_at_addresses_that_allow_no_packs(kind: str) -> None:
    for which in range(3):
        arrays = [storage(numbers((65,), kind, n), kind) for n in range(3)]
        x, mask, out = (a[1:] if n == which else a[:64] for n, a in enumerate(arrays))
        assert kernels.softmax(kind, kind, x, out, 1, mask=mask)
        expected = softmax(bits(x, kind).astype(np.float64) + bits(mask, kind))
        check(out, expected, kind, TOLERANCES[kind])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_softmax_over_a_dimension_inside(kind: str, log: bool, blocks: int) -> None:
    for shape in ((2, 5, 3), (1, 40, 7), (3, 1, 1), (0, 3, 2)):
        x = numbers(shape, kind, 1)
        out = storage(np.zeros(shape), kind)
        kernels.softmax_inner(kind, storage(x, kind), out, blocks, log)
        expected = softmax(x, 1, log) if x.size else x
        check(out, expected, kind, TOLERANCES[kind])
