"""Finding the cases of a test file outside pytest."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from pathlib import Path

from conformance.cases.case import Case, CaseError


class NoCaseError(CaseError):
    """A file in which no case is declared."""


@functools.cache
def cases_in(file: Path) -> dict[str, Case]:
    """Case id → case, of all functions of the file, in its order. Imports the file, and what it imports.

    A file of an importable package is imported as its part, any other under a name of its own. Raises CaseError where
    it is not there, and NoCaseError where it holds no case.
    """
    if not file.is_file():
        raise CaseError(f"there is no file {file}")
    package = [folder.name for folder in _packages(file)]
    if package:
        name = ".".join([*package, file.stem])
        root = str(file.resolve().parents[len(package)])
        if root not in sys.path:
            sys.path.insert(0, root)
        module = importlib.import_module(name)
    else:
        name = f"{file.stem}_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    found = {case.id: case for value in vars(module).values() for case in getattr(value, "cases", ())}
    if not found:
        raise NoCaseError(f"{file} declares no case: a case is a function decorated with @case")
    return found


def _packages(file: Path) -> list[Path]:
    """The folders with an __init__.py that hold the file, outermost first."""
    found = []
    folder = file.resolve().parent
    while (folder / "__init__.py").exists():
        found.insert(0, folder)
        folder = folder.parent
    return found
