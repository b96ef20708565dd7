"""The lines at the end of a run about its known failures: how many items and bugs, the most severe first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.expectations.known_bugs import Bug, bugs
from conformance.expectations.known_failures import KnownFailures
from conformance.expectations.severity import Severity
from conformance.review.overview import shorten
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord
from conformance.words import pluralise

#: What the result of a check begins with that a known failure leaves out.
LEFT_OUT = "not run: "


@dataclass
class _Group:
    """What known failures of one severity excused. `items`: each in the group of its worst bug only."""

    items: set[str] = field(default_factory=set)
    reasons: dict[str, int] = field(default_factory=dict)


def known_failure_lines(excused: Iterable[tuple[Sequence[ItemRecord], KnownFailures]]) -> list[str]:
    """A line that counts items and bugs, and one for each severity; none where nothing was excused.

    excused: items, and the known failures of their folder.
    """
    groups: dict[Severity, _Group] = {}
    for items, failures in excused:
        by_reason = {bug.reason: bug for bug in bugs(failures.failures)}
        for item in items:
            if found := _bugs_of(item, by_reason):
                group = groups.setdefault(min(bug.severity for bug in found), _Group())
                group.items.add(item.name)
                for bug in found:
                    group = groups.setdefault(bug.severity, _Group())
                    group.reasons[bug.reason] = group.reasons.get(bug.reason, 0) + 1
    if not groups:
        return []
    count = pluralise(sum(len(group.items) for group in groups.values()), "item")
    number = pluralise(sum(len(group.reasons) for group in groups.values()), "bug")
    return [
        f"known failures: {count} with {number}; `python -m conformance list --bugs` lists them, the most severe first",
        *(_line(each, groups[each]) for each in sorted(groups)),
    ]


def _bugs_of(item: ItemRecord, by_reason: dict[str, Bug]) -> list[Bug]:
    known = [result.detail for result in item.checks.values() if result.outcome is Outcome.KNOWN]
    reasons = [detail.removeprefix(LEFT_OUT) for detail in known]
    return [by_reason[reason] for reason in reasons if reason in by_reason]


def _line(severity: Severity, group: _Group) -> str:
    most = max(group.reasons, key=lambda reason: group.reasons[reason])
    counts = f"{pluralise(len(group.items), 'item')}, {pluralise(len(group.reasons), 'bug')}"
    return shorten(f"  {severity.title.lower()}: {counts}; most often: {most}", 200)
