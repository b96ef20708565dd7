"""Which lines and branches of torch a process executes.

By sys.monitoring, or by Python's trace function before Python 3.12.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from conformance.devices.environment import torch_build
from conformance.sources.conditions import EXPRESSIONS, Condition

#: Path below torch/ → the numbers of executed lines, or of branches that were taken.
ExecutedLines = defaultdict[str, set[int]]
#: A flag of code objects: the body of a function, and not of a module or a class, which runs when it is imported.
FUNCTION = 1
_TOOL = 4  # of sys.monitoring: 0, 1, 2 and 5 belong to debuggers, coverage tools, profilers and optimisers


def below_torch(file: str) -> str:
    """The path below the imported torch's folder; "" for another file."""
    folder = _torch_folder()
    return file.removeprefix(folder) if file.startswith(folder) else ""


_FOLDER: list[str] = []


def _torch_folder() -> str:
    if not _FOLDER:
        _FOLDER.append(f"{torch_build().folder}/")
    return _FOLDER[0]


@dataclass(frozen=True)
class RecordedBranches:
    """`found`: branches that were taken are added to it. `conditions`: path below torch/ → those of that file."""

    found: ExecutedLines
    conditions: Callable[[str], Mapping[int, Condition]]


@dataclass(frozen=True)
class _Recorded:
    """The sets of one code object. `conditions`: line → condition; empty where no branches are recorded."""

    lines: set[int]
    branches: set[int]
    conditions: Mapping[int, Condition]


@contextlib.contextmanager
def recorded_lines(
    found: ExecutedLines, is_wanted: Callable[[str, CodeType], bool], branches: RecordedBranches | None = None
) -> Iterator[None]:
    """Adds to `found` the lines of torch that all threads execute inside.

    `is_wanted`: whether a code object is recorded; also gets its path below torch/. It is asked once for each.
    `branches`: records these too.
    """

    def recorded(code: CodeType) -> _Recorded | None:
        path = below_torch(code.co_filename)
        if not (path and is_wanted(path, code)):
            return None
        if branches is None or code.co_name in EXPRESSIONS:
            return _Recorded(found[path], set(), {})
        of_file = branches.conditions(path)
        own = {line: of_file[line] for _, _, line in code.co_lines() if line is not None and line in of_file}
        return _Recorded(found[path], branches.found[path], own)

    with _monitored(recorded) if sys.version_info >= (3, 12) else _traced(recorded):
        yield


@contextlib.contextmanager
def _traced(recorded: Callable[[CodeType], _Recorded | None]) -> Iterator[None]:
    """Costs each function call of Python a call of `trace`: a capture takes about twice the time."""
    functions: dict[int, Callable[[], Any]] = {}  # by id: the hash of a code object is slow
    alive: list[CodeType] = []  # so that no other code object gets the id

    def make_local(code: CodeType) -> Callable[[], Any]:
        """A function that returns the trace function of a call; one for all calls where no branch is recorded."""
        alive.append(code)
        of_code = recorded(code)
        if of_code is None:
            return lambda: None
        if of_code.conditions:
            return lambda: _Call(of_code)
        lines = of_code.lines

        def local(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return local

        return lambda: local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        try:
            return functions[id(code)]()
        except KeyError:
            function = functions[id(code)] = make_local(code)
            return function()

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


class _Call:
    """The trace function of one call of a function with conditions: it knows the line that ran before."""

    __slots__ = ("_before", "_recorded")

    def __init__(self, recorded: _Recorded) -> None:
        self._recorded = recorded
        self._before: Condition | None = None

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            number = frame.f_lineno
            self._recorded.lines.add(number)
            if self._before is not None:
                self._take(number)
            self._before = self._recorded.conditions.get(number)
        elif event == "return" and self._before is not None:
            self._take(0)
        elif event == "exception":
            self._before = None
        return self

    def _take(self, number: int) -> None:
        taken = self._before.branch_to(number)  # type: ignore[union-attr] # the callers have looked
        if taken is not None:
            self._recorded.branches.add(taken)


@contextlib.contextmanager
def _monitored(recorded: Callable[[CodeType], _Recorded | None]) -> Iterator[None]:
    """Python calls back once for each line, and once for each other function."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore] # from Python 3.12
    monitor = _Monitor(monitoring, recorded)
    monitoring.use_tool_id(_TOOL, "conformance")
    try:
        for event, callback in monitor.callbacks.items():
            monitoring.register_callback(_TOOL, event, callback)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)
        monitoring.restart_events()  # what an earlier call disabled
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        for code, _ in monitor.by_code.values():
            monitoring.set_local_events(_TOOL, code, 0)
        for event in monitor.callbacks:
            monitoring.register_callback(_TOOL, event, None)
        monitoring.free_tool_id(_TOOL)


class _Monitor:
    """What Python calls back. `by_code`: what is recorded of a code object, by its id. `callbacks`: by event."""

    def __init__(self, monitoring: Any, recorded: Callable[[CodeType], _Recorded | None]) -> None:
        self._monitoring, self._recorded_of = monitoring, recorded
        self.by_code: dict[int, tuple[CodeType, _Recorded]] = {}
        self._line_at: dict[int, dict[int, int]] = {}
        events = monitoring.events
        # Python 3.14 has an event for each way of a branch, older ones have one for both, which must not be disabled.
        self._both_ways = not hasattr(events, "BRANCH_LEFT")
        jumps = [events.BRANCH] if self._both_ways else [events.BRANCH_LEFT, events.BRANCH_RIGHT]
        self._of_branches = sum(jumps)
        self.callbacks = {events.PY_START: self._start, events.LINE: self._line, **dict.fromkeys(jumps, self._jump)}

    def _start(self, code: CodeType, _offset: int) -> Any:
        if id(code) not in self.by_code and (recorded := self._recorded_of(code)) is not None:
            self.by_code[id(code)] = code, recorded
            wanted = self._monitoring.events.LINE
            if recorded.conditions:
                self._line_at[id(code)] = _line_of_each_offset(code)
                wanted |= self._of_branches
            self._monitoring.set_local_events(_TOOL, code, wanted)
        return self._monitoring.DISABLE

    def _line(self, code: CodeType, number: int) -> Any:
        if id(code) in self.by_code:
            self.by_code[id(code)][1].lines.add(number)
        return self._monitoring.DISABLE

    def _jump(self, code: CodeType, offset: int, destination: int) -> Any:
        lines = self._line_at.get(id(code), {})
        recorded = self.by_code[id(code)][1] if lines else None
        condition = recorded.conditions.get(lines.get(offset, 0)) if recorded else None
        if recorded is None or condition is None:
            return self._monitoring.DISABLE
        to = lines.get(destination, 0)
        if to in condition.lines and _leaves(code, destination):
            to = 0
        if (taken := condition.branch_to(to)) is not None:
            recorded.branches.add(taken)
        return None if self._both_ways else self._monitoring.DISABLE


def _line_of_each_offset(code: CodeType) -> dict[int, int]:
    return {offset: line for begin, end, line in code.co_lines() if line for offset in range(begin, end, 2)}


def _leaves(code: CodeType, offset: int) -> bool:
    """Whether the function or a turn of a loop ends there. Such an instruction may have the line of the condition."""
    names = [dis.opname[each] for each in code.co_code[offset : offset + 4 : 2]]
    return names[0].startswith(("RETURN", "JUMP_")) or names == ["LOAD_CONST", "RETURN_VALUE"]
