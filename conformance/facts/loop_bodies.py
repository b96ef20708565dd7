"""What the kernels do with memory and types, counted in Inductor's loop bodies; and how Triton's are tiled."""

from __future__ import annotations

from conformance.facts.kernels import label
from conformance.facts.model import Fact, Seen


def loads(seen: Seen) -> Fact:
    return _sum(seen, "loads")


def stores(seen: Seen) -> Fact:
    return _sum(seen, "stores")


def atomics(seen: Seen) -> Fact:
    return _sum(seen, "atomics")


def casts(seen: Seen) -> Fact:
    return _sum(seen, "casts")


def layout_changes(seen: Seen) -> Fact:
    return _sum(seen, "copies")


def _sum(seen: Seen, what: str) -> Fact:
    """Over all kernels; the line has each kernel's own where there are several."""
    counts = [kernel["work"][what] for kernel in seen.kernels]
    each = [f"{label(kernel, n)}: {kernel['work'][what]}" for n, kernel in enumerate(seen.kernels, 1)]
    return Fact(sum(counts), (f"{sum(counts)} ({', '.join(each)})" if len(counts) > 1 else str(sum(counts)),))


def tiling(seen: Seen) -> Fact | None:
    """The blocks of each kernel, "y x" for those of two dimensions; with sizes in the line. None on the cpu."""
    if not seen.triton:
        return None
    parts = [part for kernel in seen.kernels for part in kernel.get("parts", [kernel]) if "tiling" in part]
    texts = [part["tiling"] or "one element" for part in parts]
    return Fact([_dimensions(part["tiling"]) for part in parts], ("; ".join(texts) or "none",))


def _dimensions(tiling: str) -> str:
    return " ".join(each.split()[0] for each in tiling.split(", ") if each)


def tma(seen: Seen) -> Fact | None:
    """How many tensor descriptors the kernels make, which is how Triton uses the tensor memory accelerator."""
    if not seen.triton:
        return None
    count = sum(kernel.get("descriptors", 0) for kernel in seen.kernels)
    return Fact(count, (str(count) if count else "none",))
