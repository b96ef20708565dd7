"""Estimates as text: a table for each case and target, and a line for each where there are several."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from conformance.bench.table import aligned
from conformance.estimates.model import NOT_COUNTED, Estimate
from conformance.facts.least_times import CallEstimate
from conformance.terminal import heading, width
from conformance.words import amount, bytes_text, microseconds, pluralise

_MAX_WIDTH = 120
#: Characters of a call's name that are shown.
_NAME = 70


def legend() -> str:
    """What the times are, and what they are not."""
    text = (
        "ESTIMATE, nothing was run: the least time of each call on the device, by the bytes that it must move and the "
        f"operations that it must compute. Not counted: {', '.join(NOT_COUNTED)}. bound: what takes the time."
    )
    return "\n".join(textwrap.wrap(text, min(width(), _MAX_WIDTH)))


def text(estimate: Estimate, origin: str, top: int) -> str:
    """The table of one estimate. `origin`: how the capture was made. `top`: calls that are shown; 0: all."""
    title = heading(f"# {estimate.case} for {estimate.target} ({estimate.product}): {origin}")
    lines = [title, summary(estimate)]
    if not estimate.calls:
        return "\n".join(lines)
    shown = estimate.calls[:top] if top else estimate.calls
    header = ["bound", "call", "least µs", "share", "calls", "read", "written", "operations"]
    rows = [
        [
            each.bound,
            _name(each),
            microseconds(each.total_us),
            _share(each, estimate.us),
            str(each.count),
            bytes_text(each.read * each.count),
            bytes_text(each.written * each.count),
            amount(sum(each.operations.values()) * each.count),
        ]
        for each in shown
    ]
    lines += ["", aligned(header, rows, left=2, red=[False] * len(rows))]
    if rest := estimate.calls[len(shown) :]:
        us = sum(each.total_us for each in rest)
        lines.append(f"and {len(rest)} more with {microseconds(us)} µs, {us / estimate.us:.1%}: --top 0 shows all")
    return "\n".join(lines)


def summary(estimate: Estimate) -> str:
    """`at least 12.3 µs: 3 kernels, 1 other call; 1.2 MB read, 0.6 MB written, 1.3 times the least; 2 buffers`."""
    others = sum(each.count for each in estimate.calls) - estimate.kernels
    moved = estimate.read + estimate.written
    times = f", {moved / estimate.least:.2f} times the least" if estimate.least and moved != estimate.least else ""
    return (
        f"at least {microseconds(estimate.us)} µs by estimate: {pluralise(estimate.kernels, 'kernel')}, "
        f"{pluralise(others, 'other call')}; {bytes_text(estimate.read)} read, {bytes_text(estimate.written)} written"
        f"{times}; {pluralise(estimate.buffers, 'buffer')}"
    )


def totals(estimates: Sequence[Estimate]) -> str:
    """A line for each estimate: of several, the least times side by side."""
    header = ["case", "target", "least µs", "kernels", "moved"]
    rows = [
        [
            each.case,
            f"{each.target} ({each.product})",
            microseconds(each.us),
            str(each.kernels),
            bytes_text(each.read + each.written),
        ]
        for each in estimates
    ]
    return "\n".join([heading("# estimates"), aligned(header, rows, left=2, red=[False] * len(rows))])


def _name(call: CallEstimate) -> str:
    kind = "" if call.call == "kernel" else f" ({call.call})"
    text = f"{call.module}: {call.name}" if call.module else call.name
    return textwrap.shorten(text, _NAME, placeholder=" …") + kind


def _share(call: CallEstimate, whole: float) -> str:
    return f"{call.total_us / whole:.1%}" if whole else ""
