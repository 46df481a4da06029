"""Kernels of cards for what lies between the layers of a network, on the host, against numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from device_helpers import FLOATS, check, kernels, numbers, storage

TOLERANCES = {"f32": 4e-6, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-12}

erf = np.vectorize(math.erf, otypes=[np.float64])
ROOT = math.sqrt(2 / math.pi)
ACTIVATIONS: dict[str, Any] = {
    "bias_add": lambda x: x,
    "bias_relu": lambda x: np.where(x < 0, 0, x),
    "bias_gelu": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    "bias_gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(ROOT * (x + 0.044715 * x**3))),
    "bias_quick_gelu": lambda x: x / (1 + np.exp(-1.5 * x)),
    "bias_tanh": np.tanh,
}


@pytest.mark.parametrize("entry", ACTIVATIONS)
@pytest.mark.parametrize("kind", FLOATS)
def test_bias_activation_gate(kind: str, entry: str, blocks: int) -> None:
    for rows, columns, wider in ((3, 16, 0), (4, 7, 0), (2, 32, 16), (1, 5, 3), (0, 4, 0)):
        x = numbers((rows, columns + wider), kind, 1)
        bias, gate = numbers((columns,), kind, 2), numbers((rows, columns + wider), kind, 3)
        for given in ({}, {"bias": bias}, {"gate": gate}, {"bias": bias, "gate": gate}):
            out = storage(np.zeros((rows, columns)), kind)
            kernels.bias_act(
                *(entry, kind, storage(x, kind), out, blocks),
                **{name: storage(array, kind) for name, array in given.items()},
                alpha=1.5,
            )
            z = x[:, :columns].astype(np.float64) + given.get("bias", 0)
            factor = gate[:, :columns] if "gate" in given else 1
            check(out, ACTIVATIONS[entry](z) * factor, kind, TOLERANCES[kind])


@pytest.mark.parametrize("entry", ["gelu", "gelu_tanh", "quick_gelu"])
def test_quick_activations_of_all_halves(entry: str) -> None:
    """They are what the exact result is rounded to, or its neighbour."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = np.sort(every[np.isfinite(every)])
    z = x.astype(np.float64)
    negated_erfc = np.array([math.erfc(-one / math.sqrt(2)) for one in z])
    with np.errstate(over="ignore"):
        exact = {
            "gelu": z * 0.5 * negated_erfc,
            "gelu_tanh": z / (1 + np.exp(-2 * ROOT * (z + 0.044715 * z**3))),
            "quick_gelu": z / (1 + np.exp(-1.5 * z)),
        }[entry]
    unit = np.spacing(np.minimum(np.abs(exact), 60000).astype(np.float16)).astype(np.float64)
    for family in ("bias_act", "unary"):
        out = np.zeros_like(x)
        if family == "bias_act":
            kernels.bias_act(f"bias_{entry}", "f16", x[None], out[None], 1, alpha=1.5)
        else:
            kernels.unary(f"unary_{entry}", "f16", "f16", x, out, 1, alpha=1.5)
        assert (np.abs(out - exact) <= 0.51 * unit + 4e-7).all()
        near = np.abs(z) < 4
        assert (np.abs(out - exact)[near] <= 0.51 * unit[near] + 5e-4 * np.abs(exact)[near]).all()
    special = np.array([[np.inf, np.nan, 0.0]], np.float16)
    out = np.zeros_like(special)
    kernels.bias_act(f"bias_{entry}", "f16", special, out, 1, alpha=1.5)
    assert np.array_equal(out, special, equal_nan=True)


@pytest.mark.parametrize("kind", FLOATS)
def test_bias_at_addresses_that_allow_no_packs(kind: str) -> None:
    for which in range(4):
        arrays = [storage(numbers((65,), kind, n), kind) for n in range(4)]
        x, bias, gate, out = (a[1:] if n == which else a[:64] for n, a in enumerate(arrays))
        parts = [x.reshape(2, 32), out.reshape(2, 32)]
        kernels.bias_act("bias_relu", kind, *parts, 1, bias=bias[:32], gate=gate.reshape(2, 32))
        again = np.zeros_like(out).reshape(2, 32)
        copies = {"bias": bias[:32].copy(), "gate": gate.reshape(2, 32).copy()}
        kernels.bias_act("bias_relu", kind, parts[0].copy(), again, 1, **copies)
        assert np.array_equal(out.reshape(2, 32), again)


def test_relu_keeps_what_is_no_number() -> None:
    out = np.zeros((1, 4), np.float32)
    x = np.array([[np.nan, -np.inf, np.inf, -1]], np.float32)
    kernels.bias_act("bias_relu", "f32", x, out, 1)
    assert np.array_equal(out, [[np.nan, 0, np.inf, 0]], equal_nan=True)


