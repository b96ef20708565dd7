"""The package that a case needs beside torch: whether it is installed and loads, and its versions."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util

from packaging.specifiers import SpecifierSet

from conformance.errors import first_line

#: Package → its versions that go with what is stored for the cases in conformance/models: the extra `models`.
MODEL_PACKAGES = {"diffusers": ">=0.42,<0.43", "torchvision": ">=0.28,<0.29", "transformers": ">=5.24,<5.25"}
#: Package → what it imports where that is installed, but not when the package itself is imported.
_IMPORTED_LATER = {"transformers": ("torchvision",)}


@functools.cache
def package_problem(package: str) -> str:
    """Why cases that need this package cannot run, in one sentence; "" if they can. Imports the package."""
    if importlib.util.find_spec(package) is None:
        return f"the package {package} is not installed: {_command(package)}"
    if error := _import_error(package):
        return (
            f"the package {package} is installed and does not load: {error}; does it fit the installed torch? "
            f"{_command(package)}"
        )
    for other in _IMPORTED_LATER.get(package, ()):
        if importlib.util.find_spec(other) is not None and (error := _import_error(other)):
            return (
                f"the package {package} imports {other}, which is installed and does not load: {error}; install the "
                f"{other} that fits the installed torch, or none: pip uninstall {other}"
            )
    return ""


def _import_error(package: str) -> str:
    """Type and first line of what importing a package raises; "" if it can be imported."""
    try:
        importlib.import_module(package)
    except Exception as error:  # noqa: BLE001 - what is wrong with a package may raise anything
        return ": ".join(filter(None, (type(error).__name__, first_line(error))))
    return ""


def other_version(package: str) -> str:
    """Which version of a package of models is installed, where the code of cases is stored for another; else ""."""
    if package not in MODEL_PACKAGES:
        return ""
    wanted = MODEL_PACKAGES[package]
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
    if SpecifierSet(wanted).contains(installed, prereleases=True):
        return ""
    return f"{package} {installed} is installed, and what is stored is for {package}{wanted}"


def _command(package: str) -> str:
    """What to type to have the package."""
    return "pip install 'conformance[models]'" if package in MODEL_PACKAGES else f"pip install {package}"
