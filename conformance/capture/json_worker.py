"""A process that answers requests, a line of JSON each, and may crash or hang without harm."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError

#: Seconds until a new process answers: it imports torch, on a machine that may be busy.
START = 300.0
_LAST_WORDS = 20


class EndedError(ConformanceError, RuntimeError):
    """The process ended while it was asked; the message says how, and what it said last."""


class Process:
    """`python -m module`, started when it is first asked, and again after it ended.

    It writes a line when it is ready and one for each request; what else it writes is kept in `folder`, for messages.
    """

    def __init__(self, module: str, environment: Mapping[str, str], folder: Path) -> None:
        self._module = module
        self._environment = dict(environment)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._said: Any = None
        self._buffer = b""

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """The answer. Raises TimeoutError after `limit` seconds, having ended the process, and EndedError."""
        process = self._started()
        with contextlib.suppress(BrokenPipeError):  # it is gone: reading says how
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return json.loads(self._line(limit))

    def close(self) -> None:
        """Ends the process, and what it has started: a ptxas that hangs, too."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()
        self._process, self._buffer = None, b""

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._said = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - open as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=self._environment,
                start_new_session=True,  # so that its children end with it
                bufsize=0,
            )
            try:
                self._line(START)
            except TimeoutError:
                raise EndedError(f"it did not start within {START:g} s") from None
        return self._process

    def _line(self, limit: float) -> bytes:
        until = time.monotonic() + limit
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                self.close()
                raise TimeoutError
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise EndedError(self._end())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _end(self) -> str:
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()[-_LAST_WORDS:]
        self.close()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return f"{how}; it said last:\n" + "\n".join(lines) if lines else f"{how}, and said nothing"
