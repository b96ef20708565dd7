"""Two reports compared case by case: faster, slower, or the same within noise.

Medians differ if the quartile ranges do not overlap and the medians are more than 5 % apart (report.MIN_CHANGE). The
spread within one run does not include what changes between two runs: other load, other memory, another clock rate.
Eager shows these changes: with the same torch, processor, target and threads, eager runs the same code. So compiled
must change by more than eager did in the same case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conformance.bench import table
from conformance.bench.report import MIN_CHANGE, Report, Row
from conformance.terminal import heading

FASTER, SLOWER, SAME = "faster", "slower", "same within noise"

#: Two runs are comparable if these are equal; otherwise eager may have changed too.
_MUST_BE_EQUAL = ("torch", "triton", "python", "processor", "target", "threads")


def verdict(old: Row, new: Row, *, comparable: bool) -> str:
    """Returns whether compiled got faster or slower. `comparable`: eager is the same code on the same machine."""
    before, after = old.times["compiled"], new.times["compiled"]
    eager = _change(old, new, "eager") if comparable else 1.0
    if not after.differs(before, max(MIN_CHANGE, eager - 1, 1 / eager - 1)):
        return SAME
    return FASTER if after.median < before.median else SLOWER


def text(old: Report, new: Report) -> str:
    """Returns what differs between the runs, a table for each function, and the counts."""
    differing = [name for name in _MUST_BE_EQUAL if old.about.get(name) != new.about.get(name)]
    old_rows = {row.case: row for row in old.rows}
    both = [(old_rows[row.case], row) for row in new.rows if row.case in old_rows]
    verdicts = {row.case: verdict(before, row, comparable=not differing) for before, row in both}
    lines = [f"old: {table.about(old.about)}", f"new: {table.about(new.about)}"]
    if differing:
        changes = "; ".join(f"{name} {old.about.get(name)} → {new.about.get(name)}" for name in differing)
        lines.append(f"not the same machine or versions: {changes}")
    parts = ["\n".join(lines)]
    for name, rows in table.rows_by_function([row for _, row in both]).items():
        parts.append("\n".join(_function(name, [(old_rows[row.case], row) for row in rows], verdicts)))
    parts.append(_counts(old, new, verdicts))
    return "\n\n".join(parts)


def _function(name: str, pairs: Sequence[tuple[Row, Row]], verdicts: dict[str, str]) -> list[str]:
    axes, shared = table.varying_axes([new for _, new in pairs])
    header = [*axes.values(), "compiled, old µs", "new µs", "change", "eager's change", "verdict"]
    lines = [
        [
            *(new.axes.get(axis, "") for axis in axes),
            table.median_and_iqr(old.times["compiled"]),
            table.median_and_iqr(new.times["compiled"]),
            f"{100 * (_change(old, new, 'compiled') - 1):+.0f} %",
            f"{100 * (_change(old, new, 'eager') - 1):+.0f} %",
            verdicts[new.case],
        ]
        for old, new in pairs
    ]
    slower = [verdicts[new.case] == SLOWER for _, new in pairs]
    return [heading(table.title(name, shared)), table.aligned(header, lines, left=len(axes), red=slower)]


def _counts(old: Report, new: Report, verdicts: dict[str, str]) -> str:
    counts = Counter(verdicts.values())
    words = [f"{counts[word]} {word}" for word in (FASTER, SLOWER, SAME)]
    old_cases, new_cases = ({row.case for row in report.rows} for report in (old, new))
    only = [(len(old_cases - new_cases), "only in the old"), (len(new_cases - old_cases), "only in the new")]
    return ", ".join([*words, *(f"{count} {where}" for count, where in only if count)])


def _change(old: Row, new: Row, function: str) -> float:
    """`function`: "eager" or "compiled"."""
    return new.times[function].median / old.times[function].median
