"""Generated kernels: the operators fused into each, its kind and its loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.facts.model import Fact, Seen


def kernels(seen: Seen) -> Fact:
    """How many, and what each is made of."""
    parts = {"forward": 0, "backward": 0}
    for kernel in seen.kernels:
        module = kernel["module"] or "forward"
        part = "backward" if module.endswith("backward") else "forward"
        parts[part] += 1
    texts = [f"{label(kernel, number)}: {_describe(kernel)}" for number, kernel in enumerate(seen.kernels, 1)]
    if len(texts) <= 1:
        return Fact(len(seen.kernels), tuple(texts) or ("none",), parts)
    return Fact(len(seen.kernels), (str(len(seen.kernels)), *texts), parts)


def kinds(seen: Seen) -> Fact:
    """The kinds of kernels in their order; shown by `kernels`. `split reduction` counts those that are first halves."""
    found = [kernel["kind"] for kernel in seen.kernels]
    parts = {kind: found.count(kind) for kind in found}
    parts["split reduction"] = sum(kernel.get("split") == "first" for kernel in seen.kernels)
    return Fact(found, (), parts, absent=0)


def label(kernel: Mapping[str, Any], number: int) -> str:
    """`1`, or `1 backward` where there are several modules."""
    return f"{number} {kernel['module']}".strip()


def _describe(kernel: Mapping[str, Any]) -> str:
    """`flip (pointwise 672x224, parallel)`; sizes in brackets are reduced."""
    details = []
    nests = kernel.get("nests") or []
    if nests:
        together = len(nests) > 1 and all(nest["outer_loop"] for nest in nests)
        shapes = [f"{nest['kind']} {_shape(nest)}" for nest in nests]
        parallel = [{"yes": "parallel", "no": "serial", "reduction": "parallel"}[nest["parallel"]] for nest in nests]
        if len(set(parallel)) == 1:
            details += [" + ".join(shapes) + (" in one outer loop" if together else ""), parallel[0]]
        else:
            details.append(" + ".join(f"{shape} {how}" for shape, how in zip(shapes, parallel, strict=True)))
    elif kernel.get("parts"):
        shapes = [f"{part['kind']} {_shape(part)}" for part in kernel["parts"]]
        details.append(f"{kernel['kind']} of {' + '.join(shapes)}")
    else:
        details.append(f"{kernel['kind']} {_shape(kernel)}" if kernel.get("ranges") is not None else kernel["kind"])
    if kernel.get("split"):
        details.append(f"{kernel['split']} half of a split")
    return f"{', '.join(kernel['ops']) or 'no operator'} ({', '.join(details)})"


def _shape(loops: Mapping[str, Any]) -> str:
    """`64x[1000]`: 64 reductions over 1000 elements each."""

    def plain(size: str) -> str:
        return size if size.isalnum() else f"({size})"

    points = [plain(size) for size in loops["ranges"] if size != "1"]
    reduced = [f"[{size}]" for size in loops["reduced"]]
    return "x".join(points + reduced) or "1"
