"""Which functions of torch a process executes, and which lines of some of them.

Functions are recorded by cProfile, which costs a third of the time. Lines need Python's trace function, which doubles
the time, so they are recorded in one process only.
"""

from __future__ import annotations

import contextlib
import cProfile
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

#: Path below torch/ → the first lines of the executed code objects, sorted.
ExecutedCode = dict[str, list[int]]


@contextlib.contextmanager
def recorded_functions(found: ExecutedCode) -> Iterator[None]:
    """Adds to `found` what this thread executes inside."""
    profile = cProfile.Profile(builtins=False)
    profile.enable(subcalls=False, builtins=False)
    try:
        yield
    finally:
        profile.disable()
        found.update(_first_lines(each.code for each in profile.getstats() if isinstance(each.code, CodeType)))


@contextlib.contextmanager
def recorded_lines(
    functions: ExecutedCode, found: dict[str, list[int]], ranges: Mapping[str, Sequence[Sequence[int]]]
) -> Iterator[None]:
    """Adds to `functions` what is executed inside, as `recorded_functions` does, and to `found` lines.

    `ranges`: path below torch/ → first and last lines. The lines of functions that overlap with one are recorded.
    """
    lines: dict[str, set[int]] = defaultdict(set)
    numbers_of: dict[CodeType, set[int] | None] = {}

    def numbers(code: CodeType) -> set[int] | None:
        path = below_torch(code.co_filename)
        if not path or path not in ranges:
            return None
        last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
        overlaps = any(start <= last and code.co_firstlineno <= end for start, end in ranges[path])
        return lines[path] if overlaps and code.co_name != "<module>" else None

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and (seen := numbers_of[frame.f_code]) is not None:
            seen.add(frame.f_lineno)
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code not in numbers_of:
            numbers_of[code] = numbers(code)
        return local if numbers_of[code] is not None else None

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
        found.update({path: sorted(seen) for path, seen in lines.items() if seen})
        functions.update(_first_lines(numbers_of))


def _first_lines(codes: Iterable[CodeType]) -> ExecutedCode:
    lines: dict[str, set[int]] = defaultdict(set)
    for code in codes:
        if path := below_torch(code.co_filename):
            lines[path].add(code.co_firstlineno)
    return {path: sorted(numbers) for path, numbers in lines.items()}


def below_torch(file: str) -> str:
    """The path below the imported torch's folder; "" for another file."""
    folder = _torch_folder()
    return file.removeprefix(folder) if file.startswith(folder) else ""


_FOLDER: list[str] = []


def _torch_folder() -> str:
    if not _FOLDER:
        from conformance.devices.environment import torch_build

        _FOLDER.append(f"{torch_build().folder}/")
    return _FOLDER[0]
