"""The layers, as the process of the user sees them: it starts them, asks them to fork, and ends them.

That process imports no torch. The first layer is a fresh Python; each other process is a fork of the layer below it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from conformance.cli.watching.messages import Channel

#: What the processes import, from the lowest layer to the answer: see layer_process.py.
TORCH, COMPILER, ANSWER = "torch", "compiler", "answer"
#: A layer does this beside, without a fork.
WARM, STATUS = "warm", "status"


class LayerEndedError(Exception):
    """The process ended before it answered."""


class LayerProcess:
    """A process: a layer or an answer. `channel`: what it says. It leads its own process group."""

    def __init__(self, pid: int, channel: Channel, started: subprocess.Popen[bytes] | None = None) -> None:
        self.pid, self.channel = pid, channel
        self._descriptor = os.pidfd_open(pid)
        self._started = started

    @classmethod
    def start(cls, request: Mapping[str, Any], environment: Mapping[str, str]) -> LayerProcess:
        """Starts the first layer, as a fresh Python with these further variables."""
        own, its = socket.socketpair()
        channel = Channel(own)
        channel.send(request)  # before it starts: a killed watch leaves a layer that knows which folder to remove
        with its:
            command = [sys.executable, "-m", "conformance.cli.watching.layer_process", str(its.fileno())]
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                pass_fds=[its.fileno()],
                start_new_session=True,  # so a Ctrl-C in the terminal reaches the process of the user alone
            )
        return cls(started.pid, channel, started)

    def fork(self, request: Mapping[str, Any]) -> tuple[LayerProcess, list[str]]:
        """Forks this layer. Also returns the files that it has imported since it said so last.

        Raises LayerEndedError where it is gone.
        """
        own, its = socket.socketpair()
        with its:
            answer = self._asked(request, its.fileno())
        try:
            return LayerProcess(answer["pid"], Channel(own)), answer["files"]
        except ProcessLookupError:
            own.close()
            raise LayerEndedError from None

    def status(self, child: LayerProcess) -> int:
        """How a fork of this layer ended: its exit status, or -N for a signal. Raises LayerEndedError."""
        return self._asked({"role": STATUS, "pid": child.pid})["status"]

    def warm(self, targets: list[str]) -> None:
        """Lets an idle layer make what every capture for these targets needs. Does not wait for it."""
        with contextlib.suppress(OSError):
            self.channel.send({"role": WARM, "targets": targets})

    def has_ended(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def kill(self) -> None:
        """Ends the process and its group, and waits for the end of the process."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        select.select([self._descriptor], [], [], 10)
        os.close(self._descriptor)
        self.channel.close()
        if self._started is not None:
            self._started.wait()

    def _asked(self, request: Mapping[str, Any], *descriptors: int) -> dict[str, Any]:
        try:
            self.channel.send(request, *descriptors)
        except OSError:
            raise LayerEndedError from None
        answer = self.channel.receive()
        if answer is None:
            raise LayerEndedError
        return answer
