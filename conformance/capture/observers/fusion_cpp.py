"""Which rule of Inductor's C++ backend refused to fuse two nodes. It gives no reason of its own.

CppScheduling says no in two places; what each of its rules answered meanwhile tells which one it was. Nests that were
to share an outer loop may come apart again while they are generated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from conformance.capture.patching.patch import Patch

_APART = "_conformance_taken_apart"

_answers: dict[str, Any] = {}  # rule → its last answer, since the backend was asked


def patches(said: Callable[[str], None]) -> list[Patch]:
    """`said`: takes the reason, right after the backend has refused."""
    cpp = "torch._inductor.codegen.cpp"
    backend = f"{cpp}:CppScheduling"
    rules = {"_can_fuse_horizontal_impl": "whether the loops of both fit", "_why_fuse_nodes": "how they fit"}
    return [
        *(Patch(f"{backend}.{rule}", functools.partial(_rule, rule), why) for rule, why in rules.items()),
        Patch(f"{backend}.can_fuse_horizontal", _asked(said, _horizontal), "nodes that share what they read"),
        Patch(f"{backend}.can_fuse_vertical", _asked(said, _vertical), "a node that reads what another writes"),
        Patch(
            f"{cpp}:OuterLoopFusedSchedulerNode.check_outer_fusion_loop_level_attr",
            _check,
            "whether the outer loop that is shared is the same in all, when they are vectorised",
        ),
    ]


def taken_apart(node: Any) -> list[Any]:
    """The scheduler's node itself, or, where its outer loop was given up, those that were to share it."""
    return list(node.get_outer_nodes()) if why_apart(node) else [node]


def why_apart(node: Any) -> str:
    """Why loops that had been put into one outer loop were generated one after the other; "" where they were not."""
    return getattr(node, _APART, "")


def _check(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def check_outer_fusion_loop_level_attr(self: Any, proxies: Any, depth: int) -> bool:
        agreed = original(self, proxies, depth)
        setattr(
            self, _APART, "" if agreed else f"put into one outer loop and taken apart again, {_steps(proxies, depth)}"
        )
        return agreed

    return check_outer_fusion_loop_level_attr


def _steps(proxies: Any, depth: int) -> str:
    """In what the outer loops differ when they are tiled for vectors."""
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


def _asked(said: Callable[[str], None], explain: Callable[[Any, Any], str]) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def can_fuse(self: Any, node1: Any, node2: Any) -> bool:
            _answers.clear()
            agreed = original(self, node1, node2)
            if not agreed:
                said(explain(node1, node2))
            return agreed

        return can_fuse

    return make


def _horizontal(node1: Any, node2: Any) -> str:
    if node1.is_template() or node2.is_template():
        return "a C++ template takes nothing that only shares its inputs"
    if "_can_fuse_horizontal_impl" not in _answers:
        return "too many operators for one kernel (cpp.max_horizontal_fusion_size)"
    if "_why_fuse_nodes" not in _answers:
        return "loops in one outer loop take no others that only share their inputs"
    return f"loops differ, {_loops(node1)} and {_loops(node2)}"


def _vertical(node1: Any, node2: Any) -> str:
    if node2.is_template():
        return "a C++ template takes nothing into its inputs"
    if node1.is_template():
        return "a C++ template does not take this after it"
    if _answers.get("_can_fuse_horizontal_impl"):
        return "a reduction has to be complete before its result is read, and no outer loop is in common"
    return f"loops differ, {_loops(node1)} and {_loops(node2)}, and no outer loop is in common"


def _loops(node: Any) -> str:
    """`64x[1000]`: sizes in brackets are reduced."""
    points, reduced = node.group[1]
    return "x".join([*_sizes(points), *(f"[{size}]" for size in _sizes(reduced))]) or "1"


def _sizes(sizes: Iterable[Any]) -> list[str]:
    return [text if (text := str(size)).isalnum() else f"({text})" for size in sizes]
