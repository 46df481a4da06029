"""Parts of attention as one kernel each: scaled and masked softmax, rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.cards import BOTH, on_card
from support.groups import Array, Net, check, some

Case = Callable[[str], tuple[Net, dict[str, int]]]
SOFTMAX, ROTARY = "Mask+Softmax", "Rotary"
B, H, S, T, D = 2, 3, 4, 24, 8  # batch, heads, queries, keys, size of a head


def scores(net: Net) -> str:
    queries, keys = net.input(some(B, H, S, D, seed=1)), net.input(some(B, H, D, T, seed=2))
    return net.op("MatMul", queries, keys)


def scaled(net: Net, x: str, how: str) -> str:
    if how == "Div":
        return net.op("Div", x, 2.8284271)
    if how == "Mul":
        return net.op("Mul", 0.35355338, x)
    return x


MASKS: dict[str, tuple[int, ...]] = {
    "keys": (B, 1, 1, T),
    "queries and keys": (1, 1, S, T),
    "all": (B, H, S, T),
    "row": (T,),
    "element for a row": (B, 1, S, 1),
    "element": (),
}


def masked(mask: tuple[int, ...], how: str, *, swapped: bool = False) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        added = net.input(some(*mask, seed=3))
        x = scaled(net, scores(net), how)
        total = net.op("Add", added, x) if swapped else net.op("Add", x, added)
        net.output(net.op("Softmax", total, axis=3 if swapped else -1))
        return net, {SOFTMAX: 2 + (how != "")}

    return make


def flags(shape: tuple[int, ...], *, hidden: bool) -> Array:
    """One key at least is seen by each query, but for the very last where the mask is large."""
    values = np.asarray(np.random.default_rng(4).random(shape) < 0.5)
    if values.ndim and values.shape[-1] > 1:
        values[..., 0] = False
    if values.size >= S * T:
        values[(-1,) * (values.ndim - 1)] = True
    return np.asarray(values if hidden else ~values)


def chosen(mask: tuple[int, ...], how: str, number: float, *, hidden: bool) -> Case:
    """A Where: `hidden`, its flags are true where the number takes the score's place."""

    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        flag = net.input(flags(mask, hidden=hidden))
        x = scaled(net, scores(net), how)
        total = net.op("Where", flag, number, x) if hidden else net.op("Where", flag, x, number)
        net.output(net.op("Softmax", total, axis=-1))
        return net, {SOFTMAX: 2 + (how != "")}

    return make


