"""Finds the line of a file of cases that declares something wrongly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.cases.roots import is_own_case_file

_PACKAGE = Path(__file__).parents[2]


def declaration_line(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """FILE:LINE of the code that called into this package, if the error was raised in the package; else ""."""
    *outer, inner = excinfo.traceback
    if not _is_harness_file(inner.path):
        return ""
    for entry in reversed(outer):
        if not _is_harness_file(entry.path):
            return f"{os.path.relpath(entry.path)}:{entry.lineno + 1}"
    return ""


def _is_harness_file(file: str | Path) -> bool:
    """Whether a file belongs to this package and is no file of cases."""
    return Path(file).is_relative_to(_PACKAGE) and not is_own_case_file(Path(file))