def rotated(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray, interleaved: bool) -> np.ndarray:
    """x: [batch, sequence, heads, head]; cosines, sines: [batch, sequence, half]."""
    half = cosines.shape[-1]
    turning, rest = x[..., : 2 * half].astype(np.float64), x[..., 2 * half :]
    c, s = cosines[:, :, None], sines[:, :, None]
    a, b = (turning[..., ::2], turning[..., 1::2]) if interleaved else np.split(turning, 2, -1)
    left, right = a * c - b * s, b * c + a * s
    pairs = np.stack([left, right], -1).reshape((*x.shape[:-1], -1))
    return np.concatenate([pairs if interleaved else np.concatenate([left, right], -1), rest], -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
def test_rotary(kind: str, interleaved: bool, blocks: int) -> None:
    batch, sequence, heads = 2, 3, 4
    for head, turning, outside in itertools.product((8, 10), (0, 4), (False, True)):
        half = (turning or head) // 2
        x = numbers((batch, sequence, heads, head), kind, 1)
        table = [numbers((9, half), kind, seed) for seed in (2, 3)]
        own = np.random.default_rng(4).integers(0, 9, (batch, sequence))
        for positions in (own, np.array([5]), None):
            rows = own if positions is own else np.arange(3) + (0 if positions is None else 5)
            rows = np.broadcast_to(rows, (batch, sequence))
            expected = rotated(x, table[0][rows], table[1][rows], interleaved)
            given, wanted = (a.swapaxes(1, 2) if outside else a for a in (x, expected))
            out = storage(np.zeros(wanted.shape), kind)
            assert kernels.rotary(
                *(kind, storage(given, kind), out, *(storage(t, kind) for t in table), blocks),
                positions=positions,
                interleaved=interleaved,
                heads_outside=outside,
                rotated=turning,
            )
            check(out, wanted, kind, TOLERANCES[kind])


@pytest.mark.parametrize("kind", FLOATS)
def test_rotary_with_angles_for_each_token_and_of_a_part(kind: str) -> None:
    x, (cosines, sines) = numbers((2, 3, 40), kind, 1), (numbers((2, 3, 4), kind, n) for n in (2, 3))
    out = storage(np.zeros((2, 3, 2, 8)), kind)
    assert kernels.rotary(kind, storage(x, kind), out, storage(cosines, kind), storage(sines, kind), 1)
    expected = rotated(x[..., :16].reshape(2, 3, 2, 8), cosines, sines, False)
    check(out, expected, kind, TOLERANCES[kind])


def test_positions_outside_give_zeros() -> None:
    x, table = np.ones((1, 3, 1, 4), np.float32), np.ones((5, 2), np.float32)
    out = np.ones_like(x)
    assert kernels.rotary("f32", x, out, table, table, 1, positions=np.array([[5, -1, 4]]))
    assert not out[0, :2].any()
    assert list(out[0, 2, 0]) == [0, 0, 2, 2]
    assert not kernels.rotary("f32", x, out, table, table, 1, rotated=3)


@pytest.mark.parametrize("kind", FLOATS)
def test_rotary_with_an_angle_for_each_number(kind: str, blocks: int) -> None:
    shapes: list[tuple[tuple[int, ...], ...]] = [
        ((2, 3, 5, 16), (2, 1, 5, 16), (2, 1, 5, 16)),
        ((2, 3, 5, 32), (5, 32), (1, 1, 1, 32)),
        ((2, 3, 5, 6), (2, 3, 1, 6), (6,)),
        ((3, 1, 2), (3, 4, 2), (1, 4, 2)),  # x is the smaller one
        ((8,), (8,), (8,)),
    ]
    for x_shape, *tables in shapes:
        x = numbers(x_shape, kind, 1)
        cosines, sines = (numbers(shape, kind, n) for n, shape in enumerate(tables, 2))
        left, right = np.split(x.astype(np.float64), 2, -1)
        expected = x * cosines.astype(np.float64) + np.concatenate([-right, left], -1) * sines
        out = storage(np.zeros(expected.shape), kind)
        arrays = [storage(a, kind) for a in (cosines, sines)]
        assert kernels.rotary_halves(kind, storage(x, kind), out, *arrays, blocks)
        check(out, expected, kind, TOLERANCES[kind])


def test_rotary_of_shapes_that_do_not_fit() -> None:
    x = np.ones((2, 3, 4), np.float32)
    for shape in ((3, 2), (2, 4), (4, 3, 4)):
        table = np.ones(shape, np.float32)
        assert not kernels.rotary_halves("f32", x, np.zeros_like(x), table, table, 1)
    odd = np.ones((2, 3), np.float32)
    assert not kernels.rotary_halves("f32", odd, odd.copy(), odd, odd, 1)
