"""Graph breaks: how often Dynamo stopped, and why."""

from __future__ import annotations

from conformance.facts.model import Fact, Seen


def graph_breaks(seen: Seen) -> Fact:
    """Their number; of each reason the first line, which holds no stack and no path."""
    reasons = seen.capture.counters.get("graph_break", {})
    short: dict[str, int] = {}
    for reason, count in reasons.items():
        line = reason.strip().split("\n")[0]
        short[line] = short.get(line, 0) + count
    total = sum(short.values())
    texts = [line if count == 1 else f"{line} ({count} times)" for line, count in short.items()]
    return Fact(total, (str(total), *texts) if texts else ("none",))
