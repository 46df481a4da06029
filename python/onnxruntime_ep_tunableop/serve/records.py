"""What is known of a request when it has ended: metrics and the access log are made of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Record:
    """Times in seconds, sizes in bytes of bodies. `outcome`: ok, cancelled, or an error's kind."""

    protocol: str  #: rest or grpc
    operation: str
    model: str = ""
    version: str = ""
    id: str = ""
    peer: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    outcome: str = ""
    message: str = ""  #: of an error
    seconds: float = 0.0
    _start: float = field(default_factory=time.monotonic, repr=False)

    def done(self, outcome: str, bytes_out: int = 0, message: str = "") -> None:
        """At its end."""
        self.outcome = outcome
        self.bytes_out = bytes_out
        self.message = message
        self.seconds = time.monotonic() - self._start
