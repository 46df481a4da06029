"""As much of HTTP/2 as a client needs that does to a gRPC server what no library would."""

from __future__ import annotations

import socket
import struct
from typing import Any

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


class Peer:
    """A connection. `window`: bytes of each answer that it takes."""

    def __init__(self, address: str, window: int = 65535, **options: Any) -> None:
        host, _, port = address.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60, **options)
        self.socket.sendall(_PREFACE)
        self.send(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window))
        self._read = b""
        self.frame()  # its settings: only when they are acknowledged a call may send as much as they say

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, kind: int, flags: int, stream: int, content: bytes = b"") -> None:
        """A frame."""
        self.socket.sendall(struct.pack(">I", len(content))[1:] + bytes([kind, flags]))
        self.socket.sendall(struct.pack(">I", stream) + content)

    def call(self, stream: int, path: str, deadline: str | None = None) -> None:
        """A call's beginning: its headers, and no message. `deadline`: as 400m, which are milliseconds."""
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "x",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        if deadline is not None:
            fields["grpc-timeout"] = deadline
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())
        self.send(HEADERS, END_HEADERS, stream, block)

    def message(self, stream: int, content: bytes, *, declared: int | None = None, end: bool = True) -> None:
        """A message of `content`, which says that it has `declared` bytes."""
        head = struct.pack(">BI", 0, len(content) if declared is None else declared)
        rest = head + content
        while len(rest) > 16384:
            self.send(DATA, 0, stream, rest[:16384])
            rest = rest[16384:]
        self.send(DATA, END_STREAM if end else 0, stream, rest)

    def frame(self) -> tuple[int, int, int, bytes] | None:
        """The next one that the server sends: kind, flags, stream, content. None: it has hung up."""
        head = self._exactly(9)
        if head is None:
            return None
        content = self._exactly(int.from_bytes(head[:3], "big"))
        if content is None:
            return None
        if head[3] == SETTINGS and not head[4] & ACK:
            self.send(SETTINGS, ACK, 0)
        return head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, content

    def until_end(self, stream: int) -> list[int]:
        """The kinds of the frames of this call, until it has ended, or the server hung up."""
        kinds = []
        while (frame := self.frame()) is not None:
            kind, flags, of, _ = frame
            if of != stream:
                continue
            kinds.append(kind)
            if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                break
        return kinds

    def _exactly(self, number: int) -> bytes | None:
        while len(self._read) < number:
            try:
                part = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not part:
                return None
            self._read += part
        part, self._read = self._read[:number], self._read[number:]
        return part


def _text(text: str) -> bytes:
    assert len(text) < 127
    return bytes([len(text)]) + text.encode()
