"""One line of JSON for each request, but for probes that find all well."""

from __future__ import annotations

import datetime
import json
from typing import TextIO

from .records import Record

_LONGEST = 256

#: What comes every few seconds and says nothing while all is well.
_PROBES = ("live", "ready", "metrics_text", "ServerLive", "ServerReady", "Check")


class AccessLog:
    """Writes to a stream that it does not own. A stream that fails is written to no more: requests go on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def write(self, record: Record) -> None:
        """Used from the event loop only."""
        if self._stream is None or (record.operation in _PROBES and record.outcome == "ok"):
            return
        entry = {
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            "protocol": record.protocol,
            "operation": record.operation,
            "model": record.model[:_LONGEST],
            "version": record.version[:_LONGEST],
            "id": record.id[:_LONGEST],
            "peer": record.peer,
            "outcome": record.outcome,
            "milliseconds": round(record.seconds * 1e3, 3),
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
        }
        if record.message:
            entry["message"] = record.message[:_LONGEST]
        try:
            self._stream.write(json.dumps(entry) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # a full disk, a pipe that nobody reads, a stream that is closed
            self._stream = None
