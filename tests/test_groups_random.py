"""Random graphs of what patterns are made of: whatever is found, the answers are the CPU provider's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnxruntime as ort
import pytest
import test_groups_activation
import test_groups_norm
from support.cards import card_session, on_card
from support.groups import Array, Net, fused, settings, some

N = 24
#: Of the largest number of an output: values grow on their way, and roundings with them.
TOLERANCES = {"fp32": 3e-4, "fp16": 6e-2}
FORMS: list[Callable[[Net, str], str]] = [
    *(form for form, _ in test_groups_activation.FORMS.values()),
    *(form for form, _ in test_groups_norm.FORMS.values()),
]


def halves(net: Net, x: str) -> tuple[str, str]:
    if net.opset < 18:
        first, second = net.ops("Split", 2, x, axis=-1)
        return first, second
    parts = (net.ints(0), net.ints(N // 2), net.ints(N))
    first, second = (net.op("Slice", x, *ends, net.ints(-1)) for ends in (parts[:2], parts[1:]))
    return first, second


def step(net: Net, rng: random.Random, x: str, other: Callable[[], str]) -> str:
    """What may become a pattern, or a part of one, or come between."""
    what = rng.randrange(12)
    if what < 4:
        return rng.choice(FORMS)(net, x)
    if what < 6:
        operands = [x, other() if what == 4 else net.constant(some(N, seed=3))]
        rng.shuffle(operands)
        total = net.op("Add", *operands)
        return rng.choice(FORMS)(net, total) if rng.random() < 0.5 else total
    if what == 6:
        return net.op("Mul", x, other())
    if what == 7:
        return net.op(rng.choice(["Sigmoid", "Erf", "Tanh", "Neg", "Relu"]), x)
    if what == 8:
        return net.op("Mul", x, rng.choice([0.5, 1.0, 0.70710678, 2.0]))
    if what == 9:
        first, second = halves(net, x)
        turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
        return net.op("Add", net.op("Mul", x, other()), net.op("Mul", turned, other()))
    product = net.op("MatMul", x, net.constant(some(N, N, seed=5, low=-0.4, high=0.4)))
    if what == 10:
        total = net.op("Add", product, net.constant(some(N, seed=6)))
        return net.op("Relu", total) if rng.random() < 0.3 else total
    scores = net.op("Div", product, 3.0) if rng.random() < 0.6 else product
    return net.op("Softmax", net.op("Add", scores, other()) if rng.random() < 0.7 else scores, axis=-1)


def build(seed: int, kind: str) -> Net:
    rng = random.Random(seed)
    net = Net(kind, rng.choice([14, 17, 18]))
    shapes: list[tuple[int, ...]] = [(2, 5, N), (1, 5, N), (2, 1, N), (5, N), (N,), (2, 5, 1)]
    pool = []
    for number in range(3):
        shape = shapes[0] if number == 0 else rng.choice(shapes)
        named = [f"d{number}_{axis}" for axis in range(len(shape) - 1)]
        last = shape[-1] if number == 0 or rng.random() < 0.7 else f"e{number}"
        pool.append(net.input(some(*shape, seed=seed + number), dims=[*named, last]))
    whole = [pool[0]]
    for _ in range(rng.randint(2, 7)):
        made = step(net, rng, rng.choice(whole[-3:]), lambda: rng.choice(pool))
        pool.append(made)
        whole.append(made)
        if rng.random() < 0.25:
            net.output(made)  # others end in nothing
    net.output(whole[-1])
    return net


def largest_error(got: Array, right: Array) -> float:
    assert got.shape == right.shape
    finite = np.isfinite(right)
    if not finite.any():
        return 0.0
    return float(np.abs(got - right)[finite].max() / max(1.0, np.abs(right[finite]).max()))


@pytest.mark.parametrize("kind", list(TOLERANCES))
@on_card("cuda13")
def test_random_graphs(kind: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(30):
        net = build(seed, kind)
        exact = ort.InferenceSession(
            net.model(exact=True).SerializeToString(), settings(), providers=["CPUExecutionProvider"]
        )
        expected = exact.run(None, net.feeds(0, exact=True))
        for level in (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
            options = settings()
            options.graph_optimization_level = level
            session = card_session(net.model(exact=False), settings=options, claim="all")
            found += fused(session)
            for got, right in zip(session.run(None, net.feeds(0, exact=False)), expected, strict=True):
                assert largest_error(got, right) <= TOLERANCES[kind], f"seed {seed}: {fused(session)}"
    assert {"Activation", "Norm", "Add+Norm", "Rotary", "MatMul+Add", "Mask+Softmax"} <= set(found), found
