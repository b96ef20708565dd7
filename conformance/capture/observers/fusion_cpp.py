"""Records which rule of Inductor's C++ backend refused to fuse two nodes.

Decision: CppScheduling refuses in can_fuse_horizontal and can_fuse_vertical, without a reason; the answers of the rules
that they call show which one refused. Later, OuterLoopFusedSchedulerNode may separate nests that it had put into one
outer loop. Where: torch/_inductor/codegen/cpp.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from conformance.capture.patching.patch import Patch

_SEPARATED = "_conformance_separated"

_answers: dict[str, Any] = {}  # rule → its last answer to the current question


def patches(record_reason: Callable[[str], None]) -> list[Patch]:
    """`record_reason`: gets the reason right after the backend has refused."""
    cpp = "torch._inductor.codegen.cpp"
    backend = f"{cpp}:CppScheduling"
    rules = {
        "_can_fuse_horizontal_impl": "records whether the loops of both fit",
        "_why_fuse_nodes": "records how the loops of both fit",
    }
    return [
        *(Patch(f"{backend}.{rule}", functools.partial(_rule, rule), why) for rule, why in rules.items()),
        Patch(
            f"{backend}.can_fuse_horizontal",
            _recording(record_reason, _horizontal_reason),
            "records refusals of nodes that read the same buffer",
        ),
        Patch(
            f"{backend}.can_fuse_vertical",
            _recording(record_reason, _vertical_reason),
            "records refusals of a node that reads what the other writes",
        ),
        Patch(
            f"{cpp}:OuterLoopFusedSchedulerNode.check_outer_fusion_loop_level_attr",
            _check,
            "records whether vectorised nests still have the same outer loop",
        ),
    ]


def separate_nodes(node: Any) -> list[Any]:
    """The scheduler's node itself, or its parts if Inductor separated them from their outer loop."""
    return list(node.get_outer_nodes()) if separation_reason(node) else [node]


def separation_reason(node: Any) -> str:
    """Why Inductor separated nests that it had put into one outer loop; "" if it did not."""
    return getattr(node, _SEPARATED, "")


def _check(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def check_outer_fusion_loop_level_attr(self: Any, proxies: Any, depth: int) -> bool:
        agreed = original(self, proxies, depth)
        reason = "" if agreed else f"put into one outer loop and taken apart again, {_steps(proxies, depth)}"
        setattr(self, _SEPARATED, reason)
        return agreed

    return check_outer_fusion_loop_level_attr


def _steps(proxies: Any, depth: int) -> str:
    """How the outer loops differ after they are tiled for vectors."""
    for level in range(depth):
        loops = [proxy.loop_nest.loops[level] for proxy in proxies]
        steps = list(dict.fromkeys(str(loop.steps) for loop in loops))
        if len(steps) > 1:
            return f"{loops[0].var} goes in steps of {' and of '.join(steps)}"
    return "its loops differ"


def _rule(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def rule(*args: Any, **kwargs: Any) -> Any:
        _answers[name] = original(*args, **kwargs)
        return _answers[name]

    return rule


def _recording(record_reason: Callable[[str], None], explain: Callable[[Any, Any], str]) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def can_fuse(self: Any, node1: Any, node2: Any) -> bool:
            _answers.clear()
            agreed = original(self, node1, node2)
            if not agreed:
                record_reason(explain(node1, node2))
            return agreed

        return can_fuse

    return make


def _horizontal_reason(node1: Any, node2: Any) -> str:
    if node1.is_template() or node2.is_template():
        return "a C++ template takes nothing that only shares its inputs"
    if "_can_fuse_horizontal_impl" not in _answers:
        return "too many operators for one kernel (cpp.max_horizontal_fusion_size)"
    if "_why_fuse_nodes" not in _answers:
        return "loops in one outer loop take no others that only share their inputs"
    return f"loops differ, {_loops(node1)} and {_loops(node2)}"


def _vertical_reason(node1: Any, node2: Any) -> str:
    if node2.is_template():
        return "a C++ template takes nothing into its inputs"
    if node1.is_template():
        return "a C++ template does not take this after it"
    if _answers.get("_can_fuse_horizontal_impl"):
        return "a reduction has to be complete before its result is read, and no outer loop is in common"
    return f"loops differ, {_loops(node1)} and {_loops(node2)}, and no outer loop is in common"


def _loops(node: Any) -> str:
    """`64x[1000]`. Sizes in brackets are reduced."""
    points, reduced = node.group[1]
    return "x".join([*_sizes(points), *(f"[{size}]" for size in _sizes(reduced))]) or "1"


def _sizes(sizes: Iterable[Any]) -> list[str]:
    return [text if (text := str(size)).isalnum() else f"({text})" for size in sizes]
