"""What native code writes to stderr before it crashes, such as the message of a C++ exception.

pytest captures stderr into a file without a name, which is lost with the process. So while an item runs, the
descriptor 2 leads to the file of faulthandler's stacks. Afterwards pytest gets what was written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def kept(file: int) -> Iterator[None]:
    """Sends what is written to the descriptor 2 to `file`; after the block, to where it led before."""
    before, start = os.dup(2), os.fstat(file).st_size
    os.lseek(file, start, os.SEEK_SET)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        with contextlib.suppress(OSError):  # a full disk, which the item's record reports
            written = os.pread(file, os.fstat(file).st_size - start, start)
            os.ftruncate(file, start)
            os.lseek(file, start, os.SEEK_SET)
            os.write(2, written)


class NativeStderr:
    """A plugin for the process that runs items. `file`: as in `kept`. `applies`: whether an item's stderr is kept."""

    def __init__(self, file: int, applies: Callable[[pytest.Item], bool]) -> None:
        self._file, self._applies = file, applies

    @pytest.hookimpl(wrapper=True, trylast=True)  # inside of pytest's own capturing
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        with kept(self._file) if self._applies(item) else contextlib.nullcontext():
            return (yield)
