"""Parameters of requests, tensors and outputs: what is refused, and what means something here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .protocol import Parameters
from .tensor_codec import invalid, short

MAX_PARAMETERS = 256

_FLAGS = ("binary_data", "binary_data_output")

#: Microseconds, as Triton has it; a longer time than a day is none.
_TIMEOUT = "timeout"
_LONGEST = 86_400.0


def checked_parameters(what: str, given: object) -> dict[str, str | int | float | bool]:
    """Values of the protocol's types, and nothing that asks for what is not here."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > MAX_PARAMETERS:
        raise invalid(
            f"{what}: expected an object of at most {MAX_PARAMETERS} parameters, found {short(given)}"
        )
    for key, value in given.items():
        if key in _FLAGS and not isinstance(value, bool):
            raise invalid(f"{what}: parameter {short(key)}: expected true or false, found {short(value)}")
        if not isinstance(value, str | int | float | bool):
            raise invalid(
                f"{what}: parameter {short(key)}: expected text, a number, true or false, "
                f"found {short(value)}"
            )
    refuse(what, given)
    return dict(given)


def refuse(what: str, given: Mapping[str, Any]) -> None:
    """Shared memory and classification."""
    if any(str(key).startswith("shared_memory_") for key in given):
        raise invalid(f"{what}: shared memory is not offered here: send the tensor with the request")
    if given.get("classification", 0) != 0:
        raise invalid(f"{what}: classification is not offered here: ask for the output itself")


def deadline_of(given: Parameters, until: float | None = None) -> float | None:
    """When the answer is no longer wanted, of time.monotonic(): parameter `timeout`, or `until` if sooner."""
    timeout = given.get(_TIMEOUT, 0)
    if isinstance(timeout, str | bool) or not timeout >= 0:
        raise invalid(f"parameter 'timeout': expected microseconds, found {short(timeout)}")
    seconds = float(min(timeout, 1e12)) / 1e6
    if not 0 < seconds <= _LONGEST:
        return until
    end = time.monotonic() + seconds
    return end if until is None else min(end, until)
