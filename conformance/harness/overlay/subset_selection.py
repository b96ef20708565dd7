"""--subset: which of the collected items run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from conformance.cases.case import Case
from conformance.cases.roots import CASE_ROOTS
from conformance.cases.subset import Subset, SubsetError, read_subset


@functools.cache
def subset(file: str) -> Subset:
    """The subset of a file. Raises SubsetError."""
    return read_subset(Path(file))


def chosen(cases: Sequence[Case], file: str | None) -> Sequence[Case]:
    """The cases that the file names; all cases where it names none of them, or without a file."""
    return [case for case in cases if file and subset(file).has(case)] or cases


def refuse_unknown_lines(
    file: str, cases: Sequence[Case], targets: Sequence[str], combined: Callable[[], Iterable[Case]] = tuple
) -> None:
    """Raises SubsetError for a line that names no case, whether an option selects the case or not.

    `cases`: all cases of the collected files. `combined`: returns the cases of --thorough, which a line may name too.
    """
    lines, others = subset(file), _operators_beside(cases)
    try:
        lines.validate(cases, targets, others)
    except SubsetError:
        lines.validate([*cases, *combined()], targets, others)


def _operators_beside(cases: Sequence[Case]) -> set[str]:
    """The operators with files of this package, or beside the files of these cases."""
    folders = {*CASE_ROOTS, *(case.file.parent for case in cases)}
    return {file.stem.removeprefix("test_") for folder in folders for file in folder.glob("test_*.py")}
