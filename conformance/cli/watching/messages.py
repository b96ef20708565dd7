"""Messages between the process of the user and its layers: a JSON object a line, and perhaps a descriptor with it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

_CHUNK = 1 << 16


class Channel:
    """One end of a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._rest, self._descriptors = end, b"", list[int]()

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: Mapping[str, Any], *descriptors: int) -> None:
        """Raises OSError where the other end is closed."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        sent = socket.send_fds(self._end, [data], descriptors) if descriptors else 0
        self._end.sendall(data[sent:])

    def receive(self) -> dict[str, Any] | None:
        """The next message, waited for. None where the other end is closed."""
        while b"\n" not in self._rest:
            if not self._read():
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def has_message(self) -> bool:
        """Whether a whole message was read with the one before it: `select` does not know of it."""
        return b"\n" in self._rest

    def arrived(self) -> Iterator[dict[str, Any]]:
        """The messages that arrived, once `select` says that there is something. Raises EOFError at the end of all."""
        if not self._read():
            raise EOFError
        while b"\n" in self._rest:
            line, _, self._rest = self._rest.partition(b"\n")
            yield json.loads(line)

    def descriptor(self) -> int:
        """The next of the descriptors that came with the messages."""
        return self._descriptors.pop(0)

    def close(self) -> None:
        self._end.close()
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _read(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._end, _CHUNK, 1)
        except ConnectionResetError:
            return False
        self._descriptors += descriptors
        self._rest += data
        return bool(data)
