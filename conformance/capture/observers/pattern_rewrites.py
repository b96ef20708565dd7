"""Which patterns Inductor's graph passes rewrote, one by one: its own counters seldom say."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

#: The group of torch's counters in which they are counted; cleared and read with the others.
COUNTERS = "inductor_rewrites"


def patches() -> list[Patch]:
    matcher = "torch._inductor.pattern_matcher"
    entries = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")
    return [Patch(f"{matcher}:{entry}.apply", _apply, "which pattern was rewritten") for entry in entries]


def _apply(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(self: Any, match: Any, graph: Any, node: Any) -> None:
        from torch._dynamo.utils import counters

        original(self, match, graph, node)
        counters[COUNTERS][_name(self)] += 1

    return apply


def _name(entry: Any) -> str:
    """`fuse_attention.sfdp_pattern_1`: the pass, and the function that the pattern is named by in Inductor's source.

    That is what is searched for, or what handles a match; one without a pass of its own is named by the function alone.
    """
    function = getattr(entry, "handler", None)
    if function is None:  # from register_replacement, whose check is a closure over both functions
        found = inspect.getclosurevars(entry.extra_check).nonlocals
        function = found.get("search_fn") or found.get("replace_fn") or entry.extra_check
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__name__)
    name = name.split(".<locals>")[0].rsplit(".", 1)[-1].removeprefix("_register_").lstrip("_")
    package, _, module = (getattr(function, "__module__", None) or "").rpartition(".")
    return f"{module}.{name}" if package == "torch._inductor.fx_passes" else name
