"""Loads the cases of a test file outside pytest."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType

from conformance.cases.case import Case, CaseError, cases_of
from conformance.cases.project import project_of


class NoCaseError(CaseError):
    """A file that declares no case."""


@functools.cache
def cases_in(file: Path) -> dict[str, Case]:
    """Id → case, for all cases of a test file, in the order of their declarations. Imports the file.

    A file of a package is imported as a module of that package, any other file under a unique name. Raises CaseError if
    the file does not exist, and NoCaseError if it declares no case. What the file raises at import is passed on.
    """
    if not file.is_file():
        raise CaseError(f"there is no file {file}")
    file = file.resolve()
    for folder in map(str, project_of(file.parent).import_folders_of(file)):
        if folder not in sys.path:
            sys.path.insert(0, folder)  # as pytest does: a test file may import its neighbours and the project
    packages = [folder.name for folder in _package_folders(file)]
    if packages:
        module = importlib.import_module(".".join([*packages, file.stem]))
    else:
        name = f"{file.stem}_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:8]}"
        module, loader = module_of_file(name, file)
        sys.modules[name] = module
        loader.exec_module(module)
    cases = {case.id: case for value in vars(module).values() for case in cases_of(value)}
    if not cases:
        raise NoCaseError(f"{file} declares no case; a case is a function test_... with the decorator @case")
    return cases


def module_of_file(name: str, file: Path) -> tuple[ModuleType, Loader]:
    """A new module for a Python file, not executed yet, and the loader that executes it.

    Raises CaseError if the file's name does not end in .py.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise CaseError(f"{file} is not a Python file; its name must end in .py")
    return importlib.util.module_from_spec(spec), spec.loader


def _package_folders(file: Path) -> list[Path]:
    """The folders of the packages that hold the file (those with an __init__.py), the outermost first."""
    folders: list[Path] = []
    folder = file.resolve().parent
    while (folder / "__init__.py").exists():
        folders.insert(0, folder)
        folder = folder.parent
    return folders
