"""A pytest plugin for a process that runs items: before an item, it captures that item and the next ones together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from conformance.harness.captures_ahead import CASES, CapturesAhead

if TYPE_CHECKING:
    from conformance.harness.item import Item


class LookAhead:
    """`captures`: gets the items. `item_of`: the conformance item of a pytest item; None for other tests.

    Register it after the plugins that note which item begins: an accident in here belongs to no item that has begun.
    """

    def __init__(self, captures: CapturesAhead, item_of: Callable[[pytest.Item], Item | None]) -> None:
        self._captures, self._item_of = captures, item_of
        self._position: dict[pytest.Item, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if (first := self._item_of(item)) is not None:
            self._captures.look_ahead(first, self._following(item))

    def _following(self, item: pytest.Item) -> Iterator[Item]:
        """The items of the next cases of the same file."""
        if not self._position:
            self._position = {each: number for number, each in enumerate(item.session.items)}
        cases: set[str] = set()
        for each in itertools.islice(item.session.items, self._position[item] + 1, None):
            other = self._item_of(each)
            if other is None or each.path != item.path:
                return
            cases.add(other.case.id)
            if len(cases) > CASES:
                return
            yield other
