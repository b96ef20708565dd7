"""Two reports, case by case: faster, slower, or the same within noise.

Medians differ where the quartile ranges do not overlap and they are more than 5 % apart (report.LEAST). The spread of
one run does not hold what changes from one run to the next: other load, other memory, another clock rate. Eager tells:
where torch, processor, target and threads are the same, eager's code is too, and compiled has to have moved further
than eager did in the same case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from conformance.bench import table
from conformance.bench.report import LEAST, Report, Row
from conformance.terminal import heading

FASTER, SLOWER, SAME = "faster", "slower", "same within noise"

#: What makes two runs comparable; where one of them differs, eager may have changed as well.
_SAME = ("torch", "triton", "python", "processor", "target", "threads")


def verdict(old: Row, new: Row, *, comparable: bool) -> str:
    """Of compiled. `comparable`: whether eager is the same code on the same machine."""
    before, after = old.times["compiled"], new.times["compiled"]
    moved = _change(old, new, "eager") if comparable else 1.0
    least = max(LEAST, moved - 1, 1 / moved - 1)
    if not after.differs(before, least):
        return SAME
    return FASTER if after.median < before.median else SLOWER


def text(old: Report, new: Report) -> str:
    """A header with what differs between the runs, a table for each function, and the counts."""
    differing = [name for name in _SAME if old.about.get(name) != new.about.get(name)]
    pairs = {row.case: row for row in old.rows}
    both = [(pairs[row.case], row) for row in new.rows if row.case in pairs]
    verdicts = {row.case: verdict(before, row, comparable=not differing) for before, row in both}
    lines = [f"old: {table.about(old.about)}", f"new: {table.about(new.about)}"]
    if differing:
        said = "; ".join(f"{name} {old.about.get(name)} → {new.about.get(name)}" for name in differing)
        lines.append(f"not the same machine or versions: {said}")
    parts = ["\n".join(lines)]
    for name, rows in table.by_function([row for _, row in both]).items():
        parts.append("\n".join(_function(name, [(pairs[row.case], row) for row in rows], verdicts)))
    parts.append(_counts(old, new, verdicts))
    return "\n\n".join(parts)


def _function(name: str, pairs: Sequence[tuple[Row, Row]], verdicts: dict[str, str]) -> list[str]:
    axes, common = table.axes_of([new for _, new in pairs])
    header = [*axes.values(), "compiled, old µs", "new µs", "change", "eager's", ""]
    lines = [
        [
            *(new.axes.get(axis, "") for axis in axes),
            table.spread(old.times["compiled"]),
            table.spread(new.times["compiled"]),
            f"{100 * (_change(old, new, 'compiled') - 1):+.0f} %",
            f"{100 * (_change(old, new, 'eager') - 1):+.0f} %",
            verdicts[new.case],
        ]
        for old, new in pairs
    ]
    slower = [verdicts[new.case] == SLOWER for _, new in pairs]
    return [heading(table.title(name, common)), table.aligned(header, lines, left=len(axes), red=slower)]


def _counts(old: Report, new: Report, verdicts: dict[str, str]) -> str:
    counts = Counter(verdicts.values())
    said = [f"{counts[word]} {word}" for word in (FASTER, SLOWER, SAME)]
    cases = {row.case for row in old.rows}, {row.case for row in new.rows}
    only = [(len(cases[0] - cases[1]), "only in the old"), (len(cases[1] - cases[0]), "only in the new")]
    return ", ".join([*said, *(f"{count} {where}" for count, where in only if count)])


def _change(old: Row, new: Row, way: str) -> float:
    return new.times[way].median / old.times[way].median
