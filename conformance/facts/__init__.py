"""Facts: what a compiler engineer would say of a capture, in few words: kernels, vectorisation, fallbacks, and so on.

Requirements compare values; snapshots store lines. Both are the same on every run: nothing here counts buffers,
names files or follows the order of a set. A new fact is a function of what was seen, and one line in `_STORED`
or `_FURTHER`.
"""

from __future__ import annotations

import functools

from conformance.capture.model import Capture
from conformance.facts.binary import MEASURES
from conformance.facts.buffers import buffers
from conformance.facts.bytes_moved import bytes_moved
from conformance.facts.calls import extern, fallbacks
from conformance.facts.diff import changed
from conformance.facts.graph_breaks import graph_breaks
from conformance.facts.guards import guards
from conformance.facts.kernels import kernels, kinds
from conformance.facts.loop_bodies import atomics, casts, layout_changes, loads, stores, tiling, tma
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

#: Worked out on request, and stored nowhere.
_FURTHER: dict[str, Extractor] = {
    "guards": guards,
    "loads": loads,
    "stores": stores,
    "atomics": atomics,
    "casts": casts,
    "layout_changes": layout_changes,
    "tiling": tiling,
    "tma": tma,
}

#: Every name, for whoever checks a requirement before anything is captured.
NAMES = (*_STORED, *_FURTHER, *MEASURES)


def facts(capture: Capture) -> Facts:
    """All facts of a capture, by name; raises FactError where it was made without observing.

    `kernels`: how many calls of generated kernels, library calls and fallbacks not among them; `.forward`, `.backward`.
    `kinds`: the kinds of those kernels in their order; `kinds.persistent reduction` counts one kind, and
    `kinds.split reduction` the reductions that are split over two kernels.
    `vectorised` (cpu): yes, no, partly, or none where no kernel has a loop; of what is vectorised `.width` in lanes
    (the least), `.tail` (the worst of none, masked and scalar), `.transposed` (how many tiles), `.scalar` (how many
    operations go element by element).
    `extern`, `fallbacks`: the names that are called, in order; `extern.mm`, `fallbacks.aten.sort` count one.
    `patterns`: rewrites and how often; `patterns.fuse_attention.sfdp_pattern_1`, or `patterns.fuse_attention` for all
    of one pass, is 0 where it did not happen.
    `unfused`: how many pairs of kernels, or of a kernel and a library call, have data in common and stay apart.
    `bytes`: those read and written over the least possible, rounded to hundredths; `.read`, `.written`, `.least`.
    `buffers`: how many are allocated; `.allocated`, `.in_place` (a kernel writes over its input), `.reused` (one that
    was freed is taken again).
    `graph_breaks`: how many.

    Where compiling raised there is one fact alone, `code`: none, and what it raised.

    On request, in no snapshot:
    `guards`: how many conditions the compiled code is used again under; `guards.TENSOR_MATCH` counts one kind.
    `loads`, `stores`, `atomics`: places in memory that kernels read, write and update atomically; `casts`: conversions
    of a dtype; `layout_changes`: copies that only change a layout. Of templates, what is fused into them.
    `tiling` (gpu): the dimensions of each kernel's blocks, as "y x r0_". `tma` (gpu): how many tensor descriptors.

    On request, from the kernels' binaries (cuda): `registers` (a thread), `spills` (bytes a thread), `shared_memory`
    (bytes a block): the most of any kernel; `widest_access`: bits that a thread loads or stores at once at most, the
    least of the kernels; `tensor_cores`: their instructions in all kernels. Each also `.forward` and `.backward`.
    """
    if capture.error:
        return Facts({"code": Fact("none", (f"none: compiling raises {capture.error}",))})
    seen = Seen.of(capture)
    found = {name: extract(seen) for name, extract in _STORED.items()}
    return Facts(
        {name: fact for name, fact in found.items() if fact is not None},
        {name: functools.partial(extract, seen) for name, extract in _FURTHER.items()},
        {name: functools.partial(extract, seen) for name, extract in MEASURES.items()},
    )
