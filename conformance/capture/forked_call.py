"""A call in a forked process of its own, which may crash or hang without harm to the worker that forks it.

The worker must have called nothing that started threads of OpenMP: they do not survive a fork. `use_one_thread()`
makes sure of that.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from conformance.errors import ConformanceError


class ForkedCallError(ConformanceError, RuntimeError):
    """The forked process gave no answer. The message says why: its time limit, its signal or its exit status."""


def use_one_thread() -> None:
    """Call it before work that precedes a fork: the forked process waits for ever for threads of OpenMP."""
    import torch

    torch.set_num_threads(1)


def call_in_fork(function: Callable[[], Any], limit: float) -> Any:
    """What the function returns, through JSON. Raises ForkedCallError.

    `limit`: seconds. The process has a process group of its own, which is killed at the end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.alarm(int(limit) + 1)  # also where the worker was killed
        os.close(reading)
        status = 1
        try:
            with os.fdopen(writing, "w") as pipe:
                json.dump(function(), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    text, end = b"", time.monotonic() + limit
    try:
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([reading], [], [], left)[0]:
                raise ForkedCallError(f"the process took longer than {limit:g} s")
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                break
            text += chunk
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    ended = f"by {signal.Signals(status & 0x7F).name}" if status & 0x7F else f"with status {status >> 8}"
    raise ForkedCallError(f"the process ended {ended}")
