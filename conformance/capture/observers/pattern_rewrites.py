"""Records which patterns Inductor's graph passes rewrote. Inductor's own counters seldom name the pattern.

Decision: a graph pass replaces a match of a pattern. Where: torch/_inductor/pattern_matcher.py: the method `apply` of
GraphPatternEntry, LoweringPatternEntry and ReplacementPatternEntry.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters for rewrites: pattern → how often. A capture clears and stores it with the others.
COUNTERS = "inductor_rewrites"


def patches() -> list[Patch]:
    matcher = "torch._inductor.pattern_matcher"
    entries = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")
    return [Patch(f"{matcher}:{entry}.apply", _apply, "counts the rewrites of each pattern") for entry in entries]


def _apply(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(self: Any, match: Any, graph: Any, node: Any) -> None:
        from torch._dynamo.utils import counters

        original(self, match, graph, node)
        counters[COUNTERS][pattern_name(self)] += 1

    return apply


def pattern_name(entry: Any) -> str:
    """`fuse_attention.sfdp_pattern_1`: the pass, and a function that names the pattern in Inductor's source.

    The function is the searched pattern, or the handler of a match. Outside of fx_passes the name has no pass.
    """
    function = getattr(entry, "handler", None)
    if function is None:  # from register_replacement: its check is a closure over both functions
        closure = inspect.getclosurevars(entry.extra_check).nonlocals
        function = closure.get("search_fn") or closure.get("replace_fn") or entry.extra_check
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__name__)
    if name.endswith(".wrapper"):  # of partialize_and_update_signature, which keeps the name of what it wraps
        name = function.__name__
    outer, *inner = (part.rsplit(".", 1)[-1] for part in name.split(".<locals>."))
    registers_several = outer.endswith("_init")
    name = inner[0] if inner and registers_several else outer
    name = name.removeprefix("_register_").lstrip("_")
    package, _, module = (getattr(function, "__module__", None) or "").rpartition(".")
    return f"{module}.{name}" if package == "torch._inductor.fx_passes" else name
