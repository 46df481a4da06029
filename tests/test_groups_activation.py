"""Activations as one kernel: however they are written, with a bias before them or a factor behind."""

from __future__ import annotations

import math
from collections.abc import Callable

from support.cards import BOTH, on_card
from support.groups import CONTRIB, Net, check, some

N = 24
Case = Callable[[str], tuple[Net, dict[str, int]]]
Form = Callable[[Net, str], str]
ALONE, BIAS, GATE = "Activation", "Add+Activation", "Activation+Mul"
ROOT, TANH, CUBIC = math.sqrt(2.0), math.sqrt(2.0 / math.pi), 0.044715


def one_and_erf(net: Net, x: str, *, divided: bool = True, swapped: bool = False) -> str:
    inner = net.op("Div", x, ROOT) if divided else net.op("Mul", x, 1.0 / ROOT)
    erf = net.op("Erf", inner)
    return net.op("Add", 1.0, erf) if swapped else net.op("Add", erf, 1.0)


def tanh_of_sum(net: Net, x: str, *, cube: str = "Pow", swapped: bool = False) -> str:
    """1 + tanh(c * (x + d * x^3))."""
    if cube == "Pow":
        third = net.op("Mul", net.op("Pow", x, 3.0), CUBIC)
    elif cube == "x*x*x":
        third = net.op("Mul", CUBIC, net.op("Mul", net.op("Mul", x, x), x))
    else:
        third = net.op("Mul", net.op("Mul", x, CUBIC), net.op("Pow", x, 2.0))
    total = net.op("Add", third, x) if swapped else net.op("Add", x, third)
    inner = net.op("Mul", TANH, total) if swapped else net.op("Mul", total, TANH)
    return net.op("Add", net.op("Tanh", inner), 1.0)


def tanh_of_product(net: Net, x: str) -> str:
    """1 + tanh(c * x * (1 + d * x * x))."""
    square = net.op("Mul", net.op("Mul", x, CUBIC), x)
    inner = net.op("Mul", net.op("Mul", x, TANH), net.op("Add", 1.0, square))
    return net.op("Add", 1.0, net.op("Tanh", inner))


#: How x / 2 * (1 + f(x)) is put together, and how many nodes that takes.
HALVES: dict[str, Callable[[Net, str, str], str]] = {
    "half last": lambda net, x, y: net.op("Mul", net.op("Mul", x, y), 0.5),
    "half last, in front": lambda net, x, y: net.op("Mul", 0.5, net.op("Mul", y, x)),
    "half first": lambda net, x, y: net.op("Mul", net.op("Mul", x, 0.5), y),
    "half first, swapped": lambda net, x, y: net.op("Mul", y, net.op("Mul", 0.5, x)),
    "half of the sum": lambda net, x, y: net.op("Mul", x, net.op("Mul", y, 0.5)),
    "by two": lambda net, x, y: net.op("Mul", net.op("Div", x, 2.0), y),
    "by two at the end": lambda net, x, y: net.op("Div", net.op("Mul", x, y), 2.0),
}
INNER: dict[str, tuple[Form, int]] = {
    "erf": (one_and_erf, 3),
    "erf, mul": (lambda net, x: one_and_erf(net, x, divided=False), 3),
    "erf, swapped": (lambda net, x: one_and_erf(net, x, swapped=True), 3),
    "tanh": (tanh_of_sum, 6),
    "tanh, swapped": (lambda net, x: tanh_of_sum(net, x, swapped=True), 6),
    "tanh, products": (lambda net, x: tanh_of_sum(net, x, cube="x*x*x"), 7),
    "tanh, square": (lambda net, x: tanh_of_sum(net, x, cube="x^2"), 7),
    "tanh, fast": (tanh_of_product, 7),
}


def logistic(net: Net, x: str, alpha: float = 1.0, *, swapped: bool = False) -> str:
    sigmoid = net.op("Sigmoid", net.op("Mul", x, alpha) if alpha != 1.0 else x)
    return net.op("Mul", sigmoid, x) if swapped else net.op("Mul", x, sigmoid)


def written(half: str, inner: str) -> tuple[Form, int]:
    form, nodes = INNER[inner]
    return (lambda net, x: HALVES[half](net, x, form(net, x))), nodes + 2


FORMS: dict[str, tuple[Form, int]] = {
    **{f"{half}, {inner}": written(half, inner) for half in HALVES for inner in INNER},
    "silu": (logistic, 2),
    "silu, swapped": (lambda net, x: logistic(net, x, swapped=True), 2),
    "quick gelu": (lambda net, x: logistic(net, x, 1.702), 3),
}
#: One operator each: alone they are no group.
NODES: dict[str, tuple[Form, int]] = {
    "Relu": (lambda net, x: net.op("Relu", x), 1),
    "Gelu": (lambda net, x: net.op("Gelu", x, domain=CONTRIB), 1),
    "FastGelu": (lambda net, x: net.op("FastGelu", x, domain=CONTRIB), 1),
    "QuickGelu": (lambda net, x: net.op("QuickGelu", x, domain=CONTRIB, alpha=1.5), 1),
}


def alone(form: Form, nodes: int) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        net.output(form(net, net.input(some(2, 5, N, low=-4.0, high=4.0))))
        return net, {ALONE: nodes} if nodes > 1 else {}

    return make


