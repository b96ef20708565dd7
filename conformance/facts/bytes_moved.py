"""Memory: the bytes that kernels and calls read and write, and the buffers that the generated code allocates."""

from __future__ import annotations

from conformance.facts.model import Fact, ObservedCapture


def bytes_moved(observed: ObservedCapture) -> Fact:
    """Bytes read and written, divided by the least that any code needs: 1.0 if nothing is moved twice.

    Each graph has its own inputs and outputs: a value that one graph passes to another is written and read.
    """
    total = {"read": 0, "written": 0, "least": 0}
    for module in observed.capture.modules:
        for name in total:
            total[name] += module.observed["moved"][name]
    both = total["read"] + total["written"]
    ratio = round(both / total["least"], 2) if total["least"] else 1.0
    line = f"{total['read']} read, {total['written']} written: "
    line += "the least" if both == total["least"] else f"{ratio} times the least, {total['least']}"
    return Fact(ratio, (line,), total | {"moved": both}, instead=lambda _: line)


def buffers(observed: ObservedCapture) -> Fact:
    """The number of allocations. `in_place`: a kernel writes over its input. `reused`: a freed buffer is used again.

    `pools`: the number of pools that the allocations are places of, with Inductor's memory_planning.
    """
    total = {"allocated": 0, "in_place": 0, "reused": 0, "pools": 0}
    for module in observed.capture.modules:
        for name in total:
            total[name] += module.observed["buffers"][name]
    pools = f" in {total['pools']} pool{'s' * (total['pools'] > 1)}" if total["pools"] else ""
    texts = [f"{total['allocated']} allocated{pools}"]
    if total["in_place"]:
        texts.append(f"{total['in_place']} reused in place")
    if total["reused"]:
        texts.append(f"{total['reused']} reused after the last use")
    return Fact(total["allocated"], (", ".join(texts),), total)
