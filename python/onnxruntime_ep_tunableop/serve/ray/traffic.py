"""What travels between the front ends and replicas.

Clocks of machines differ: a deadline travels as the time that is left. Errors are answers, so that Ray wraps
them into nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from ..protocol import InferRequest, Kind, ProtocolError


@dataclass(frozen=True)
class Asked:
    """A request. `seconds`: until its deadline, None for none."""

    request: InferRequest
    seconds: float | None

    @classmethod
    def of(cls, request: InferRequest) -> Asked:
        """To be sent now."""
        left = None if request.deadline is None else request.deadline - time.monotonic()
        return cls(replace(request, deadline=None), left)

    def here(self) -> InferRequest:
        """With a deadline by the clock of this machine."""
        if self.seconds is None:
            return self.request
        return replace(self.request, deadline=time.monotonic() + self.seconds)


@dataclass(frozen=True)
class Refusal:
    """A ProtocolError, which would lose its fields on the way."""

    kind: Kind
    message: str
    retry_after: float | None = None

    @classmethod
    def of(cls, error: ProtocolError) -> Refusal:
        """To be sent."""
        return cls(error.kind, str(error), error.retry_after)

    def error(self) -> ProtocolError:
        """To be raised."""
        return ProtocolError(self.kind, self.message, self.retry_after)
