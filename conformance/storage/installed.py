"""Whether a folder belongs to an installed package: nothing is stored there, because the next installation replaces it.

A checkout and an editable installation are not meant: there, stored files are edited and committed.
"""

from __future__ import annotations

import functools
from pathlib import Path

from conformance.errors import ConformanceError


class InstalledError(ConformanceError, PermissionError):
    """Something would have to be written into an installed package. The message names the option that avoids it."""


def refuse_installed(folder: Path, option: str = "--store DIR") -> None:
    """Raises InstalledError if the folder is in an installed package. `option`: names a place of the user's own."""
    if package := installed_package(folder):
        raise InstalledError(
            f"{folder} belongs to the installed package {package}, and nothing is written there: give {option}, a "
            "place of your own"
        )


def installed_package(folder: Path) -> str:
    """The name of the installed package that a file or folder is in; "" if it is in none."""
    folder = folder.resolve()
    for outer in folder.parents:
        package = folder.relative_to(outer).parts[0]
        if _is_installed(outer, package):
            return package
    return ""


@functools.cache
def is_installation(folder: Path) -> bool:
    """Whether wheels were installed into this folder, or the folder is a part of what they installed."""
    return bool(installed_package(folder)) or any(folder.glob("*.dist-info/RECORD"))


@functools.cache
def _is_installed(outer: Path, package: str) -> bool:
    """Whether a wheel was installed into the folder `outer` that has the folder `package`."""
    return any(_has(record, package) for record in outer.glob("*.dist-info/RECORD"))


def _has(record: Path, package: str) -> bool:
    try:
        text = record.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.startswith(f"{package}/") or f"\n{package}/" in text
