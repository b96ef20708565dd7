"""Whether an item passes without any mutant, as a fresh process finds it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mutation.judging import ITEM_SECONDS, item_name
from mutation.pool import Note, outcomes
from mutation.reached import Reached
from mutation.suite import Suite, TooSlowError


class Baseline:
    """`failing`: the names of the items that were found to fail."""

    def __init__(self, suite: Suite, reached: Reached, workers: int) -> None:
        self._suite, self._workers = suite, workers
        self._items = {item_name(item): item for item in reached.items}
        self._passing: set[str] = set()
        self.failing: set[str] = set()

    def passes(self, name: str) -> bool:
        """Runs the item, once for each name."""
        if name not in self._passing and name not in self.failing:
            ((_, result, how),) = outcomes([self._items[name]], self._run, 1)
            passed = (
                not how
                and result is not None
                and not any(result[each] for each in ("crash", "requirements", "numerics"))
            )
            (self._passing if passed else self.failing).add(name)
        return name in self._passing

    def _run(self, item: tuple[str, str], _note: Note) -> dict[str, Any]:
        try:
            return asdict(self._suite.judge(item, ITEM_SECONDS))
        except TooSlowError as error:
            return {"crash": str(error), "requirements": "", "numerics": ""}
