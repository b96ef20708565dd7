"""Which lines of torch a process executes: by sys.monitoring, or by Python's trace function before Python 3.12."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from conformance.devices.environment import torch_build

#: Path below torch/ → the numbers of executed lines.
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


@contextlib.contextmanager
def recorded_lines(found: ExecutedLines, is_wanted: Callable[[str, CodeType], bool]) -> Iterator[None]:
    """Adds to `found` the lines of torch that all threads execute inside.

    `is_wanted`: whether a code object is recorded; also gets its path below torch/. It is asked once for each.
    """

    def lines_of(code: CodeType) -> set[int] | None:
        path = below_torch(code.co_filename)
        return found[path] if path and is_wanted(path, code) else None

    with _monitored(lines_of) if sys.version_info >= (3, 12) else _traced(lines_of):
        yield


@contextlib.contextmanager
def _traced(lines_of: Callable[[CodeType], set[int] | None]) -> Iterator[None]:
    """Costs each function call of Python a call of `trace`: a capture takes about twice the time."""
    functions: dict[int, Any] = {}  # by id: the hash of a code object is slow
    alive: list[CodeType] = []  # so that no other code object gets the id

    def local_of(code: CodeType) -> Any:
        lines = lines_of(code)

        def local(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)  # type: ignore[union-attr] # called only where there is a set
            return local

        alive.append(code)
        return None if lines is None else local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        try:
            return functions[id(code)]
        except KeyError:
            function = functions[id(code)] = local_of(code)
            return function

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


@contextlib.contextmanager
def _monitored(lines_of: Callable[[CodeType], set[int] | None]) -> Iterator[None]:
    """Python calls back once for each line, and once for each other function."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore] # from Python 3.12
    events = monitoring.events
    recorded: dict[int, tuple[CodeType, set[int]]] = {}

    def start(code: CodeType, _offset: int) -> Any:
        if id(code) not in recorded and (lines := lines_of(code)) is not None:
            recorded[id(code)] = code, lines
            monitoring.set_local_events(_TOOL, code, events.LINE)
        return monitoring.DISABLE

    def line(code: CodeType, number: int) -> Any:
        if id(code) in recorded:
            recorded[id(code)][1].add(number)
        return monitoring.DISABLE

    monitoring.use_tool_id(_TOOL, "conformance")
    try:
        monitoring.register_callback(_TOOL, events.PY_START, start)
        monitoring.register_callback(_TOOL, events.LINE, line)
        monitoring.set_events(_TOOL, events.PY_START)
        monitoring.restart_events()  # what an earlier call disabled
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        for code, _ in recorded.values():
            monitoring.set_local_events(_TOOL, code, 0)
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(_TOOL, event, None)
        monitoring.free_tool_id(_TOOL)
