"""Accounts for every item of a run: how it ended, in one word, which did not run, and which checks were not made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from conformance.review import overview
from conformance.review.review import Review
from conformance.settings import ALL_CHECKS
from conformance.storage.binaries import NO_BINARIES
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run
from conformance.words import pluralise

#: The message of a check that finds no snapshot contains this.
NOTHING_STORED = "nothing is stored for torch"
_NOT_ENDED = CheckResult(Outcome.FAILED, NOT_ENDED)
#: How many items the lines name.
_NAMED = 3
#: How an item can end, in the order of the last line. "cannot run": for a reason that lies in this machine.
ENDINGS = ("passed", "failed", "known failures", "with missed optimisations", "excluded", "cannot run", "not run")
#: The end of a run names at most so many failures of each check.
MAX_FAILURES = 10
#: The end of a run names at most so many reasons why it compared less than it was asked to.
MAX_REASONS = 8
#: Numerics come last, nearest to the prompt: a wrong result matters most.
_CHECKS = (*(each.name for each in ALL_CHECKS if each.name != "numerics"), "numerics")


def ending(item: ItemRecord) -> str:
    """How an item ended: one of ENDINGS."""
    outcomes = {result.outcome for result in item.checks.values()}
    if _did_not_end_at_all(item):
        return "not run"
    if outcomes & {Outcome.FAILED, Outcome.STALE}:
        return "failed"
    if Outcome.KNOWN in outcomes:
        return "known failures"
    if item.outcome("compile") is Outcome.EXCLUDED:
        return "excluded"
    if outcomes == {Outcome.SKIPPED}:
        return "cannot run"
    return "with missed optimisations" if item.missed else "passed"


def account(run: Run, items: Sequence[ItemRecord]) -> str:
    """Returns "110 items = 56 passed + 53 failed + 1 not run; numerics of 4 items did not run"."""
    selected = [name for name in run.selected().values() if name]
    counts = Counter(map(ending, items))
    counts["not run"] += len(set(selected) - {item.name for item in items})
    parts = [f"{counts[word]} {word}" for word in ENDINGS if counts[word]]
    line = f"{pluralise(sum(counts.values()), 'item')} = {' + '.join(parts) or 'none'}"
    without = len(items_without_numerics(items))
    return line + (f"; numerics of {pluralise(without, 'item')} did not run" if without else "")


def items_without_numerics(items: Sequence[ItemRecord]) -> list[ItemRecord]:
    """The items that compiled and whose numerics did not run, although they were to."""
    return [item for item in items if item.text and item.outcome("numerics") is Outcome.SKIPPED]


def left_out_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many items' cases leave the check of numerics out, a line for each reason."""
    reasons = Counter(item.checks["numerics"].detail for item in items if item.outcome("numerics") is Outcome.EXCLUDED)
    return [f"numerics left out: {pluralise(count, 'item')}: {reason}" for reason, count in reasons.most_common()]


def shortcomings(run: Run, items: Sequence[ItemRecord]) -> list[str]:
    """What this run compared less than it was asked to: a line for each reason; none for a complete run."""
    reasons: Counter[str] = Counter()
    for item in items:
        if ending(item) == "cannot run":
            reasons.update({f"cannot run: {result.detail}" for result in item.checks.values()})
    for item in items_without_numerics(items):
        reasons[f"numerics did not run: {item.checks['numerics'].detail}"] += 1
    lines = [f"{reason} ({pluralise(count, 'item')})" for reason, count in reasons.most_common(MAX_REASONS)]
    if len(reasons) > MAX_REASONS:
        lines.append(f"and {pluralise(len(reasons) - MAX_REASONS, 'more reason')}: see the run's record")
    return [*not_run_lines(run, items), *lines]


def contradictions(run: Run, items: Sequence[ItemRecord], failed_node_ids: Iterable[str]) -> list[str]:
    """Where pytest's reports and the run's record disagree about which items failed: a line for each; else none.

    `failed_node_ids`: of the tests that pytest reports as failed.
    """
    selected = run.selected()
    reported = {selected[each] for each in failed_node_ids if selected.get(each)}
    reported -= set(not_run(run, items))  # interrupted, or not recorded because the disk is full: lines name them
    recorded = {item.name for item in items if ending(item) == "failed"}
    return [
        *(f"pytest reports {name} as failed, and the run's record does not" for name in sorted(reported - recorded)),
        *(f"the run's record has {name} as failed, and pytest does not" for name in sorted(recorded - reported)),
    ]


def is_unstored(detail: str) -> bool:
    """Whether a failed check says that it has nothing to compare with yet."""
    return NOTHING_STORED in detail or NO_BINARIES in detail


def unstored_lines(items: Sequence[ItemRecord]) -> list[str]:
    """A line that counts the cases without stored code, with what stores it, and one for binaries; else none.

    It names few cases. An item whose numerics fail is not counted: nothing stores its code.
    """
    lines = []
    for check, name in (("code", "code"), ("binary", "binaries")):
        cases = {item.case for item in items if _is_unstored(item.checks.get(check)) and not _is_wrong(item)}
        if cases:
            named = f" ({', '.join(sorted(cases))})" if len(cases) <= _NAMED else ""
            verb = "has" if len(cases) == 1 else "have"
            how = "EXPECTTEST_ACCEPT=new pytest, with the arguments of this run, stores"
            object_ = "it" if name == "code" else "them"
            lines.append(f"{pluralise(len(cases), 'case')} {verb} no stored {name} yet{named}: {how} {object_}")
    return lines


def _is_unstored(result: CheckResult | None) -> bool:
    return result is not None and result.outcome is Outcome.FAILED and is_unstored(result.detail)


def _is_wrong(item: ItemRecord) -> bool:
    numerics = item.checks.get("numerics")
    return numerics is not None and numerics.outcome is Outcome.FAILED


def failure_lines(items: Sequence[ItemRecord], review: Review) -> list[str]:
    """Returns a line for each failed check that no cause explains; numerics last.

    Checks with nothing to compare with are left out: see `unstored_lines`.
    """
    lines = []
    for check in _CHECKS:
        failed = [
            f"{check} failed: {item.name}: {result.detail}"
            for item in items
            if (result := item.checks.get(check)) is not None
            and result.outcome in (Outcome.FAILED, Outcome.STALE)
            and result != _NOT_ENDED
            and not _is_unstored(result)
            and not (check == "code" and review.causes_of.get(item.name))
        ]
        lines += [overview.shorten(line, 200) for line in failed[:MAX_FAILURES]]
        if len(failed) > MAX_FAILURES:
            lines.append(f"{check} failed: {pluralise(len(failed) - MAX_FAILURES, 'more item')}")
    return lines


def not_run(run: Run, items: Sequence[ItemRecord]) -> list[str]:
    """The names of selected items that did not run or did not end, in the order of the run."""
    ended = {item.name for item in items if not _did_not_end_at_all(item)}
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


def _did_not_end_at_all(item: ItemRecord) -> bool:
    return any(map(_did_not_end, item.checks.values()))


def _did_not_end(result: CheckResult) -> bool:
    return result == _NOT_ENDED
