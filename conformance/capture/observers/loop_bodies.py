"""What one kernel does with memory and types, counted in its loop bodies: Inductor's IR, of torch 2.11 to 2.15.

Nothing is replaced but the count of guards, which belongs to no graph and is kept among torch's counters.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters in which guards are counted; cleared and read with the others.
GUARDS = "dynamo_guards"


def patches() -> list[Patch]:
    return [
        Patch(
            "torch._dynamo.guards:CheckFunctionManager.__init__",
            _guards,
            "the guards of each compiled frame: they are closures afterwards",
        )
    ]


def done(graph: Any, nests: Iterable[Iterable[Any]]) -> dict[str, int]:
    """Of one kernel, after the codegen of `graph`, summed over its loop nests, each a list of scheduler nodes.

    `loads` and `stores` of places in memory, each once; `atomics`: those of the stores; `casts`: changes of dtype;
    `copies`: nodes that only change a layout. Templates have no loop bodies: what they do themselves is not counted.
    """
    total: Counter[str] = Counter(loads=0, stores=0, atomics=0, casts=0, copies=0)
    within = {*graph.removed_buffers, *graph.inplaced_to_remove}
    for nest in nests:
        nodes = [node for each in nest for node in each.get_nodes() if getattr(node, "_body", None) is not None]
        own = within | {name for node in nodes for name in node.get_buffer_names()}
        reads = [dep for node in nodes for dep in _places(node.read_writes.reads) if dep.name not in own]
        writes = [dep for node in nodes for dep in _places(node.read_writes.writes) if dep.name not in within]
        total["loads"] += _different(reads)
        total["stores"] += len(writes)
        total["atomics"] += sum(bool(dep.mode and dep.mode.startswith("atomic")) for dep in writes)
        total["casts"] += sum(node._body.op_counts["to_dtype"] for node in nodes)
        total["copies"] += sum(_copies(graph, node) for node in nodes)
    return dict(total)


def _different(deps: list[Any]) -> int:
    """How many places there are, whatever the loops are called; most buffers are read at one, and need no look."""
    names = Counter(dep.name for dep in deps)
    return len({(dep.name, str(dep.normalize().index) if names[dep.name] > 1 else "") for dep in deps})


def _places(deps: Iterable[Any]) -> list[Any]:
    """Without those that stand for a whole buffer, or for an order of nodes alone."""
    return [dep for dep in deps if type(dep).__name__ == "MemoryDep"]


def _copies(graph: Any, node: Any) -> bool:
    """Whether a node only moves elements into another layout: one load, one store, no stride that is negative."""
    counts = {name: count for name, count in node._body.op_counts.items() if name not in ("get_index", "output", "ops")}
    reads, writes = _places(node.read_writes.reads), _places(node.read_writes.writes)
    if counts != {"load": 1, "store": 1} or len(reads) != 1 or len(writes) != 1 or reads[0].is_indirect():
        return False
    [read], [write] = reads, writes
    if graph.get_dtype(read.name) != graph.get_dtype(write.name) or read.get_numel() != write.get_numel():
        return False
    return all(not read.index.coeff(symbol).is_negative for symbol in read.var_names)


def tiling(kernel: Any) -> str:
    """The dimensions of a Triton kernel's blocks and their sizes, outermost first: `y 64, x 100`; "" of others."""
    numels = getattr(kernel, "numels", None) or {}
    return ", ".join(f"{prefix} {size}" for prefix, size in numels.items() if str(size) != "1")


def _guards(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, f_code: Any, output_graph: Any = None, *args: Any, **kwargs: Any) -> None:
        from torch._dynamo.utils import counters

        if output_graph is not None:
            for guard in output_graph.guards:
                counters[GUARDS][guard.create_fn_name()] += 1
        original(self, f_code, output_graph, *args, **kwargs)

    return init
