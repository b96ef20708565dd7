"""Guards: under which conditions Dynamo uses the compiled code again, by kind."""

from __future__ import annotations

from conformance.capture.observers.loop_bodies import GUARDS
from conformance.facts.model import Fact, Seen


def guards(seen: Seen) -> Fact:
    """How many in all frames, those on torch's own state among them; the line begins with the most frequent kind."""
    kinds = seen.capture.counters.get(GUARDS, {})
    total = sum(kinds.values())
    texts = [f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))]
    return Fact(total, (f"{total}: {', '.join(texts)}" if texts else "none",), kinds, absent=0)
