"""Accounts for every item of a run: how it ended, in one word, which did not run, and which checks were not made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conformance.review import overview
from conformance.review.causes import pluralise
from conformance.review.review import Review
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run

#: How many items the lines name.
_NAMED = 3
#: How an item can end, in the order of the last line.
ENDINGS = ("passed", "failed", "known failures", "with missed optimisations", "cannot run", "not run")
#: The end of a run names at most so many failures of each check.
MAX_FAILURES = 10
#: Numerics come last, nearest to the prompt: a wrong result matters most.
_CHECKS = ("compile", "requirements", "code", "binary", "deviceless", "numerics")


def ending(item: ItemRecord) -> str:
    """How an item ended: one of ENDINGS."""
    outcomes = {result.outcome for result in item.checks.values()}
    if outcomes & {Outcome.FAILED, Outcome.STALE}:
        return "failed"
    if Outcome.KNOWN in outcomes:
        return "known failures"
    if outcomes == {Outcome.SKIPPED}:
        return "cannot run"
    return "with missed optimisations" if item.missed else "passed"


def account(items: Sequence[ItemRecord], selected: int) -> str:
    """Returns "110 items = 56 passed + 53 failed + 1 not run". `selected`: how many items pytest was to run."""
    counts = Counter(map(ending, items))
    counts["not run"] = max(0, selected - len(items))
    parts = [f"{counts[word]} {word}" for word in ENDINGS if counts[word]]
    return f"{pluralise(max(selected, len(items)), 'item')} = {' + '.join(parts) or 'none'}"


def failure_lines(items: Sequence[ItemRecord], review: Review) -> list[str]:
    """Returns a line for each failed check that no cause explains; numerics last."""
    lines = []
    for check in _CHECKS:
        failed = [
            f"{check} failed: {item.name}: {result.detail}"
            for item in items
            if (result := item.checks.get(check)) is not None
            and result.outcome in (Outcome.FAILED, Outcome.STALE)
            and not (check == "code" and review.causes_of.get(item.name))
        ]
        lines += [overview.shorten(line, 200) for line in failed[:MAX_FAILURES]]
        if len(failed) > MAX_FAILURES:
            lines.append(f"{check} failed: {pluralise(len(failed) - MAX_FAILURES, 'more item')}")
    return lines


def not_run(run: Run, items: Sequence[ItemRecord]) -> list[str]:
    """The names of selected items that did not run or did not end, in the order of the run."""
    ended = {item.name for item in items if not any(map(_did_not_end, item.checks.values()))}
    return [name for name in run.selected().values() if name and name not in ended]


def not_run_lines(run: Run, items: Sequence[ItemRecord]) -> list[str]:
    """A line that says how many selected items did not run, and names some; none where all ran."""
    missing = not_run(run, items)
    if not missing:
        return []
    selected = sum(map(bool, run.selected().values()))
    more = len(missing) - _NAMED
    names = ", ".join(missing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [f"not run: {len(missing)} of the {selected} selected items: {names}"]


def _did_not_end(result: CheckResult) -> bool:
    return result == CheckResult(Outcome.FAILED, NOT_ENDED)
