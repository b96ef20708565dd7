"""What holds in this process while an item runs, and not while a project's own tests do."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.capture.deviceless.prepare import in_use
from conformance.harness.collected import is_conformance_item

#: Modules whose warnings a project cannot mend: torch warns when it is imported, and when it compiles.
_OTHERS = r"(torch|triton|conformance|sympy|networkx)(\.|$)"


class ItemProcess:
    """A plugin for a process that runs items."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if not is_conformance_item(item):
            return (yield)
        with in_use(), _warnings_of_others_are_no_errors():
            return (yield)


@contextlib.contextmanager
def _warnings_of_others_are_no_errors() -> Iterator[None]:
    """Inside, `filterwarnings = error` holds for the project's modules: pytest shows the warnings of others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("default", module=_OTHERS)
        yield
