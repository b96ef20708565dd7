"""Generated kernels: the operators that Inductor fused into each, its kind and its loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.facts.model import Fact, ObservedCapture


def kernels(observed: ObservedCapture) -> Fact:
    """The number of kernels that the code calls. Each line has the operators, the kind and the loops of one kernel."""
    parts = {"forward": 0, "backward": 0}
    for kernel in observed.kernels:
        module = kernel["module"] or "forward"
        part = "backward" if module.endswith("backward") else "forward"
        parts[part] += 1
    texts = [f"{label(kernel, number)}: {describe(kernel)}" for number, kernel in enumerate(observed.kernels, 1)]
    names = [_operators(kernel) for kernel in observed.kernels]
    if len(names) > 1:
        names = [
            f"{label(kernel, n)}: {name}"
            for n, (kernel, name) in enumerate(zip(observed.kernels, names, strict=True), 1)
        ]
    lines = tuple(texts) if len(texts) == 1 else (str(len(texts)), *texts) if texts else ("none",)
    return Fact(len(texts), lines, parts, instead=lambda _: "; ".join(names) or "no kernel is generated")


def kinds(observed: ObservedCapture) -> Fact:
    """The kinds of the kernels, in order; `kernels` shows them. `split reduction` counts the first halves."""
    in_order = [kernel["kind"] for kernel in observed.kernels]
    parts = {kind: in_order.count(kind) for kind in in_order}
    parts["split reduction"] = sum(kernel.get("split") == "first" for kernel in observed.kernels)
    return Fact(in_order, (), parts, absent=0)


def label(kernel: Mapping[str, Any], number: int) -> str:
    """How facts name a kernel: `1`, or `1 backward` if there are several modules."""
    return f"{number} {kernel['module']}".strip()


def describe(kernel: Mapping[str, Any]) -> str:
    """What a kernel does: `flip (pointwise 672x224, parallel)`. Sizes in brackets are reduced."""
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
    return f"{_operators(kernel)} ({', '.join(details)})"


def _operators(kernel: Mapping[str, Any]) -> str:
    return ", ".join(kernel["ops"]) or "no operator"


def _shape(loops: Mapping[str, Any]) -> str:
    """`64x[1000]`: 64 reductions over 1000 elements each."""

    def in_parentheses(size: str) -> str:
        return size if size.isalnum() else f"({size})"

    points = [in_parentheses(size) for size in loops["ranges"] if size != "1"]
    reduced = [f"[{size}]" for size in loops["reduced"]]
    return "x".join(points + reduced) or "1"
