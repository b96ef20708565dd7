"""What a sample says: tables by area, by operator and by file, the rate, and the survivors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.numerics.problem import ORDINARY_CALLS
from mutation.judging import Judgement
from mutation.making import Mutant
from mutation.survivors import Sorted

_COLUMNS = ("sampled", "not planted", "no code", "unchanged", "changed", "found", "sorted out", "missed", "rate")


@dataclass(frozen=True)
class Result:
    """A mutant and what came of it. `verdict`: of a survivor that a person has sorted, else ""."""

    mutant: Mutant
    judgement: Judgement
    verdict: str = ""

    @property
    def changed(self) -> bool:
        """Whether it changed the code of some case."""
        return self.judgement.outcome in {"found", "survived"}

    @property
    def found(self) -> bool:
        return self.judgement.outcome == "found"

    @property
    def missed(self) -> bool:
        """Whether it changes what is computed, as far as is known, and nothing found it."""
        return self.judgement.outcome == "survived" and self.verdict in {"", "hole"}


def sort_out(results: Iterable[tuple[Mutant, Judgement]], entries: Mapping[str, Sorted]) -> list[Result]:
    """Joins results with the verdicts of a person. A verdict counts only while the mutant survives."""
    return [
        Result(mutant, judged, entries[mutant.id].verdict if _is_sorted(mutant, judged, entries) else "")
        for mutant, judged in results
    ]


def _is_sorted(mutant: Mutant, judged: Judgement, entries: Mapping[str, Sorted]) -> bool:
    return judged.outcome == "survived" and mutant.id in entries


def rate(results: Sequence[Result]) -> float:
    """Found, of all that change what is computed. NaN without any."""
    found, missed = sum(each.found for each in results), sum(each.missed for each in results)
    return found / (found + missed) if found + missed else math.nan


def text(results: Sequence[Result], unreached: Mapping[str, int], reached: Mapping[str, int]) -> str:
    """The whole report."""
    changed = [each for each in results if each.changed]
    survivors = [each for each in changed if not each.found]
    numbers = f"{sum(reached.values())} mutants in lines that some case executes, {sum(unreached.values())} in others"
    parts = [
        f"{numbers}; {len(results)} sampled, {len(changed)} change the code of a case",
        _table(results, "area", lambda each: each.mutant.area),
        _table(results, "operator", lambda each: each.mutant.operator),
        _table(results, "file", lambda each: each.mutant.file),
        _how_found(results),
        f"sorted survivors: {_counts(Counter(each.verdict or 'not sorted' for each in survivors))}",
        *(survivor_text(each) for each in survivors if each.verdict in {"", "hole"}),
        headline(results),
    ]
    return "\n\n".join(parts)


def headline(results: Sequence[Result]) -> str:
    """One line with the rate."""
    found, missed = sum(each.found for each in results), sum(each.missed for each in results)
    without = [each for each in results if not each.found or each.judgement.how != ["error"]]
    return (
        f"rate: {_percent(rate(results))} ({found} of {found + missed} mutants that change what is computed); "
        f"without those whose code does not build or raises: {_percent(rate(without))}"
    )


def _table(results: Sequence[Result], title: str, key: Callable[[Result], str]) -> str:
    groups: dict[str, list[Result]] = {}
    for each in results:
        groups.setdefault(key(each), []).append(each)
    rows = [[title, *_COLUMNS]]
    for name, group in [*sorted(groups.items()), ("all", list(results))]:
        outcomes = Counter(each.judgement.outcome for each in group)
        survivors = [each for each in group if each.changed and not each.found]
        cells = [
            len(group),
            outcomes["not planted"],
            outcomes["does not compile"],
            outcomes["unchanged"],
            sum(each.changed for each in group),
            outcomes["found"],
            sum(not each.missed for each in survivors),
            sum(each.missed for each in survivors),
        ]
        rows.append([name, *map(str, cells), _percent(rate(group))])
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def _how_found(results: Sequence[Result]) -> str:
    found = [each.judgement for each in results if each.found]
    first = Counter(min(each.calls, key=_call_order) for each in found if each.calls)
    return (
        f"found by: {_counts(Counter(' and '.join(each.how) for each in found))}\n"
        f"wrong values first in the call: {_counts(first)}\n"
        f"rules of numerics: {_counts(Counter(rule for each in found for rule in each.rules))}"
    )


def _call_order(name: str) -> tuple[int, str]:
    return (ORDINARY_CALLS.index(name) if name in ORDINARY_CALLS else len(ORDINARY_CALLS), name)


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{number} × {name}" for name, number in ordered) or "none"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"


def survivor_text(each: Result) -> str:
    """A survivor, for a person to sort."""
    mutant, judged = each.mutant, each.judgement
    lines = [
        f"survivor{f' ({each.verdict})' if each.verdict else ''}: {mutant.id}",
        f"  line {mutant.line}; {judged.generated} items generated, {judged.changed} changed, {judged.ran} ran",
        f"  changed and passed: {', '.join(judged.quiet[:4])}",
        *(f"    {line}" for line in judged.diff.split("\n")),
    ]
    return "\n".join(lines)


def to_json(each: Result) -> dict[str, Any]:
    """For --json."""
    mutant = each.mutant
    place = {"area": mutant.area, "file": mutant.file, "function": mutant.function, "line": mutant.line}
    place |= {"column": mutant.column, "operator": mutant.operator, "before": mutant.before, "after": mutant.after}
    return {"id": mutant.id, **place, "verdict": each.verdict, **each.judgement.to_json()}
