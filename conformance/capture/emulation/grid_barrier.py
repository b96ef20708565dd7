"""Programs that wait for each other at a barrier of the whole grid, as those of a cooperative reduction do.

Each batch of programs has a thread of its own. One runs at a time, until it is at a barrier or at its end; once each is
at one, they go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.capture.emulation.errors import KernelFault


class _GivenUpError(BaseException):  # ends a thread whose kernel failed elsewhere
    pass


class _Batch:
    """`body`: what the programs do; it calls `wait` at a barrier."""

    def __init__(self, programs: np.ndarray, body: Callable[[], None]) -> None:
        self.programs, self._body = programs, body
        self.ended = False
        self._error: BaseException | None = None
        self._given_up = False
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Until its next barrier, or its end. Raises what the programs raised."""
        self._go.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        self._paused.release()
        self._go.acquire()
        if self._given_up:
            raise _GivenUpError

    def give_up(self) -> None:
        if not self.ended:
            self._given_up = True
            self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self._go.acquire()
        try:
            with np.errstate(all="ignore"):  # a thread has its own
                if not self._given_up:
                    self._body()
        except _GivenUpError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by resume()
            self._error = error
        finally:
            self.ended = True
            self._paused.release()


def run_together(memory: Any, batches: Sequence[np.ndarray], body: Callable[[], None]) -> None:
    """Runs `body` for each batch of programs, which meet at every barrier. Raises what it raises, and KernelFault."""
    waiting = [_Batch(programs, body) for programs in batches]
    try:
        while waiting:
            for batch in waiting:
                memory.enter(batch.programs, batch.wait)
                batch.resume()
            ended = [batch.ended for batch in waiting]
            if any(ended) and not all(ended):
                raise KernelFault("some programs have ended, and others wait for them at a barrier: it hangs")
            waiting = [batch for batch in waiting if not batch.ended]
    finally:
        for batch in waiting:
            batch.give_up()
