"""Counts from Inductor's loop bodies: loads, stores, atomics, casts, layout changes; the tiling of Triton kernels."""

from __future__ import annotations

import dataclasses

from conformance.facts.kernels import label
from conformance.facts.model import Fact, ObservedCapture


def loads(observed: ObservedCapture) -> Fact:
    return _sum(observed, "loads")


def stores(observed: ObservedCapture) -> Fact:
    return _sum(observed, "stores")


def atomics(observed: ObservedCapture) -> Fact:
    return _sum(observed, "atomics")


def casts(observed: ObservedCapture) -> Fact:
    return _sum(observed, "casts")


def layout_changes(observed: ObservedCapture) -> Fact:
    found = _sum(observed, "copies")
    where = [
        f"kernel {label(kernel, number)} ({', '.join(kernel['ops'])}) has {kernel['work']['copies']}"
        for number, kernel in enumerate(observed.kernels, 1)
        if kernel["work"]["copies"]
    ]
    return dataclasses.replace(found, instead=lambda _: "; ".join(where))


def _sum(observed: ObservedCapture, name: str) -> Fact:
    """The sum over all kernels. If there are several, the line also has the count of each."""
    counts = [kernel["work"][name] for kernel in observed.kernels]
    each = [f"{label(kernel, n)}: {kernel['work'][name]}" for n, kernel in enumerate(observed.kernels, 1)]
    return Fact(sum(counts), (f"{sum(counts)} ({', '.join(each)})" if len(counts) > 1 else str(sum(counts)),))


def tiling(observed: ObservedCapture) -> Fact | None:
    """The dimensions of each kernel's blocks, such as "y x". The line also has the sizes. None for a CPU capture."""
    if not observed.on_gpu:
        return None
    parts = [part for kernel in observed.kernels for part in kernel.get("parts", [kernel]) if "tiling" in part]
    texts = [part["tiling"] or "one element" for part in parts]
    return Fact([_dimensions(part["tiling"]) for part in parts], ("; ".join(texts) or "none",))


def _dimensions(tiling: str) -> str:
    return " ".join(each.split()[0] for each in tiling.split(", ") if each)


def tma(observed: ObservedCapture) -> Fact | None:
    """The number of tensor descriptors that the kernels make, to use the tensor memory accelerator (TMA)."""
    return _made(observed, "descriptors")


def block_pointers(observed: ObservedCapture) -> Fact | None:
    """The number of block pointers that the kernels make, instead of a pointer for each element."""
    return _made(observed, "block_pointers")


def _made(observed: ObservedCapture, what: str) -> Fact | None:
    if not observed.on_gpu:
        return None
    count = sum(kernel.get(what, 0) for kernel in observed.kernels)
    return Fact(count, (str(count) if count else "none",))
