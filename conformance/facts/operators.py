"""The operators of the graph that Inductor lowers: after AOTAutograd's decompositions and all passes over the graph."""

from __future__ import annotations

from collections import Counter

from conformance.facts.model import Fact, ObservedCapture, listed


def operators(observed: ObservedCapture) -> Fact:
    """The operators' names, in order. A part is one with or without its overload: `aten.add`, `aten.add.Tensor`."""
    names = [name for module in observed.capture.modules for name in module.observed["operators"]]
    counts = Counter(names)
    packets = Counter(".".join(name.split(".")[:2]) for name in names)
    texts = [name if count == 1 else f"{name} {count} times" for name, count in counts.items()]

    def instead(part: str) -> str:
        return (
            f"the graph after the passes has {listed(texts) or 'no operator'}" if part not in packets | counts else ""
        )

    return Fact(names, (", ".join(texts) or "none",), dict(packets | counts), absent=0, instead=instead)
