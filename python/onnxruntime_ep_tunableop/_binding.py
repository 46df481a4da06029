"""Bound inputs on a card, with an onnxruntime that has a provider of its own for it.

There our memory is another one to ONNX Runtime than its own provider's, whether or not that is in the
session. So an input on the card whose first reader is ours is copied when it is bound, and a run would read
what it held then: values that are changed in place afterwards (`OrtValue.update_inplace`, a kernel of the
caller's) would silently not be seen. Binding it again copies it again, so that is done before every run. An
input that needs no copy costs a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime as ort


class FreshBinding(ort.IOBinding):
    """An `ort.IOBinding` whose inputs on a card are read as they are when a run begins."""

    def __init__(self, session: ort.InferenceSession) -> None:
        super().__init__(session)
        self._again: dict[str, Callable[[], object]] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """As onnxruntime's: what is on the CPU is copied when it is bound, with any provider of a card."""
        super().bind_cpu_input(name, arr_on_cpu)
        self._again.pop(name, None)

    def bind_input(self, name: str, device_type: str, *rest: Any, **named: Any) -> None:
        """As onnxruntime's."""
        bind = super().bind_input
        bind(name, device_type, *rest, **named)
        self._remember(name, device_type, lambda: bind(name, device_type, *rest, **named))

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """As onnxruntime's."""
        bind = super().bind_ortvalue_input
        bind(name, ortvalue)
        self._remember(name, ortvalue.device_name(), lambda: bind(name, ortvalue))

    def clear_binding_inputs(self) -> None:
        """As onnxruntime's."""
        super().clear_binding_inputs()
        self._again.clear()

    def _remember(self, name: str, device: str, bind: Callable[[], object]) -> None:
        if str(device).lower() == "cpu":
            self._again.pop(name, None)
        else:
            self._again[name] = bind

    @property
    def has_inputs_on_a_card(self) -> bool:
        """Some may be copied when they are bound."""
        return bool(self._again)

    def refresh(self) -> None:
        """Binds every input on a card once more."""
        for bind in self._again.values():
            bind()
