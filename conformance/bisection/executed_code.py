"""Which functions of torch a process executes, and which lines of some of them.

Functions are recorded by cProfile, which costs a third of the time. Lines need Python's trace function, which doubles
the time, so they are recorded only once the commit is known.
"""

from __future__ import annotations

import contextlib
import cProfile
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
        lines: dict[str, set[int]] = defaultdict(set)
        for entry in profile.getstats():
            if isinstance(entry.code, CodeType) and (path := below_torch(entry.code.co_filename)):
                lines[path].add(entry.code.co_firstlineno)
        found.update({path: sorted(numbers) for path, numbers in lines.items()})


@contextlib.contextmanager
def recorded_lines(found: dict[str, list[int]], ranges: Mapping[str, Sequence[Sequence[int]]]) -> Iterator[None]:
    """Adds to `found` the lines that are executed inside.

    `ranges`: path below torch/ → first and last lines of the functions to record. Other functions are left out.
    """
    lines: dict[str, set[int]] = defaultdict(set)
    wanted: dict[CodeType, set[int] | None] = {}

    def is_wanted(code: CodeType) -> set[int] | None:
        path = below_torch(code.co_filename)
        inside = any(first <= code.co_firstlineno <= last for first, last in ranges.get(path, ()))
        return lines[path] if inside else None

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and (numbers := wanted[frame.f_code]) is not None:
            numbers.add(frame.f_lineno)
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code not in wanted:
            wanted[code] = is_wanted(code)
        return local if wanted[code] is not None else None

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
        found.update({path: sorted(numbers) for path, numbers in lines.items() if numbers})


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
