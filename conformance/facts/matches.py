"""The matches of the patterns that a case names in its requirements."""

from __future__ import annotations

from conformance.capture.program import OF_INDUCTOR
from conformance.facts.model import Fact, ObservedCapture
from conformance.facts.patterns import patterns


def matches(observed: ObservedCapture) -> Fact:
    """How often each pattern matched: name → count.

    A name of Inductor that no entry of a pass has is one of its counters, as in the fact `patterns`.
    """
    found = {name: each for name, each in observed.capture.matches.items() if not name.startswith(OF_INDUCTOR)}
    counters = patterns(observed).parts
    counts = {
        name: each["count"] if each["found"] else counters.get(name, each["count"]) for name, each in found.items()
    }
    lines = [
        f"{name}: {count}" + (f", {found[name]['nearest']}" if not count else "") for name, count in counts.items()
    ]
    return Fact(counts, tuple(lines), counts, instead=lambda part: found[part]["nearest"] if part else "")
