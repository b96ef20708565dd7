"""What needs someone: the causes of a report's failures, the most severe ones first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.report.changes import Changes
from conformance.report.columns import Cell, Cells, Column
from conformance.report.states import (
    CODE_CHANGED,
    NEEDY,
    NOT_RUN,
    NOT_STORED,
    STATES,
    WRONG_VALUES,
    failed_checks,
    failure,
)
from conformance.review.causes import join_targets
from conformance.storage.runs import message_file
from conformance.words import pluralise

#: A number in a message. Messages that differ only in numbers have one cause.
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?")
_SAID = re.compile("^(Numerics|Requirement|NoStoredCode|Code|NoStoredBinaries|Binary|Deviceless)Error: ")
_LONGEST = 240


@dataclass
class Need:
    """Items that need someone for one cause. `state`: of STATES. `change`: the id of a cause of changed code, or ""."""

    state: str
    title: str
    items: list[tuple[str, Column]] = field(default_factory=list)
    change: str = ""

    @property
    def reach(self) -> str:
        """The items in words: "14 items of activation and loss, on cuda_sm90"."""
        operators = list(dict.fromkeys(case.partition("/")[0] for case, _ in self.items))
        named = " and ".join(operators) if len(operators) < 3 else pluralise(len(operators), "operator")
        releases = list(dict.fromkeys(column.torch for _, column in self.items))
        targets = join_targets(list(dict.fromkeys(column.target for _, column in self.items)))
        return f"{pluralise(len(self.items), 'item')} of {named}, on {targets}, torch {', '.join(releases)}"

    def to_json(self) -> dict[str, Any]:
        """As the page gets it. The items of changed code are the members of its cause."""
        items = [] if self.change else [[case, column.torch, column.target] for case, column in self.items]
        about = {"state": STATES.index(self.state), "title": self.title, "reach": self.reach, "change": self.change}
        return about | {"items": items}


def needs_of(cells: Cells, changes: Changes) -> list[Need]:
    """The needs by severity; those of one state by their number of items. Each item that failed is in one at least."""
    found: dict[tuple[str, ...], Need] = {}
    of_changes = _causes(changes)
    for (case, column), cell in sorted(cells.cells.items(), key=lambda each: (each[0][0], each[0][1].target)):
        for key, title, change in _causes_of(cell, of_changes.get((case, column), ())):
            found.setdefault(key, Need(key[0], title, change=change)).items.append((case, column))
    return sorted(found.values(), key=lambda each: (STATES.index(each.state), -len(each.items), each.title))


def _causes(changes: Changes) -> Mapping[tuple[str, Column], list[Mapping[str, Any]]]:
    found: dict[tuple[str, Column], list[Mapping[str, Any]]] = {}
    for cause in changes.data:
        if cause["kind"] == "cost":  # fails no check
            continue
        for torch in cause["torch"]:
            for case, target in cause["members"]:
                found.setdefault((case, Column(torch, target)), []).append(cause)
    return found


def _causes_of(cell: Cell, causes: Iterable[Mapping[str, Any]]) -> Iterable[tuple[tuple[str, ...], str, str]]:
    """For each state that a check gives the cell: the cause, what it says, and the id of the changed code."""
    if cell.record is None or cell.state == NOT_RUN:
        yield (NOT_RUN,), "selected, and without a result", ""
        return
    if cell.state not in NEEDY:
        return
    failed = failed_checks(cell.record)
    if not failed:  # nothing could run
        reasons = {each.detail for each in cell.record.checks.values()}
        yield from (((cell.state, reason), reason[:_LONGEST], "") for reason in sorted(reasons))
    for check, result in failed.items():
        state = failure(check, result)
        if state == CODE_CHANGED and check == "code" and causes:
            yield from (((state, cause["id"]), cause["title"], cause["id"]) for cause in causes)
            continue
        reason = _reason(cell, result.detail)
        if state == WRONG_VALUES:  # what is wrong differs from case to case: an operator is the nearest to a cause
            operator = cell.case.partition("/")[0]
            yield (state, operator), f"{operator}: {_first_problem(cell, check) or reason}"[:_LONGEST], ""
        else:
            key = reason if state == NOT_STORED else _NUMBER.sub("N", reason)
            yield (state, check, key), reason[:_LONGEST], ""


def _reason(cell: Cell, detail: str) -> str:
    """A detail without the name of its item, and without what the state says already."""
    detail = _SAID.sub("", detail)
    detail = re.sub(r"; \d+ of \d+ requirements not met$", "", detail)
    for name in (f"{cell.case}-{cell.column.target}", cell.case):
        detail = re.sub(rf"{re.escape(name)}[:,]? ?", "", detail)
    return detail.removeprefix(f"on {cell.column.target}: ")


def _first_problem(cell: Cell, check: str) -> str:
    """The line of the whole message that says which tensor is wrong, and how; "" where the run has none."""
    lines = cell.artifact(message_file(check)).splitlines()
    return lines[1] if len(lines) > 1 else ""
