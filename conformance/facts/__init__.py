"""Facts: what a compiler engineer would say of a capture, in few words: kernels, vectorisation, fallbacks, and so on.

Requirements compare values; snapshots store lines. Both are the same on every run: nothing here counts buffers,
names files or follows the order of a set. A new fact is a function of what was seen, and one line in `_STORED`.
"""

from __future__ import annotations

from conformance.capture.model import Capture
from conformance.facts.buffers import buffers
from conformance.facts.bytes_moved import bytes_moved
from conformance.facts.calls import extern, fallbacks
from conformance.facts.changing import changed
from conformance.facts.graph_breaks import graph_breaks
from conformance.facts.kernels import kernels, kinds
from conformance.facts.model import Extractor, Fact, FactError, Facts, Seen
from conformance.facts.patterns import patterns
from conformance.facts.unfused import unfused
from conformance.facts.vectorised import vectorised

__all__ = ["NAMES", "Fact", "FactError", "Facts", "changed", "facts"]

#: In the order of the lines. An extractor answers None where its fact is none of the capture's device.
_STORED: dict[str, Extractor] = {
    "kernels": kernels,
    "kinds": kinds,
    "vectorised": vectorised,
    "extern": extern,
    "fallbacks": fallbacks,
    "patterns": patterns,
    "unfused": unfused,
    "bytes": bytes_moved,
    "buffers": buffers,
    "graph_breaks": graph_breaks,
}

#: Every name, for whoever checks a requirement before anything is captured.
NAMES = tuple(_STORED)


def facts(capture: Capture) -> Facts:
    """All facts of a capture, by name; raises FactError where it was made without observing.

    `kernels`: how many calls of generated kernels, library calls and fallbacks not among them; `.forward`, `.backward`.
    `kinds`: the kinds of those kernels in their order; `kinds.persistent reduction` counts one kind.
    `vectorised` (cpu): yes, no, partly, or none where no kernel has a loop.
    `extern`, `fallbacks`: the names that are called, in order; `extern.mm`, `fallbacks.aten.sort` count one.
    `patterns`: rewrites and how often; `patterns.fuse_attention` is 0 where it did not happen.
    `unfused`: how many pairs of kernels, or of a kernel and a library call, have data in common and stay apart.
    `graph_breaks`: how many.
    """
    seen = Seen.of(capture)
    found = {name: extract(seen) for name, extract in _STORED.items()}
    return Facts({name: fact for name, fact in found.items() if fact is not None})
