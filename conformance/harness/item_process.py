"""What holds in this process while an item runs, and not while a project's own tests do."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.capture.deviceless.prepare import in_use
from conformance.harness import foreign_warnings
from conformance.harness.collected import conformance_item, is_conformance_item


class ItemProcess:
    """A plugin for a process that runs items."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if not is_conformance_item(item):
            return (yield)
        try:
            with in_use(), foreign_warnings.no_errors():
                return (yield)
        except KeyboardInterrupt:  # it may come at any moment, also in pytest between the set-up and the call
            conformance_item(item).forget()
            raise
