"""What pytest collected: which of its tests are items of the suite, and which files declare cases."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from conformance.cases.case import Case
from conformance.harness.item import Item


def is_conformance_item(item: pytest.Item) -> bool:
    return "conformance_item" in getattr(getattr(item, "callspec", None), "params", {})


def conformance_item(item: pytest.Item) -> Item:
    return item.callspec.params["conformance_item"]  # type: ignore[attr-defined] # pytest has it where @case is


def is_in_case_file(item: pytest.Item) -> bool:
    """Whether the test's file declares cases: it may be an explanation, which compiles too."""
    return _declares_cases(getattr(item, "module", None))


@functools.cache
def _declares_cases(module: ModuleType | None) -> bool:
    return module is not None and any(map(cases_of, vars(module).values()))


def cases_of(value: Any) -> Sequence[Case]:
    """The cases of a function that @case decorates; none for any other value."""
    cases = getattr(value, "cases", ())
    return cases if isinstance(cases, list) and all(isinstance(each, Case) for each in cases) else ()