@on_card(*BOTH)
def test_scaled_and_masked_softmax() -> None:
    cases: dict[str, Case] = {}
    for name, mask in MASKS.items():
        for how in ("Div", "Mul", ""):
            cases[f"{name} {how}"] = masked(mask, how, swapped=how == "Mul")
        for number in (-np.inf, -65504.0, -1e4):
            for hidden in (False, True):
                how = "Div" if hidden else "Mul"
                cases[f"where {name} {number} {hidden}"] = chosen(mask, how, float(number), hidden=hidden)

    def only_scaled(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        net.output(net.op("Softmax", scaled(net, scaled(net, scores(net), "Div"), "Mul"), axis=-1))
        return net, {SOFTMAX: 3}

    cases["scaled"] = only_scaled
    check(cases, "fp32")
    check(
        {
            name: cases[name]
            for name in (
                "keys Div",
                "element for a row Mul",
                "where all -10000.0 True",
                "where keys -inf False",
                "scaled",
            )
        },
        "fp16",
        "bf16",
    )


@on_card("rocm7")
def test_half_precision_leaves_for_fp32_inside() -> None:
    def cast(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        total = net.op("Add", scaled(net, scores(net), "Mul"), net.input(some(B, 1, S, T, seed=3)))
        net.output(net.narrow(net.op("Softmax", net.wide(total), axis=-1)))
        return net, {SOFTMAX: 5}

    def not_back(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        total = net.op("Add", scores(net), net.input(some(B, 1, S, T, seed=3)))
        net.output(net.op("Softmax", net.wide(total), axis=-1))
        return net, {}

    check({"cast": cast, "not back": not_back}, "fp16", "bf16")


@on_card("cuda13")
def test_a_mask_that_gives_the_scores_other_dimensions() -> None:
    def dynamic(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        shapes = (
            ((2, 3, 4, D), (D, 7), (2, 1, 1, 7)),
            ((1, 3, 1, D), (D, 5), (4, 1, 2, 5)),
            ((2, 3, 4, D), (D, 1), (1, 1, 4, 6)),
        )
        queries = net.input(*(some(*q, seed=1) for q, _, _ in shapes), dims=["a", "b", "c", D])
        keys = net.input(*(some(*k, seed=2) for _, k, _ in shapes), dims=[D, "d"])
        mask = net.input(*(some(*m, seed=3) for _, _, m in shapes), dims=["e", "f", "g", "h"])
        x = scaled(net, net.op("MatMul", queries, keys), "Div")
        net.output(net.op("Softmax", net.op("Add", mask, x), axis=-1))
        return net, {SOFTMAX: 3}

    check({"dynamic": dynamic})


@on_card("cuda13")
def test_what_is_no_masked_softmax() -> None:
    def near(change: str) -> Case:
        def make(kind: str) -> tuple[Net, dict[str, int]]:
            net = Net(kind)
            x = scores(net) if change != "no product" else net.op("Abs", net.input(some(B, H, S, T)))
            x = net.op("Div", x, 2.0)
            mask = net.input(some(B, 1, 1, T, seed=3))
            total = net.op("Add", x, mask)
            if change == "where":
                total = net.op("Where", net.input(flags((B, 1, 1, T), hidden=False)), x, mask)
            chances = net.op("Softmax", total, axis=1 if change == "axis" else -1)
            net.output(chances)
            if change == "read":
                net.output(net.op("Neg", total))
            return net, {}

        return make

    check({c: near(c) for c in ("no product", "where", "axis", "read")}, "fp32")

    def inner_row(kind: str) -> tuple[Net, dict[str, int]]:
        """Scaled by a row, which is no scale."""
        net = Net(kind)
        x = net.op("Mul", scores(net), net.constant(some(T, low=1.0)))
        net.output(net.op("Softmax", net.op("Add", x, net.input(some(B, 1, 1, T))), axis=-1))
        return net, {}

    def old(kind: str) -> tuple[Net, dict[str, int]]:
        """Until opset 12 a softmax is over all from the axis on."""
        net = Net(kind, 12)
        x = net.op("Add", scaled(net, scores(net), "Div"), net.input(some(B, 1, 1, T)))
        net.output(net.op("Softmax", x, axis=1), net.op("Softmax", x, axis=-1))
        return net, {}

    check({"row": inner_row, "old": old}, "fp32")


def mask_of(x: Array, op: str, *, swapped: bool = False, read: str = "", scale: float | None = -1e4) -> Case:
    """(1 - cast) * scale, (cast - 1) * scale or (cast + 1) * scale."""

    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        wide = net.narrow(net.input(x))
        total = net.op(op, 1.0, wide) if swapped else net.op(op, wide, 1.0)
        factor: str | float = net.constant(some(x.shape[-1])) if scale is None else scale
        net.output(net.op("Mul", total, factor) if swapped else net.op("Mul", factor, total))
        if read:
            net.output(net.op("Neg", {"cast": wide, "sum": total}[read]))
        return net, {} if read or scale is None else {"Cast+Mul": 3}

    return make


@on_card(*BOTH)
def test_masks_made_of_what_counts() -> None:
    flags_64 = np.array([[1, 1, 0], [1, 0, 0]])
    cases = {
        "one less": mask_of(flags_64, "Sub", swapped=True),
        "less one": mask_of(flags_64.astype(np.int32), "Sub"),
        "more": mask_of(flags_64, "Add", swapped=True),
        "more, swapped": mask_of(np.arange(70).reshape(2, 1, 35), "Add", scale=-10.0),
        "of bool": mask_of(flags_64 == 1, "Sub", swapped=True),
        "nothing": mask_of(np.zeros((0, 3), np.int64), "Sub", swapped=True),
        "cast read": mask_of(flags_64, "Sub", swapped=True, read="cast"),
        "sum read": mask_of(flags_64, "Sub", swapped=True, read="sum"),
        "times a row": mask_of(flags_64, "Sub", swapped=True, scale=None),
    }
    check(cases)


def rotated(net: Net, x: str, cosines: str, sines: str, **change: Any) -> str:
    """As models/llama.py writes it, or with a Split."""
    size, half = 16, 8
    axis = change.get("axis", -1)
    if change.get("split"):
        first, second = net.ops("Split", 2, x, axis=axis)
    else:
        begin = change.get("begin", half)
        first = net.op("Slice", x, net.ints(0), net.ints(begin), net.ints(axis))
        ends = net.ints(np.iinfo(np.int64).max if change.get("open") else size)
        second = net.op("Slice", x, net.ints(-half if change.get("open") else begin), ends, net.ints(axis))
    if change.get("read"):
        net.output(second)
    parts = (net.op("Neg", second), first)
    if change.get("other"):
        parts = (second, net.op("Neg", first))
    turned = net.op("Concat", *parts, axis=axis)
    if change.get("swapped"):
        return net.op("Add", net.op("Mul", sines, turned), net.op("Mul", cosines, x))
    return net.op("Add", net.op("Mul", x, cosines), net.op("Mul", turned, sines))


def rotary(table: tuple[int, ...], expected: int, **change: Any) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind, 17)
        x = net.input(some(2, 3, 5, 16, seed=1))
        cosines, sines = net.input(some(*table, seed=2)), net.input(some(*table, seed=3))
        net.output(rotated(net, x, cosines, sines, **change))
        return net, {ROTARY: expected} if expected else {}

    return make


@on_card(*BOTH)
def test_rotary_positions() -> None:
    cases = {
        "slices": rotary((2, 1, 5, 16), 7),
        "open slices": rotary((1, 1, 5, 16), 7, open=True, swapped=True),
        "axis": rotary((5, 16), 7, axis=3),
        "split": rotary((2, 3, 5, 16), 6, split=True),
        "row": rotary((16,), 6, split=True, swapped=True),
        "larger than x": rotary((4, 2, 3, 5, 16), 7),
    }
    check(cases)


@on_card("cuda13")
def test_what_is_no_rotary() -> None:
    cases = {
        "axis": rotary((2, 1, 5, 16), 0, axis=2, begin=2),
        "first negated": rotary((2, 1, 5, 16), 0, other=True),
        "read": rotary((2, 1, 5, 16), 0, read=True),
        "an angle for a row": rotary((2, 1, 5, 1), 0),
        "not in the middle": rotary((2, 1, 5, 16), 0, begin=6),
    }
    check(cases, "fp32")
