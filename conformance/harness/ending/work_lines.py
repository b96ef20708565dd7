"""The lines at the end of a run about the work of its compiles. What became more is among the causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.review.cost_causes import WORK
from conformance.review.review import Review
from conformance.storage.runs import ItemRecord
from conformance.words import pluralise


def work_lines(items: Sequence[ItemRecord], review: Review, baseline: str) -> Iterator[str]:
    """Nothing without the check "work". `baseline`: its name, as the user wrote it; "" for none."""
    counted = [item.fact_values[WORK] for item in items if WORK in item.fact_values]
    if not counted:
        return
    yield f"compile work: {sum(counted):,} calls of Python functions in {pluralise(len(counted), 'item')}"
    if not baseline:
        return
    if not any(WORK in each.facts for each in review.counted_items.values()):
        yield f"the run {baseline} counted nothing: give it --checks work"
    elif not any(cause.key == (WORK,) for cause in review.cost_causes):
        yield f"compile work: as in the run {baseline}"