def biased(form: Form, nodes: int, *, swapped: bool = False) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        x, row = net.input(some(2, 5, N)), net.constant(some(N, seed=3))
        net.output(form(net, net.op("Add", row, x) if swapped else net.op("Add", x, row)))
        return net, {BIAS: nodes + 1}

    return make


def gated(form: Form, nodes: int, *, swapped: bool = False) -> Case:
    def make(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        shapes = (
            ((2, 5, N), (2, 5, N)),
            ((3, 1, N), (3, 1, N)),
            ((3, 4, N), (1, 4, 1)),
            ((1, 4, 1), (2, 1, N)),
        )
        x = net.input(*(some(*a, seed=1) for a, _ in shapes), dims=["a", "b", "c"])
        gate = net.input(*(some(*b, seed=2) for _, b in shapes), dims=["d", "e", "f"])
        act = form(net, x)
        net.output(net.op("Mul", gate, act) if swapped else net.op("Mul", act, gate))
        return net, {GATE: nodes + 1}

    return make


@on_card(*BOTH)
def test_every_way_to_write_one() -> None:
    check({name: alone(*form) for name, form in FORMS.items()}, "fp32")
    some_forms = [f"half last, {inner}" for inner in INNER] + ["silu", "quick gelu", "by two, erf"]
    check({name: alone(*FORMS[name]) for name in some_forms}, "fp16", "bf16")


@on_card(*BOTH)
def test_with_a_bias_before_or_a_factor_behind() -> None:
    cases: dict[str, Case] = {}
    for name in ("half last, erf", "half first, tanh", "by two, tanh, fast", "silu", "quick gelu", *NODES):
        form, nodes = FORMS.get(name) or NODES[name]
        for swapped in (False, True):
            cases[f"bias, {name}, {swapped}"] = biased(form, nodes, swapped=swapped)
            cases[f"gate, {name}, {swapped}"] = gated(form, nodes, swapped=swapped)
    check(cases, "fp32")
    check({n: c for n, c in cases.items() if "silu, True" in n or "erf, False" in n}, "fp16", "bf16")


@on_card("cuda13")
def test_what_is_no_activation() -> None:
    def near(change: str) -> Case:
        def make(kind: str) -> tuple[Net, dict[str, int]]:
            net = Net(kind)
            x = net.input(some(2, 5, N))
            inner = net.op("Div", x, 1.5 if change == "root" else ROOT)
            erf = net.op("Erf", inner)
            total = net.op("Add", erf, 1.1 if change == "one" else 1.0)
            other = net.op("Abs", x) if change == "other" else x
            product = net.op("Mul", other, total)
            net.output(net.op("Mul", product, 0.75 if change == "half" else 0.5))
            reads = {"erf": erf, "inner": inner, "sum": total, "product": product}
            if change in reads:
                net.output(net.op("Neg", reads[change]))
            return net, {}

        return make

    def higher(kind: str) -> tuple[Net, dict[str, int]]:
        """The constant has more dimensions than x: so has the result."""
        net = Net(kind)
        x = net.input(some(5, N))
        product = net.op("Mul", x, one_and_erf(net, x))
        net.output(net.op("Mul", product, net.constant([[[0.5]]])))
        return net, {}

    def cubic(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        x = net.input(some(2, 5, N))
        inner = net.op("Mul", net.op("Add", x, net.op("Mul", net.op("Pow", x, 3.0), 0.05)), TANH)
        net.output(net.op("Mul", net.op("Mul", x, 0.5), net.op("Add", net.op("Tanh", inner), 1.0)))
        return net, {}

    changes = ("root", "one", "other", "half", "erf", "inner", "sum", "product")
    check({change: near(change) for change in changes}, "fp32", "fp16")
    check({"higher": higher, "cubic": cubic}, "fp32")


@on_card("cuda13")
def test_a_bias_or_a_factor_that_others_want() -> None:
    def bias_read(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        total = net.op("Add", net.input(some(2, 5, N)), net.constant(some(N, seed=3)))
        net.output(logistic(net, total), total)
        return net, {ALONE: 2}

    def bias_no_row(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        total = net.op("Add", net.input(some(2, N, N)), net.constant(some(N, 1, seed=3)))
        net.output(logistic(net, total))
        return net, {ALONE: 2}

    def bias_wider(kind: str) -> tuple[Net, dict[str, int]]:
        """x has one column, the bias has many."""
        net = Net(kind)
        total = net.op("Add", net.input(some(2, 5, 1)), net.constant(some(N, seed=3)))
        net.output(logistic(net, total))
        return net, {ALONE: 2}

    def act_read(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        act = logistic(net, net.input(some(2, 5, N)))
        net.output(net.op("Mul", act, net.input(some(2, 5, N, seed=1))), act)
        return net, {ALONE: 2}

    def gate_higher(kind: str) -> tuple[Net, dict[str, int]]:
        net = Net(kind)
        act = logistic(net, net.input(some(5, N)))
        net.output(net.op("Mul", act, net.input(some(2, 5, N, seed=1))))
        return net, {ALONE: 2}

    def unread(kind: str) -> tuple[Net, dict[str, int]]:
        """Nobody wants it: ONNX Runtime makes no output for it."""
        net = Net(kind)
        x = net.input(some(2, 5, N))
        logistic(net, x)
        net.output(net.op("Neg", x))
        return net, {}

    check(
        {
            "unread": unread,
            "bias read": bias_read,
            "no row": bias_no_row,
            "wider": bias_wider,
            "read": act_read,
            "higher": gate_higher,
        },
        "fp32",
    )
