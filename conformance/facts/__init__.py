"""Facts: what a compiler engineer would say of a capture in few words: kernels, vectorisation, fallbacks, and so on.

Requirements compare values; snapshots store lines. Both are equal on every run: no fact contains a buffer's number, a
file's name or the order of a set. To add a fact, write a function of an ObservedCapture, and add a line to `_STORED` or
`_FURTHER`.
"""

from __future__ import annotations

import functools

from conformance.capture.model import Capture
from conformance.facts.binary import MEASURES
from conformance.facts.bytes_moved import buffers, bytes_moved
from conformance.facts.calls import extern, fallbacks
from conformance.facts.compile_work import compile_work
from conformance.facts.cuda_graphs import cuda_graphs
from conformance.facts.diff import changed_facts
from conformance.facts.double_precision import fp64
from conformance.facts.dynamo import compiles, graph_breaks, guards
from conformance.facts.kernels import kernels, kinds
from conformance.facts.loop_bodies import atomics, block_pointers, casts, layout_changes, loads, stores, tiling, tma
from conformance.facts.matches import matches
from conformance.facts.memory import memory
from conformance.facts.model import Extractor, Fact, FactError, Facts, ObservedCapture
from conformance.facts.operators import operators
from conformance.facts.patterns import patterns
from conformance.facts.unfused import unfused
from conformance.facts.vectorised import vectorised
from conformance.facts.vendors import of_vendors
from conformance.words import UNKNOWN

__all__ = ["NAMES", "Fact", "FactError", "Facts", "changed_facts", "extract"]

#: The facts of a snapshot, in the order of its lines. An extractor returns None if the device has no such fact.
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

#: Computed on request; no snapshot stores them.
_FURTHER: dict[str, Extractor] = {
    "compiles": compiles,
    "guards": guards,
    "memory": memory,
    "compile_work": compile_work,
    "cuda_graphs": cuda_graphs,
    "matches": matches,
    "operators": operators,
    "loads": loads,
    "stores": stores,
    "atomics": atomics,
    "casts": casts,
    "layout_changes": layout_changes,
    "tiling": tiling,
    "tma": tma,
    "block_pointers": block_pointers,
    "fp64": fp64,
}

#: The names of all facts that may be required, to check a requirement before anything is captured.
NAMES = tuple(name for name in (*_STORED, *_FURTHER, *MEASURES) if name != "compile_work")


def extract(capture: Capture) -> Facts:
    """All facts of a capture, by name. Raises FactError if no observer recorded the capture.

    In snapshots:
    `kernels`: the number of calls of generated kernels, without library calls and fallbacks; `.forward`, `.backward`.
    `kinds`: the kinds of those kernels, in order; `kinds.persistent reduction` counts one kind, `kinds.split reduction`
    the reductions that Inductor split into two kernels.
    `vectorised` (cpu): yes, no, partly, or none when no kernel has a loop. Of the vectorised loops: `.width` in lanes
    (the least), `.tail` (the worst of none, masked and scalar), `.transposed` (the number of tiles), `.scalar` (the
    number of operations that run element by element).
    `extern`, `fallbacks`: the names of the called functions, in order; `extern.mm`, `fallbacks.aten.sort` count one.
    `patterns`: each rewrite and how often it happened. `patterns.fuse_attention.sfdp_pattern_1` counts one pattern,
    `patterns.fuse_attention` all of a pass; both are 0 if none happened.
    `unfused`: the number of pairs of kernels, or of a kernel and a library call, that share data and are not fused.
    `bytes`: bytes read and written, divided by the least possible and rounded to hundredths; `.read`, `.written`,
    `.least`, `.moved` (read and written).
    `buffers`: the number of allocations; `.allocated`, `.in_place` (a kernel writes over its input), `.reused` (the
    code uses a freed buffer again), `.pools` (of memory, with Inductor's memory_planning).
    `graph_breaks`: their number.

    If compiling raised, there is one fact only, `code`: none, and the error.

    On request, in no snapshot:
    `compiles`: how many frames Dynamo compiled: functions, and parts of one after a graph break; `.first`: in the first
    call. Where the case requires it, calls with other values and sizes are made and counted too; `.later`: in those;
    `.small`: in calls with sizes of 1 and of 0, which the number leaves out.
    `guards`: the number of conditions under which Dynamo reuses the compiled code; `guards.TENSOR_MATCH` counts one
    kind.
    `memory`: the most bytes that the code holds at a time beside its inputs, without what library calls take within
    themselves; `.peak` is the same; `.forward`, `.backward`: of those alone; `.left`: when the forward returns;
    `.saved`: of these, what only the backward needs.
    `compile_work`: calls of Python functions while compiling, if they were counted, so that none can be required;
    `.scheduling` and so on: of each phase; `.nodes`, `.kernels`, `.lines`, `.bytes`: what was generated.
    `cuda_graphs` (GPU, with the option triton.cudagraphs): the number of parts that CUDA graphs record, what splits
    them and why Inductor refuses them; `.launches`: the kernels and calls in them; `.outside`: the others; `.writing`:
    the parts that write to an input.
    `matches`: of the patterns that the case's own requirements name; see harness/contracts.py.
    `operators`: the operators of the graph that Inductor lowers, after all passes; `operators.aten.add` counts all
    overloads of one, `operators.aten.add.Tensor` one of them.
    `loads`, `stores`, `atomics`: places in memory that kernels read, write and update atomically. `casts`: conversions
    of a dtype. `layout_changes`: copies that only change a layout. Of a template, these count what is fused into it.
    `tiling` (GPU): the dimensions of each kernel's blocks, such as "y x r0_". `tma`, `block_pointers` (GPU): the number
    of tensor descriptors, and of block pointers. `fp64` (GPU): the number of reasons why the code needs double
    precision.

    On request, from the binaries of the kernels (cuda): `registers` (per thread), `spills` (bytes per thread) and
    `shared_memory` (bytes per block), each the most of any kernel; `widest_access`: the most bits that one thread loads
    or stores at once, the least of all kernels; `tensor_cores`: the number of their instructions in all kernels. Each
    also as `.forward` and `.backward`.
    """
    if capture.error:
        return Facts({"code": Fact("none", (f"none: compiling raises {capture.error}",))})
    observed = ObservedCapture.of(capture)
    stored = {name: _known(name, extractor, observed) for name, extractor in _STORED.items()}
    stored |= of_vendors(capture)
    return Facts(
        {name: fact for name, fact in stored.items() if fact is not None},
        {name: functools.partial(_known, name, extractor, observed) for name, extractor in _FURTHER.items()},
        {name: functools.partial(extractor, observed) for name, extractor in MEASURES.items()},
    )


def _known(name: str, extractor: Extractor, observed: ObservedCapture) -> Fact | None:
    """The fact; one that is unknown if this torch lacks what it needs."""
    fact, missing = extractor(observed), observed.capture.unknown.get(name)
    if fact is None or missing is None:
        return fact
    why = f"torch {observed.capture.torch} lacks {missing}, which this fact needs"
    return Fact(UNKNOWN, (f"{UNKNOWN}: {why}",), absent=UNKNOWN, instead=lambda _: why)
