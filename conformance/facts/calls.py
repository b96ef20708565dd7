"""Calls of functions that Inductor did not generate: libraries and fallbacks."""

from __future__ import annotations

from typing import Any

from conformance.facts.model import Fact, ObservedCapture


def extern(observed: ObservedCapture) -> Fact:
    """The called library functions, such as `mm`."""
    return _called_functions(observed.calls, "extern")


def fallbacks(observed: ObservedCapture) -> Fact:
    """The called eager kernels, such as `aten.sort`."""
    return _called_functions(observed.calls, "fallback")


def _called_functions(calls: list[dict[str, Any]], kind: str) -> Fact:
    """The names, in the order of the calls. The line groups them by module, with each reason once."""
    names: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    explained: set[tuple[str, str]] = set()
    for call in calls:
        if call["call"] == kind:
            reason = call.get("reason", "")
            explain = bool(reason) and (call["name"], reason) not in explained
            explained.add((call["name"], reason))
            names.setdefault(call["module"], []).append(call["name"])
            texts.setdefault(call["module"], []).append(f"{call['name']} ({reason})" if explain else call["name"])
    flat = [name for each in names.values() for name in each]
    text = "; ".join(f"{module} {', '.join(each)}".strip() for module, each in texts.items())
    said = text if explained else ""  # the names alone are the value
    return Fact(flat, (text or "none",), {name: flat.count(name) for name in flat}, absent=0, instead=lambda _: said)
