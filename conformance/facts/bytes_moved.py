"""Bytes read and written by kernels and calls, over the least that any code could do with."""

from __future__ import annotations

from conformance.facts.model import Fact, Seen


def bytes_moved(seen: Seen) -> Fact:
    """Their ratio, 1.0 where nothing is read or written twice; each graph's inputs and outputs are its own."""
    total = {"read": 0, "written": 0, "least": 0}
    for module in seen.capture.modules:
        for name in total:
            total[name] += module.observed["moved"][name]
    both = total["read"] + total["written"]
    ratio = round(both / total["least"], 2) if total["least"] else 1.0
    line = f"{total['read']} read, {total['written']} written: "
    line += "the least" if both == total["least"] else f"{ratio} times the least, {total['least']}"
    return Fact(ratio, (line,), total)
