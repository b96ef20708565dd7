"""Two reports compared: of each case and target, the least times, and the calls that only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conformance.bench.table import aligned
from conformance.estimates import EstimateError
from conformance.estimates.model import Estimate
from conformance.estimates.report import Report
from conformance.terminal import heading
from conformance.words import bytes_text, microseconds

#: A call: its module and name, its bytes and operations.
_Call = tuple[str, str, int, tuple[tuple[str, int], ...]]


def text(old: Report, new: Report, top: int) -> str:
    """What differs. `top`: calls that are shown for each case and target; 0: all. Raises EstimateError if the reports
    have no case and target in common.
    """
    before = {(each.case, each.target, each.product): each for each in old.estimates}
    pairs = [(before[key], each) for each in new.estimates if (key := (each.case, each.target, each.product)) in before]
    if not pairs:
        raise EstimateError(
            "the two files have no case with the same target and product: estimate the same ones in both"
        )
    lines = [
        f"old: torch {old.about['torch']}: {old.about['command']}",
        f"new: torch {new.about['torch']}: {new.about['command']}",
    ]
    header = ["case", "target", "least µs, old", "new", "change", "kernels, old", "new", "moved, old", "new"]
    rows = [
        [
            after.case,
            after.target,
            microseconds(first.us),
            microseconds(after.us),
            _change(first.us, after.us),
            str(first.kernels),
            str(after.kernels),
            bytes_text(first.read + first.written),
            bytes_text(after.read + after.written),
        ]
        for first, after in pairs
    ]
    grown = [after.us > first.us for first, after in pairs]
    lines += ["", heading("# estimates"), aligned(header, rows, left=2, red=grown)]
    for first, after in pairs:
        lines += _differing_calls(first, after, top)
    alone = len(old.estimates) + len(new.estimates) - 2 * len(pairs)
    return "\n".join(lines + ([f"\nonly in one of the files: {alone} of the estimates"] if alone else []))


def _differing_calls(old: Estimate, new: Estimate, top: int) -> Iterator[str]:
    """The calls that the other side does not have, or has less often; those with the most time first."""
    counts = [Counter({key: number for key, number, _ in _calls(each)}) for each in (old, new)]
    times = {key: us for each in (old, new) for key, _, us in _calls(each)}
    differing = [("-", key, count) for key, count in (counts[0] - counts[1]).items()]
    differing += [("+", key, count) for key, count in (counts[1] - counts[0]).items()]
    if not differing:
        return
    differing.sort(key=lambda each: -times[each[1]] * each[2])
    yield "\n" + heading(f"# {new.case} for {new.target}: calls that differ")
    shown = differing[:top] if top else differing
    rows = [
        [
            sign,
            f"{module}: {name}" if module else name,
            microseconds(times[module, name, moved, operations] * count),
            str(count),
            bytes_text(moved),
        ]
        for sign, (module, name, moved, operations), count in shown
    ]
    yield aligned(["", "call", "least µs", "calls", "moved by one"], rows, left=2, red=[row[0] == "+" for row in rows])
    if rest := len(differing) - len(shown):
        yield f"and {rest} more: --top 0 shows all"


def _calls(estimate: Estimate) -> Iterator[tuple[_Call, int, float]]:
    for each in estimate.calls:
        yield (
            (each.module, each.name, each.read + each.written, tuple(sorted(each.operations.items()))),
            each.count,
            each.us,
        )


def _change(old: float, new: float) -> str:
    return f"{new / old - 1:+.1%}" if old else ""
