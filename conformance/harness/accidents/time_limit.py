"""The time limit of an item. It ends native code too: faulthandler writes the stacks and ends the process."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable
from typing import Any

import pytest


class TimeLimit:
    """A plugin for the process that runs items.

    `dump`: a descriptor for the stacks, of a crash too. `seconds`: the limit; 0 for none. `applies`: whether an item
    has the limit.
    """

    def __init__(self, dump: int, seconds: float, applies: Callable[[pytest.Item], bool]) -> None:
        self._dump, self._seconds, self._applies = dump, seconds, applies
        self._end = 0.0
        faulthandler.enable(file=dump)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if not self._seconds or not self._applies(item):
            return (yield)
        self._end = time.monotonic() + self._seconds
        self._start()
        try:
            return (yield)
        finally:
            self._end = 0.0
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Starts the limit again: pytest's own plugin stops it after each failed check."""
        if self._end:
            self._start()

    def restart(self) -> None:
        """Gives the test that runs the whole time again. Does nothing for a test without a limit."""
        if self._end:
            self._end = time.monotonic() + self._seconds
            self._start()

    def _start(self) -> None:
        left = max(self._end - time.monotonic(), 0.001)
        faulthandler.dump_traceback_later(left, exit=True, file=self._dump)
