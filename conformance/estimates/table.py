"""Estimates as text: a table for each case and target, and a line for each where there are several."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from conformance.bench.table import aligned
from conformance.estimates.model import NOT_COUNTED, CallEstimate, Estimate
from conformance.terminal import heading, width
from conformance.words import pluralise

_MAX_WIDTH = 120
#: Characters of a call's name that are shown.
_NAME = 70
_UNITS = ("", "k", "M", "G", "T", "P")


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
            number(each.total_us),
            _share(each, estimate.us),
            str(each.count),
            size(each.read * each.count),
            size(each.written * each.count),
            amount(sum(each.operations.values()) * each.count),
        ]
        for each in shown
    ]
    lines += ["", aligned(header, rows, left=2, red=[False] * len(rows))]
    if rest := estimate.calls[len(shown) :]:
        us = sum(each.total_us for each in rest)
        lines.append(f"and {len(rest)} more with {number(us)} µs, {us / estimate.us:.1%}: --top 0 shows all")
    return "\n".join(lines)


def summary(estimate: Estimate) -> str:
    """`at least 12.3 µs: 3 kernels, 1 other call; 1.2 MB read, 0.6 MB written, 1.3 times the least; 2 buffers`."""
    others = sum(each.count for each in estimate.calls) - estimate.kernels
    moved = estimate.read + estimate.written
    times = f", {moved / estimate.least:.2f} times the least" if estimate.least and moved != estimate.least else ""
    return (
        f"at least {number(estimate.us)} µs by estimate: {pluralise(estimate.kernels, 'kernel')}, "
        f"{pluralise(others, 'other call')}; {size(estimate.read)} read, {size(estimate.written)} written{times}; "
        f"{pluralise(estimate.buffers, 'buffer')}"
    )


def totals(estimates: Sequence[Estimate]) -> str:
    """A line for each estimate: of several, the least times side by side."""
    header = ["case", "target", "least µs", "kernels", "moved"]
    rows = [
        [
            each.case,
            f"{each.target} ({each.product})",
            number(each.us),
            str(each.kernels),
            size(each.read + each.written),
        ]
        for each in estimates
    ]
    return "\n".join([heading("# estimates"), aligned(header, rows, left=2, red=[False] * len(rows))])


def number(us: float) -> str:
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def size(count: float) -> str:
    """`1.2 MB`, in powers of 1000."""
    return f"{_scaled(count)}B"


def amount(count: float) -> str:
    """`1.2 G`; nothing for 0."""
    return _scaled(count).strip() if count else ""


def _scaled(count: float) -> str:
    power = 0
    while count >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{f'{count:.3g}' if count < 100 else f'{count:.0f}'} {_UNITS[power]}"


def _name(call: CallEstimate) -> str:
    kind = "" if call.call == "kernel" else f" ({call.call})"
    text = f"{call.module}: {call.name}" if call.module else call.name
    return textwrap.shorten(text, _NAME, placeholder=" …") + kind


def _share(call: CallEstimate, whole: float) -> str:
    return f"{call.total_us / whole:.1%}" if whole else ""
