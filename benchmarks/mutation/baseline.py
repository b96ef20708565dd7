"""Whether an item passes without any mutant, as a fresh process finds it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mutation.judging import ITEM_SECONDS, item_name
from mutation.pool import Note
from mutation.reached import Reached
from mutation.suite import Suite, TooSlowError


class Baseline:
    """`passing`, `failing`: the names of the items that ran without a mutant, by what came of them."""

    def __init__(self, suite: Suite, reached: Reached) -> None:
        self._suite = suite
        self._items = {item_name(item): item for item in reached.items}
        self.passing: set[str] = set()
        self.failing: set[str] = set()

    def run(self, name: str, _note: Note) -> dict[str, Any]:
        """Runs an item. For a copy of this process."""
        try:
            return asdict(self._suite.judge(self._items[name], ITEM_SECONDS))
        except TooSlowError as error:
            return {"crash": str(error), "requirements": "", "numerics": ""}

    def add(self, name: str, result: dict[str, Any] | None, how: str) -> None:
        """Adds what `run` returned, and how its process ended, as Pool.next gives it."""
        found = how or result is None or any(result[each] for each in ("crash", "requirements", "numerics"))
        (self.failing if found else self.passing).add(name)
