"""Which functions of torch a process executes, and which lines of some of them.

Functions are recorded by cProfile, which costs a third of the time. Lines cost more, so they are recorded in
one process only.
"""

from __future__ import annotations

import contextlib
import cProfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType

from conformance.sources import executed_lines
from conformance.sources.executed_lines import ExecutedLines, below_torch

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
    lines: ExecutedLines = defaultdict(set)
    executed: list[CodeType] = []

    def is_wanted(path: str, code: CodeType) -> bool:
        executed.append(code)
        if path not in ranges:
            return False
        last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
        overlaps = any(start <= last and code.co_firstlineno <= end for start, end in ranges[path])
        return overlaps and code.co_name != "<module>"

    try:
        with executed_lines.recorded_lines(lines, is_wanted):
            yield
    finally:
        found.update({path: sorted(seen) for path, seen in lines.items() if seen})
        functions.update(_first_lines(executed))


def _first_lines(codes: Iterable[CodeType]) -> ExecutedCode:
    lines: dict[str, set[int]] = defaultdict(set)
    for code in codes:
        if path := below_torch(code.co_filename):
            lines[path].add(code.co_firstlineno)
    return {path: sorted(numbers) for path, numbers in lines.items()}
