"""A sum and the norm behind it as one kernel; norms that are written in elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.cards import BOTH, on_card
from support.groups import Array, Net, check, some

N = 24  # columns; in fp16 three packs
Case = Callable[[str], tuple[Net, dict[str, int]]]
ADD, ALONE = "Add+Norm", "Norm"


def gamma(net: Net, n: int = N) -> str:
    return net.constant(some(n, seed=7, low=0.5, high=1.5))


def beta(net: Net, n: int = N) -> str:
    return net.constant(some(n, seed=8))


def layer_norm(net: Net, x: str, n: int = N, **attributes: Any) -> str:
    return net.op("LayerNormalization", x, gamma(net, n), beta(net, n), **({"epsilon": 1e-5} | attributes))


def rms_norm(net: Net, x: str, n: int = N) -> str:
    return net.op("SimplifiedLayerNormalization", x, gamma(net, n), epsilon=1e-5, axis=-1)


def mean(net: Net, x: str, axes: tuple[int, ...] = (-1,), keepdims: int = 1) -> str:
    if net.opset >= 18:
        return net.op("ReduceMean", x, net.ints(*axes), keepdims=keepdims)
    return net.op("ReduceMean", x, axes=list(axes), keepdims=keepdims)


def written_layer_norm(net: Net, x: str, *, square: str = "Pow", twice: bool = False) -> str:
    """As torch exported it before opset 17: ten nodes without the last two."""
    middle = mean(net, x)
    centered = net.op("Sub", x, middle)
    other = net.op("Sub", x, middle) if twice else centered
    squared = net.op("Pow", other, 2.0) if square == "Pow" else net.op("Mul", other, other)
    root = net.op("Sqrt", net.op("Add", mean(net, squared), 1e-5))
    return net.op("Div", centered, root)


def written_rms_norm(net: Net, x: str, form: str, *, cast: str = "") -> str:
    """As in models/llama.py, with the casts that exports in half precision have."""
    inside = net.wide(x) if cast else x
    again = net.wide(x) if cast == "twice" else inside
    number = net.wide_constant if cast else net.constant
    variance = mean(net, net.op("Pow", inside, number(2.0)))
    epsilon = number(1e-5)
    total = net.op("Add", epsilon, variance) if form == "Reciprocal" else net.op("Add", variance, epsilon)
    root = net.op("Pow", total, 0.5) if form == "Power" else net.op("Sqrt", total)
    if form in ("Div", "Power"):
        result = net.op("Div", again, root)
    elif form == "Reciprocal":
        result = net.op("Mul", again, net.op("Reciprocal", root))
    else:
        result = net.op("Mul", net.op("Div", number(1.0), root), again)
    return net.narrow(result) if cast else result


def residual(
    norm: Callable[[Net, str], str], *shapes: tuple[int, ...], out: bool = False, swapped: bool = False
) -> Case:
    """x + skip of those shapes; `out`: somebody reads the sum."""

    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        left, right = (net.input(some(*shape, seed=n)) for n, shape in enumerate(shapes))
        total = net.op("Add", right, left) if swapped else net.op("Add", left, right)
        net.output(norm(net, total))
        if out:
            net.output(net.op("Neg", total))
        return net, {ADD: 2}

    return make


SHAPES = {
    "alike": ((3, 5, N), (3, 5, N)),
    "positions": ((4, 5, N), (1, 5, N)),
    "positions without a batch": ((4, 5, N), (5, N)),
    "a row": ((4, 5, N), (N,)),
    "neither": ((4, 1, N), (1, 5, N)),
    "an element for a row": ((2, 3, N), (2, 3, 1)),
    "neither, with elements": ((2, 1, N), (5, 1)),
    "an element": ((2, 3, N), ()),
    "one row": ((N,), (N,)),
    "nothing": ((0, 3, N), (0, 3, N)),
}


@on_card(*BOTH)
def test_a_sum_and_its_norm() -> None:
    cases: dict[str, Case] = {}
    for name, shapes in SHAPES.items():
        for swapped in (False, True):
            for out in (False, True):
                told = f"{name}{', swapped' if swapped else ''}{', read' if out else ''}"
                cases[told] = residual(layer_norm, *shapes, out=out, swapped=swapped)
        cases[f"{name}, rms"] = residual(rms_norm, *shapes, out=True)
    check(cases, "fp32")
    check(
        {
            name: cases[name]
            for name in (
                "alike, read",
                "positions",
                "an element for a row, swapped, read",
                "neither, rms",
                "alike, rms",
            )
        },
        "fp16",
        "bf16",
    )


@on_card("cuda13")
def test_sizes_that_are_not_known() -> None:
    def dynamic(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        shapes = (((2, 5, N), (1, 5, N)), ((3, 1, N), (3, 4, N)), ((2, 2, N), (1, 1, 1)))
        left = net.input(*(some(*a, seed=1) for a, _ in shapes), dims=["a", "b", None])
        right = net.input(*(some(*b, seed=2) for _, b in shapes), dims=["c", "d", None])
        total = net.op("Add", left, right)
        net.output(layer_norm(net, total), total)
        return net, {ADD: 2}

    def long_rows(kind: str) -> tuple[Net, dict[str, int]]:
        """Longer than what threads keep, of an odd number, and added element by element."""
        net = Net(kind)
        left = net.input(some(2, 3, 5001, seed=1))
        right = net.input(some(2, 3, 1, seed=2))
        net.output(layer_norm(net, net.op("Add", left, right), 5001))
        return net, {ADD: 2}

    check({"dynamic": dynamic, "long": long_rows})


@on_card("cuda13")
def test_what_is_no_sum_and_norm() -> None:
    def other_axis(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        x = net.op("Add", net.input(some(3, 4, 6)), net.input(some(3, 4, 6, seed=1)))
        scale, shift = net.constant(some(4, 6, seed=2)), net.constant(some(4, 6, seed=3))
        net.output(net.op("LayerNormalization", x, scale, shift, axis=1))
        return net, {}

    def statistics(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        x = net.op("Add", net.input(some(3, 4, N)), net.input(some(3, 4, N, seed=1)))
        first, second = net.ops("LayerNormalization", 2, x, gamma(net), beta(net), axis=-1)
        net.output(first, second)
        return net, {}

    def product(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        x = net.op("Mul", net.input(some(3, 4, N)), net.input(some(3, 4, N, seed=1)))
        net.output(layer_norm(net, x))
        return net, {}

    def on_the_way_back(kind: str) -> tuple[Net, dict[str, int]]:
        """The scale is made of the sum: a path leads out of the two nodes and back."""
        net = Net(kind)
        x = net.op("Add", net.input(some(1, N)), net.input(some(1, N, seed=1)))
        scale = net.op("Squeeze", net.op("Abs", x), net.ints(0))
        net.output(net.op("SimplifiedLayerNormalization", x, scale, axis=-1))
        return net, {}

    check({"axis": other_axis, "product": product, "way back": on_the_way_back}, "fp32", "fp16")
    check({"statistics": statistics}, "fp32")


def scaled(net: Net, x: str, *, shift: bool = True, swapped: bool = False) -> str:
    result = net.op("Mul", gamma(net), x) if swapped else net.op("Mul", x, gamma(net))
    if not shift:
        return result
    return net.op("Add", beta(net), result) if swapped else net.op("Add", result, beta(net))


FORMS: dict[str, tuple[Callable[[Net, str], str], int]] = {
    "pow": (lambda net, x: scaled(net, written_layer_norm(net, x)), 9),
    "mul": (lambda net, x: scaled(net, written_layer_norm(net, x, square="Mul"), swapped=True), 9),
    "twice": (lambda net, x: scaled(net, written_layer_norm(net, x, twice=True)), 10),
    "no beta": (lambda net, x: scaled(net, written_layer_norm(net, x), shift=False), 8),
    "rms div": (lambda net, x: scaled(net, written_rms_norm(net, x, "Div"), shift=False), 6),
    "rms power": (lambda net, x: scaled(net, written_rms_norm(net, x, "Power"), shift=False), 6),
    "rms reciprocal": (
        lambda net, x: scaled(net, written_rms_norm(net, x, "Reciprocal"), shift=False, swapped=True),
        7,
    ),
    "rms one over": (lambda net, x: scaled(net, written_rms_norm(net, x, "1/"), shift=False), 7),
    "rms with beta": (lambda net, x: scaled(net, written_rms_norm(net, x, "Div")), 7),
}
CAST_FORMS: dict[str, tuple[Callable[[Net, str], str], int]] = {
    "cast": (lambda net, x: scaled(net, written_rms_norm(net, x, "Reciprocal", cast="once"), shift=False), 9),
    "cast one over": (
        lambda net, x: scaled(net, written_rms_norm(net, x, "1/", cast="once"), shift=False),
        9,
    ),
    "cast twice": (lambda net, x: scaled(net, written_rms_norm(net, x, "Div", cast="twice"), shift=False), 9),
}


def alone(form: Callable[[Net, str], str], nodes: int, opset: int, *, with_sum: bool) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind, opset)
        x = net.input(some(3, 5, N, seed=1))
        if with_sum:
            x = net.op("Add", x, net.input(some(1, 5, N, seed=2)))
            net.output(x)
        net.output(form(net, x))
        return net, {ADD: nodes + 1} if with_sum else {ALONE: nodes}

    return make


@on_card(*BOTH)
def test_norms_in_elementwise_operators() -> None:
    cases: dict[str, Case] = {}
    for name, (form, nodes) in FORMS.items():
        for opset in (14, 18):
            for with_sum in (False, True):
                cases[f"{name}, opset {opset}, {with_sum}"] = alone(form, nodes, opset, with_sum=with_sum)
    check(cases, "fp32")
    check({name: case for name, case in cases.items() if "opset 18, True" in name}, "fp16", "bf16")


@on_card("rocm7")
def test_half_precision_leaves_for_fp32_inside() -> None:
    cases: dict[str, Case] = {}
    for name, (form, nodes) in CAST_FORMS.items():
        for with_sum in (False, True):
            cases[f"{name}, {with_sum}"] = alone(form, nodes, 17, with_sum=with_sum)
    check(cases, "fp16", "bf16")


@on_card("cuda13")
def test_what_is_no_norm() -> None:
    def near(change: str) -> Case:
        def make(kind: str) -> tuple[Net, dict[str, int]]:
            net = Net(kind)
            x = net.input(some(N, N, N, seed=1))  # a variance without its dimension fits, too
            axes, keep = ((1,) if change == "axis" else (-1,)), (0 if change == "dropped" else 1)
            square = net.op("Pow", x, 3.0 if change == "power" else 2.0)
            variance = mean(net, net.op("Abs", square) if change == "power" else square, axes, keep)
            root = net.op("Sqrt", net.op("Add", variance, 1e-5))
            result = net.op("Div", net.op("Abs", x) if change == "other" else x, root)
            result = net.op("Mul", result, gamma(net, 1) if change == "gamma" else gamma(net))
            net.output(result)
            if change == "read":
                net.output(variance)
            return net, {}

        return make

    def centre(kind: str) -> tuple[Net, dict[str, int]]:
        """The mean is another value's."""
        net = Net(kind)
        x, y = net.input(some(3, N, seed=1)), net.input(some(3, N, seed=2))
        centered = net.op("Sub", x, mean(net, y))
        root = net.op("Sqrt", net.op("Add", mean(net, net.op("Mul", centered, centered)), 1e-5))
        net.output(net.op("Mul", net.op("Div", centered, root), gamma(net)))
        return net, {}

    changes = ("axis", "dropped", "power", "other", "gamma", "read")
    check({change: near(change) for change in changes} | {"centre": centre}, "fp32")


