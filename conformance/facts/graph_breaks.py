"""Graph breaks: how often Dynamo stopped, why, and at which line of the function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from conformance.capture.observers import graph_breaks as watched
from conformance.facts.model import Fact, Seen

_JUMP = "generic_jump"  # the one break that Dynamo's counter does not count


def graph_breaks(seen: Seen) -> Fact:
    """Their number; of each reason the first line, which holds no stack and no path, and the line of code."""
    texts = Counter(breaks(seen.capture.counters))
    lines = [text if count == 1 else f"{text} ({count} times)" for text, count in texts.items()]
    return Fact(texts.total(), (str(texts.total()), *lines) if lines else ("none",))


def breaks(counters: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One text for each break: ``Dynamic shape operator at `x.nonzero()` ``."""
    places: dict[str, list[str]] = {}  # first line of a reason → the code at which, one for each break
    for entry, count in counters.get(watched.GROUP, {}).items():
        reason, _, code = entry.partition("\t")
        places.setdefault(reason, []).extend([code] * count)
    found = []
    for reason, count in counters.get("graph_break", {}).items():
        first = watched.first_line(reason)
        for _ in range(count):
            code = places.get(first, [])
            found.append(_at(first, code.pop(0) if code else ""))
    jumps = [code for reason, each in places.items() if reason.startswith(_JUMP) for code in each]
    return found + [_at("data-dependent branch", code) for code in jumps]


def _at(reason: str, code: str) -> str:
    return f"{reason} at `{code}`" if code else reason
