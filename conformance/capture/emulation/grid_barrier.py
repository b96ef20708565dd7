"""Runs programs that wait for each other at a barrier of the grid, as the programs of a cooperative reduction do.

Each batch of programs has its own thread. One thread runs at a time, until its programs reach a barrier or end. When
all batches have reached the barrier, they continue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.capture.emulation.errors import KernelFaultError


class _AbandonedError(BaseException):
    """Ends the thread of a batch after another batch has failed."""


class _Batch:
    """Some programs and their thread. `body`: runs the programs; calls `wait` at a barrier."""

    def __init__(self, programs: np.ndarray, body: Callable[[], None]) -> None:
        self.programs, self._body = programs, body
        self.ended = False
        self._error: BaseException | None = None
        self._abandoned = False
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Runs the batch until its next barrier or its end. Raises what the programs raise."""
        self._go.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Pauses the batch until `resume`."""
        self._paused.release()
        self._go.acquire()
        if self._abandoned:
            raise _AbandonedError

    def abandon(self) -> None:
        """Ends the thread of a batch that waits."""
        if not self.ended:
            self._abandoned = True
            self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self._go.acquire()
        try:
            with np.errstate(all="ignore"):  # each thread has its own settings
                if not self._abandoned:
                    self._body()
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - resume() raises it again
            self._error = error
        finally:
            self.ended = True
            self._paused.release()


def run_with_barriers(memory: Any, batches: Sequence[np.ndarray], body: Callable[[], None]) -> None:
    """Runs `body` for each batch of programs. The batches wait for each other at every barrier.

    `memory`: the Memory of the launch. `batches`: int32 of shape (n, 3) each, places in the grid. Raises what `body`
    raises, and KernelFaultError for a deadlock.
    """
    waiting = [_Batch(programs, body) for programs in batches]
    try:
        while waiting:
            for batch in waiting:
                memory.enter_batch(batch.programs, batch.wait)
                batch.resume()
            ended = [batch.ended for batch in waiting]
            if any(ended) and not all(ended):
                raise KernelFaultError("deadlock: some programs have ended, and others wait for them at a barrier")
            waiting = [batch for batch in waiting if not batch.ended]
    finally:
        for batch in waiting:
            batch.abandon()
