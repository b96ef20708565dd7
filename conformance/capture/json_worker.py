"""A worker process that answers requests, one line of JSON each. It may crash or hang without harm to its parent.

The parent uses `JsonWorker`. The module that the worker runs calls `claim_stdout`, prepares itself, then calls `serve`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, TextIO

from conformance.errors import ConformanceError

#: Seconds until a new worker must be ready: it may import torch first, on a busy machine.
START_LIMIT = 300.0
#: How many lines of the worker's stderr an error message quotes.
_QUOTED_LINES = 20
_READY = "ready"


class WorkerError(ConformanceError, RuntimeError):
    """The worker gave no answer. The message says why, and quotes the last lines of the worker's stderr."""


class WorkerEndedError(WorkerError):
    """The worker process ended before it answered: it crashed, or another process killed it."""


class WorkerTimeoutError(WorkerError):
    """The worker did not answer within its time limit, and was killed."""


@dataclass
class _Process:
    """A running worker. `stderr`: the file of its stderr. `echoed`: how many bytes of it were copied to our stderr."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]
    stderr: IO[bytes]
    unread: bytes = b""
    echoed: int = 0


class JsonWorker:
    """The process `python -m MODULE`. It starts at the first request, and starts again after it ended.

    `environment`: the worker's environment variables. `echo_stderr`: after each request, copy what the worker wrote to
    stderr to this process's stderr. Without it, only error messages quote the worker's stderr.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, echo_stderr: bool = False) -> None:
        self._module = module
        self._environment = dict(environment)
        self._echo_stderr = echo_stderr
        self._running: _Process | None = None
        self.said = ""  # what the worker wrote to stderr during the last request that it answered

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Sends a request and returns the worker's answer.

        Raises WorkerTimeoutError after `limit` seconds, and WorkerEndedError. After any exception, such as
        KeyboardInterrupt, the worker is killed: its next line could be the answer to this request.
        """
        try:
            running = self._running or self._start()
            before = os.fstat(running.stderr.fileno()).st_size
            with contextlib.suppress(BrokenPipeError):  # the worker has ended: reading its answer says how
                running.requests.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(self._read_line(running, limit))
            self.said = _stderr_from(running, before).decode(errors="replace")
        except BaseException:
            self.close()
            raise
        self._echo(running)
        return answer

    def close(self) -> None:
        """Kills the worker and every process that it started, such as g++ or ptxas."""
        running, self._running = self._running, None
        if running is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
        self._echo(running)
        for file in (running.requests, running.answers, running.stderr):
            file.close()
        atexit.unregister(self.close)

    def _start(self) -> _Process:
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self._environment,
            start_new_session=True,  # a process group of its own, which close() kills
            bufsize=0,
        )
        running = self._running = _Process(process, _pipe(process.stdin), _pipe(process.stdout), stderr)
        atexit.register(self.close)
        try:
            self._read_line(running, START_LIMIT)
        except WorkerTimeoutError:
            raise WorkerError(f"not ready within {START_LIMIT:g} s; {_last_lines(running)}") from None
        return running

    def _read_line(self, running: _Process, limit: float) -> bytes:
        end = time.monotonic() + limit
        while b"\n" not in running.unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([running.answers], [], [], left)[0]:
                raise WorkerTimeoutError(f"no answer within {limit:g} s; {_last_lines(running)}")
            chunk = os.read(running.answers.fileno(), 1 << 16)
            if not chunk:
                raise WorkerEndedError(f"{_exit_text(running.process.wait())}; {_last_lines(running)}")
            running.unread += chunk
        line, _, running.unread = running.unread.partition(b"\n")
        return line

    def _echo(self, running: _Process) -> None:
        if self._echo_stderr:
            written = _stderr_from(running, running.echoed)
            running.echoed += len(written)
            sys.stderr.write(written.decode(errors="replace"))


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    """For the type checker: with subprocess.PIPE, Popen always makes the pipe."""
    if end is None:
        raise TypeError("Popen made no pipe")
    return end


def _stderr_from(running: _Process, offset: int) -> bytes:
    """What the worker wrote to stderr after `offset`. pread: seek would move the worker's own position in the file."""
    descriptor = running.stderr.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size - offset, offset)


def _last_lines(running: _Process) -> str:
    lines = _stderr_from(running, 0).decode(errors="replace").strip().splitlines()[-_QUOTED_LINES:]
    return "\n".join(["the last lines of its stderr:", *lines]) if lines else "it wrote nothing to stderr"


def _exit_text(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


# In the worker --------------------------------------------------------------------------------------------------------


def claim_stdout() -> TextIO:
    """Returns this process's stdout, for answers only. Whatever else is printed goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def serve(answers: TextIO, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Says that the worker is ready, then answers each request on stdin until stdin ends."""
    _write_line(answers, _READY)
    for line in sys.stdin:
        _write_line(answers, json.dumps(answer(json.loads(line))))


def _write_line(answers: TextIO, line: str) -> None:
    answers.write(f"{line}\n")
    answers.flush()
