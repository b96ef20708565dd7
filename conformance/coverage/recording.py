"""Records which lines and branches of torch each item executes.

Each item has a forked process, so that no item profits from another.

A process executes some lines only once: when it imports torch, and when it compiles for the first time. The forking
process does that before, and these lines count for all items.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import marshal
import os
import selectors
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from conformance.coverage.watched_files import is_watched
from conformance.devices.environment import torch_build
from conformance.errors import first_line
from conformance.sources.conditions import Condition, conditions
from conformance.sources.executed_lines import FUNCTION, ExecutedLines, RecordedBranches, recorded_lines

#: Seconds for one item.
_LIMIT = 240.0


@dataclass(frozen=True)
class RecordedItem:
    """`lines`: path below torch/ → lines. `branches`: likewise, as in conditions.py.

    `error`: what capturing raised; what was executed until then is recorded.
    """

    number: int
    lines: dict[str, list[int]] = field(default_factory=dict)
    branches: dict[str, list[int]] = field(default_factory=dict)
    error: str = ""


class Executed:
    """What is executed in functions of the watched files. `lines`, `branches`: path below torch/ → numbers."""

    def __init__(self) -> None:
        self.lines: ExecutedLines = defaultdict(set)
        self.branches: ExecutedLines = defaultdict(set)

    def recorded(self, *, branches: bool = True) -> contextlib.AbstractContextManager[None]:
        """Adds what is executed inside. `branches`: without them, the conditions of torch's files are not read."""
        return recorded_lines(
            self.lines, _is_wanted, RecordedBranches(self.branches, conditions_of) if branches else None
        )

    def without(self, other: Executed) -> Executed:
        """What `other` has not executed."""
        left = Executed()
        for mine, others, into in (
            (self.lines, other.lines, left.lines),
            (self.branches, other.branches, left.branches),
        ):
            for path, numbers in mine.items():
                into[path] = numbers - others.get(path, set())
        return left


@functools.cache
def conditions_of(path: str) -> dict[int, Condition]:
    """The conditions of a file of the imported torch. `path`: below torch/."""
    return conditions((torch_build().folder / path).read_text(encoding="utf-8"))


def _is_wanted(path: str, code: CodeType) -> bool:
    return bool(code.co_flags & FUNCTION) and is_watched(path)


def record(captures: Sequence[Callable[[], None]], processes: int) -> Iterator[RecordedItem]:
    """Calls each capture in a forked process, several at a time, and yields what it executed as soon as it is known.

    The caller has executed what runs once. It must not have used autograd: PyTorch refuses autograd in a process that
    was forked after that. Ends all forked processes when it is closed or interrupted.
    """
    waiting = list(range(len(captures)))[::-1]
    running: dict[int, _Child] = {}
    gc.collect()
    gc.freeze()  # so that forked processes do not copy what they do not change
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < processes:
                    child = _Child(waiting.pop(), captures)
                    running[child.pipe] = child
                    selector.register(child.pipe, selectors.EVENT_READ)
                for key, _ in selector.select(timeout=1.0):
                    child = running[key.fd]
                    if not child.read():
                        selector.unregister(key.fd)
                        yield running.pop(key.fd).result()
                for child in running.values():
                    child.end_if_late()
        finally:
            for child in running.values():
                child.end()
                child.result()
            gc.unfreeze()


class _Child:
    """A forked process that captures one item and writes what it executed into a pipe."""

    def __init__(self, number: int, captures: Sequence[Callable[[], None]]) -> None:
        self._number, self._begin, self._content, self._is_late = number, time.monotonic(), bytearray(), False
        self.pipe, write = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self.pipe)
                _capture(captures[number], write)
            finally:
                os._exit(0)  # runs nothing that the parent has registered for its end
        os.close(write)

    def read(self) -> bool:
        """Reads what is there; False at the end."""
        part = os.read(self.pipe, 1 << 20)
        self._content += part
        return bool(part)

    def end_if_late(self) -> None:
        if time.monotonic() - self._begin > _LIMIT and not self._is_late:
            self._is_late = True
            self.end()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def result(self) -> RecordedItem:
        os.close(self.pipe)
        _, status = os.waitpid(self._process, 0)
        if self._is_late:
            return RecordedItem(self._number, error=f"it took longer than {_LIMIT:g} s")
        try:
            error, lines, branches = marshal.loads(bytes(self._content))  # noqa: S302 - a process of our own wrote it
        except (EOFError, ValueError, TypeError):
            return RecordedItem(
                self._number, error=f"its process ended with status {os.waitstatus_to_exitcode(status)}"
            )
        return RecordedItem(self._number, lines, branches, error)


def _capture(capture: Callable[[], None], write: int) -> None:
    """In the forked process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(_LIMIT) + 10)  # a parent that was killed ends nothing
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    found = Executed()
    error = ""
    with found.recorded():
        try:
            capture()
        except Exception as raised:  # noqa: BLE001 - whatever compiling raises is a result
            error = first_line(raised) or type(raised).__name__
    answer: Any = (
        error,
        *(
            {path: sorted(numbers) for path, numbers in each.items() if numbers}
            for each in (found.lines, found.branches)
        ),
    )
    with os.fdopen(write, "wb") as pipe:
        pipe.write(marshal.dumps(answer))
