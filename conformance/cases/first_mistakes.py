"""What somebody writes who knows pytest and not @case: no brackets, a method, a fixture, parametrize."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.documentation import reference


def problem_of_unnamed(unnamed: Sequence[Any]) -> str:
    """What is wrong with @case without brackets, or with inputs without names; "" if nothing is."""
    if unnamed and inspect.isfunction(unnamed[0]):
        inputs = ", ".join(f"{name}=tensor(20)" for name in inspect.signature(unnamed[0]).parameters)
        return f"{unnamed[0].__name__}: @case needs brackets with the inputs of the function: write @case({inputs})"
    return "@case takes inputs by the names of parameters: write @case(x=tensor(20))" if unnamed else ""


def problem_of_function(fn: Callable[..., Any]) -> str:
    """Why a function is none of a case: it belongs to a class, or is parametrised; "" if it is one."""
    owner = fn.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        return f"cases are functions only: write it outside of the class {owner.rpartition('.')[2]}, without self"
    return next((parametrised(mark) for mark in getattr(fn, "pytestmark", ()) if mark.name == "parametrize"), "")


def parametrised(mark: Any) -> str:
    """The problem of a case with the mark `parametrize`."""
    names = mark.args[0] if mark.args else mark.kwargs.get("argnames", "n")
    first = (names.split(",") if isinstance(names, str) else [*names])[0].strip()
    return f"a case is not parametrised with a mark: a list is an axis, write @case({first}=[1, 2])"


def problem_of_missing(fn: Callable[..., Any], name: str) -> str:
    """What to write for a parameter of the function that @case does not name."""
    missing = f"no input is declared for the argument {name!r}"
    if name == "request" or _is_fixture(fn, name):
        return f"{missing}, and a case takes no fixtures: make what it gives in the function, or in prepare="
    return f"{missing}: write @case({name}=tensor(20)), or {name}=[1, 2] for an axis, in place of parametrize"


def problem_of_expectations(declared: Mapping[str, Any]) -> str:
    """Why one of the keywords that are dicts is none; "" if all are."""
    for name in ("require", "missed", "numerics", "only", "compared_as"):
        if not isinstance(declared[name], Mapping):
            return f"{name} is {declared[name]!r}: it must be a dict; {reference('public-names', 'keywords-of-case')}"
    return ""


def _is_fixture(fn: Callable[..., Any], name: str) -> bool:
    """Whether the function's file, a conftest, pytest or a plugin of it has a fixture of this name."""
    places = [each for key, each in sys.modules.items() if key.startswith(("_pytest.", "pytest_")) or "conftest" in key]
    values = [getattr(fn, "__globals__", {}).get(name), *(getattr(each, name, None) for each in places)]
    return any(hasattr(each, "_pytestfixturefunction") or type(each).__name__.startswith("Fixture") for each in values)
