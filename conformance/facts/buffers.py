"""Buffers that the generated code allocates, and those that it uses again."""

from __future__ import annotations

from conformance.facts.model import Fact, Seen


def buffers(seen: Seen) -> Fact:
    """How many are allocated; `in_place`: a kernel writes over its input; `reused`: one that was freed, taken again."""
    total = {"allocated": 0, "in_place": 0, "reused": 0}
    for module in seen.capture.modules:
        for name in total:
            total[name] += module.observed["buffers"][name]
    texts = [f"{total['allocated']} allocated"]
    if total["in_place"]:
        texts.append(f"{total['in_place']} reused in place")
    if total["reused"]:
        texts.append(f"{total['reused']} reused after the last use")
    return Fact(total["allocated"], (", ".join(texts),), total)
