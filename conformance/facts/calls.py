"""Calls that are no generated kernels: libraries and fallbacks."""

from __future__ import annotations

from typing import Any

from conformance.facts.model import Fact, Seen


def extern(seen: Seen) -> Fact:
    return _called(seen.calls, "extern")


def fallbacks(seen: Seen) -> Fact:
    return _called(seen.calls, "fallback")


def _called(calls: list[dict[str, Any]], what: str) -> Fact:
    """Names in the order of the calls; told apart by module in the text, where the first of each has its reason."""
    names: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    told: set[tuple[str, str]] = set()
    for call in calls:
        if call["call"] == what:
            reason = call.get("reason", "")
            tell = bool(reason) and (call["name"], reason) not in told
            told.add((call["name"], reason))
            names.setdefault(call["module"], []).append(call["name"])
            texts.setdefault(call["module"], []).append(f"{call['name']} ({reason})" if tell else call["name"])
    flat = [name for each in names.values() for name in each]
    text = "; ".join(f"{module} {', '.join(each)}".strip() for module, each in texts.items())
    return Fact(flat, (text or "none",), {name: flat.count(name) for name in flat}, absent=0)
