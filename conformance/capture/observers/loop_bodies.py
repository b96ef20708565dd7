"""Records the loads, stores, atomics, casts and copies of each kernel, and the tiling of a Triton kernel.

Decisions: the loop bodies that Inductor generates a kernel from (torch/_inductor/loop_body.py: LoopBody.op_counts;
torch/_inductor/dependencies.py: MemoryDep), and a Triton kernel's tiling (torch/_inductor/codegen/simd.py: numels).
They are read after the codegen; no patch is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def operation_counts(graph: Any, nests: Iterable[Iterable[Any]]) -> dict[str, int]:
    """The counts of one kernel, after the codegen of `graph`. Each of its loop nests is a list of scheduler nodes.

    `loads` and `stores`: places in memory, each once. `atomics`: the atomic ones of the stores. `casts`: changes of
    dtype. `copies`: nodes that only change a layout. The code of a template has no loop body and does not count.
    """
    total: Counter[str] = Counter(loads=0, stores=0, atomics=0, casts=0, copies=0)
    local = {*graph.removed_buffers, *graph.inplaced_to_remove}  # they stay within one kernel
    for nest in nests:
        nodes = [node for each in nest for node in each.get_nodes() if getattr(node, "_body", None) is not None]
        own_buffers = local | {name for node in nodes for name in node.get_buffer_names()}
        reads = [dep for node in nodes for dep in _places(node.read_writes.reads) if dep.name not in own_buffers]
        writes = [dep for node in nodes for dep in _places(node.read_writes.writes) if dep.name not in local]
        total["loads"] += _different(reads)
        total["stores"] += len(writes)
        total["atomics"] += sum(bool(dep.mode and dep.mode.startswith("atomic")) for dep in writes)
        total["casts"] += sum(node._body.op_counts["to_dtype"] for node in nodes)
        total["copies"] += sum(_copies(graph, node) for node in nodes)
    return dict(total)


def _different(deps: list[Any]) -> int:
    """The number of different places, independent of the names of loops."""
    names = Counter(dep.name for dep in deps)  # a buffer with one place needs no normalised index, which takes time
    return len({(dep.name, str(dep.normalize().index) if names[dep.name] > 1 else "") for dep in deps})


def _places(deps: Iterable[Any]) -> list[Any]:
    """The dependencies on a place in memory: not on a whole buffer, nor on an order of nodes."""
    return [dep for dep in deps if type(dep).__name__ == "MemoryDep"]


def _copies(graph: Any, node: Any) -> bool:
    """Whether a node only moves elements into another layout: one load, one store, no negative stride."""
    counts = {name: count for name, count in node._body.op_counts.items() if name not in ("get_index", "output", "ops")}
    reads, writes = _places(node.read_writes.reads), _places(node.read_writes.writes)
    if counts != {"load": 1, "store": 1} or len(reads) != 1 or len(writes) != 1 or reads[0].is_indirect():
        return False
    [read], [write] = reads, writes
    if graph.get_dtype(read.name) != graph.get_dtype(write.name) or read.get_numel() != write.get_numel():
        return False
    return all(not read.index.coeff(symbol).is_negative for symbol in read.var_names)


def tiling(kernel: Any) -> str:
    """The dimensions of a Triton kernel's blocks with sizes, outermost first: `y 64, x 100`; "" for a C++ kernel."""
    numels = getattr(kernel, "numels", None) or {}
    return ", ".join(f"{prefix} {size}" for prefix, size in numels.items() if str(size) != "1")
