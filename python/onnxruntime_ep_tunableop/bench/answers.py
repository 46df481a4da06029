"""Whether the sides of a comparison agree, output by output, with a tolerance that fits each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .figures import Agreement, Array, agreement

#: (rtol, atol as a share of the tensor's largest magnitude) by element type of the model's products. Twelve
#: layers of fp32 differ by 1e-5 or so between two providers, of fp16 by 1e-2.
TOLERANCES = {
    "fp32": (1e-3, 1e-3),
    "fp64": (1e-3, 1e-3),
    "fp16": (2e-2, 2e-2),
    "tf32": (2e-2, 2e-2),
    "bf16": (5e-2, 5e-2),
}


def compare(
    got: Mapping[str, Array],
    expected: Mapping[str, Array],
    *,
    element_type: str = "fp32",
    rtol: float | None = None,
    atol: float | None = None,
) -> Agreement:
    """All outputs together: the largest errors, and every reason.

    `atol` None: a share of the largest finite magnitude of each expected tensor, by `element_type`; `rtol`
    None: by `element_type`. Whole numbers must be equal unless a tolerance is given.
    """
    usual, share = TOLERANCES.get(element_type, TOLERANCES["fp32"])
    parts = [agreement({}, {}, 0.0, 0.0)]
    if set(got) != set(expected):
        parts.append(agreement(got, expected, 0.0, 0.0))
    for name in sorted(set(got) & set(expected)):
        value = np.asarray(expected[name])
        exact = value.dtype.kind not in "fcV"
        relative = rtol if rtol is not None else (0.0 if exact else usual)
        absolute = atol if atol is not None else (0.0 if exact else share * _magnitude(value))
        parts.append(agreement({name: got[name]}, {name: value}, relative, absolute))
    return Agreement(
        max(part.absolute for part in parts),
        max(part.relative for part in parts),
        all(part.within for part in parts),
        "; ".join(dict.fromkeys(part.reason for part in parts if part.reason)),
    )


def _magnitude(values: Array) -> float:
    if values.dtype.kind not in "fc":
        return 0.0
    sizes = np.abs(values.astype(np.float64 if values.dtype.kind == "f" else np.complex128))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def vague(answers: Mapping[str, Any]) -> list[str]:
    """Outputs of which an agreement says nothing: NaN is what any kernel makes of NaN."""
    return [
        f"every element of output {name} is NaN: that the answers agree says nothing of it"
        for name, values in answers.items()
        if values.dtype.kind in "fc" and values.size and bool(np.isnan(values).all())
    ]
