"""Modules that a file of cases needs only on some targets, such as Triton."""

from __future__ import annotations

import importlib
from typing import Any


def optional_module(name: str) -> Any:
    """The module of this name, such as "triton.language"; a stand-in if its package is not installed.

    With a stand-in, a file of cases can be imported: each attribute of it, and what a call of it returns, is a stand-in
    too, so decorators work. To index one, as in the launch of a Triton kernel, raises ModuleNotFoundError. The other
    cases of the file run; `@case(only=…)` says on which targets those run that need the package.

    Raises what the import raises for any other reason.
    """
    package = name.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return _StandIn(package)
    return importlib.import_module(name)


class _StandIn:
    """Stands for something of a package that is not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):  # Python asks for these, such as __wrapped__
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> _StandIn:
        return self

    def __getitem__(self, _: Any) -> Any:
        raise ModuleNotFoundError(f"the package {self._package} is not installed", name=self._package)

    def __repr__(self) -> str:
        return f"<stand-in for {self._package}, which is not installed>"