def test_the_net_rounds_as_types_do() -> None:
    net = Net("bf16")
    net.input(np.array([1.00390625, 1.01171875], np.float32))
    assert net.runs[0]["in0"].tolist() == [1.0, 1.015625]  # halves go to even


ROWS = "Gather+Norm"


def picked(net: Net, rows: int, places: Array, *, seed: int) -> str:
    table = net.constant(some(rows, N, seed=seed))
    return net.op("Gather", table, net.input(places), axis=0)


def embedded(
    *parts: tuple[int, ...] | str,
    norm: Callable[[Net, str], str] = layer_norm,
    out: bool = False,
    nodes: int = 1,
) -> Case:
    """Parts: shapes of places in a table of 7, or of a tensor that is added; "fixed": a constant."""

    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        rng = np.random.default_rng(5)
        total, count = "", 0
        for seed, shape in enumerate(parts):
            if isinstance(shape, str):
                part = net.constant(some(1, 5, N, seed=seed))
            elif shape and shape[-1] == N:
                part = net.input(some(*shape, seed=seed))
            else:
                dtype = np.int32 if seed == 1 else np.int64
                part = picked(net, 7, rng.integers(-7, 7, shape).astype(dtype), seed=seed)
                count += 1
            total, count = (net.op("Add", total, part), count + 1) if total else (part, count)
        net.output(norm(net, total))
        if out:
            net.output(net.op("Neg", total))
        return net, {ROWS: count + nodes}

    return make


