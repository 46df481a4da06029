"""Nodes that run as one, on a card: every case of the simulated ones."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import test_groups_activation
import test_groups_attention
import test_groups_attention_forms
import test_groups_models
import test_groups_norm
import test_groups_projections
import test_groups_scores

MODULES: list[ModuleType] = [
    test_groups_norm,
    test_groups_activation,
    test_groups_scores,
    test_groups_attention,
    test_groups_attention_forms,
    test_groups_projections,
    test_groups_models,
]


def cases() -> list[Any]:
    """Tests of simulated cards, which have a body that is run in a process of its own there."""
    return [
        pytest.param(test, id=f"{module.__name__}.{name}")
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_") and hasattr(test, "body") and not test.only_simulated
    ]


@pytest.fixture(autouse=True)
def _flavour(card: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the helpers of simulated cards go by."""
    monkeypatch.setenv("SIM_FLAVOUR", card.backend)


@pytest.mark.parametrize("test", cases())
def test_every_case_is_right(test: Any) -> None:
    test.body()