@on_card(*BOTH)
def test_embeddings_and_their_norm() -> None:
    cases = {
        "three": embedded((3, 5), (3, 5), (1, 5)),
        "three, read": embedded((3, 5), (1, 1), (5,), out=True),
        "two and a constant": embedded((3, 5), (3, 1), "fixed", out=True),
        "two": embedded((3, 5), (5,), norm=rms_norm),
        "one and a tensor": embedded((3, 1), (4, 1, 5, N), out=True),
        "one, read": embedded((3, 5), norm=rms_norm, out=True),
        "a scalar": embedded((), norm=rms_norm),
        "none": embedded((0, 5), (1, 5)),
        "written": embedded(
            (3, 5), norm=FORMS["rms reciprocal"][0], out=True, nodes=FORMS["rms reciprocal"][1]
        ),
    }
    check(cases, "fp32")
    check({name: cases[name] for name in ("three", "one, read", "written")}, "fp16", "bf16")


@on_card("cuda13")
def test_what_are_no_embeddings() -> None:
    def read(kind: str) -> tuple[Net, dict[str, int]]:
        """What is picked is wanted by itself, and is added as it is."""
        net = Net(kind)
        words = picked(net, 7, np.array([[1, 2, 3]]), seed=1)
        total = net.op("Add", words, net.input(some(2, 3, N, seed=2)))
        net.output(words, layer_norm(net, total))
        return net, {ADD: 2}

    def columns(kind: str) -> tuple[Net, dict[str, int]]:
        """Picked along the other axis."""
        net = Net(kind)
        table = net.constant(some(N, 9, seed=1))
        words = net.op("Gather", table, net.input(np.arange(N) % 9), axis=1)
        net.output(layer_norm(net, net.op("Add", words, net.input(some(N, N, seed=2)))))
        return net, {ADD: 2}

    def narrow(kind: str) -> tuple[Net, dict[str, int]]:
        """A table of one column, which is broadcast."""
        net = Net(kind)
        table = net.constant(some(7, 1, seed=1))
        words = net.op("Gather", table, net.input(np.array([[1, 2, 3]])), axis=0)
        net.output(layer_norm(net, net.op("Add", words, net.input(some(2, 3, N, seed=2)))))
        return net, {ADD: 2}

    def four(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        total = picked(net, 7, np.array([[1, 2, 3]]), seed=1)
        for seed in range(3):
            total = net.op("Add", total, net.input(some(2, 3, N, seed=seed)))
        net.output(layer_norm(net, total))
        return net, {ADD: 2}

    check({"read": read, "columns": columns, "narrow": narrow, "four": four}, "fp32")
