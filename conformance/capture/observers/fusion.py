"""Records why Inductor did not fuse two kernels that share data.

Decision: the scheduler asks for each pair of nodes, in rounds, whether it can fuse them; the last answer about a pair
counts. Where: torch/_inductor/scheduler.py: Scheduler.can_fuse, unfusable_node and will_fusion_create_cycle, and
WhyNoFuse, which has Inductor's reasons. The C++ backend gives no reasons: fusion_cpp.py records which of its rules
refused. selftests/facts/test_explain_fusion.py removes rules and checks that their reasons disappear.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.observers import fusion_cpp
from conformance.capture.patching.patch import Patch

_ANSWERS = "_conformance_fusions"
_UNFUSABLE = "_conformance_unfusable"

#: The reason if the scheduler refuses and no recorded rule did. Tests look for it.
UNKNOWN = "refused by a rule that is unknown here"
_ORDER = "node1 must go before node2"  # the reason for a pair in the wrong order

#: Short reasons of Inductor → what they mean, with the setting that decides.
_MEANING = {
    "no shared data": "no shared data (one buffer at other indices)",
    "score_fusion_memory_threshold": "too few bytes in common (score_fusion_memory_threshold)",
    "exceeds max fusion": "too many operators for one kernel (max_fusion_size)",
    "will create cycle": "fusion would create a cycle",
    "fusion_prevent_too_many_reads_and_writes": "too many buffers for one kernel (max_fusion_unique_io_buffers)",
}


@dataclass
class _Question:
    """One call of Scheduler.can_fuse. `reasons`: those against fusing, in order."""

    reasons: list[str] = field(default_factory=list)


_questions: list[_Question] = []  # a stack: a fused node asks again for its parts


def patches() -> list[Patch]:
    scheduler = "torch._inductor.scheduler:Scheduler"
    return [
        Patch(f"{scheduler}.can_fuse", _can_fuse, "records which pairs were tried, and which reason belongs to which"),
        Patch(f"{scheduler}.unfusable_node", _unfusable_node, "records nodes that are in no pair: library calls"),
        Patch(f"{scheduler}.will_fusion_create_cycle", _cycle, "records a refusal after can_fuse has agreed"),
        Patch("torch._inductor.scheduler:WhyNoFuse.__call__", _why_no_fuse, "records the reasons that Inductor gives"),
        *fusion_cpp.patches(record_reason),
    ]


def reset() -> None:
    _questions.clear()


def record_reason(reason: str) -> None:
    """Records a reason against fusing the pair that the scheduler asks about now."""
    if _questions:
        _questions[-1].reasons.append(reason)


# Wrappers -------------------------------------------------------------------------------------------------------------


def _graph_dict(name: str) -> dict[Any, Any]:
    """A dictionary that is kept on the graph that Inductor is working on."""
    from torch._inductor.virtualized import V

    return V.graph.__dict__.setdefault(name, {})


def _record_answer(node1: Any, node2: Any, reason: str) -> None:
    answers = _graph_dict(_ANSWERS)
    answers.pop((node1, node2), None)  # the latest answer comes last
    answers[node1, node2] = reason


def _can_fuse(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def can_fuse(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> bool:
        question = _Question()
        _questions.append(question)
        try:
            agreed = original(self, node1, node2, *args, **kwargs)
        finally:
            _questions.pop()
        reason = "" if agreed else question.reasons[-1] if question.reasons else UNKNOWN
        if reason:
            record_reason(reason)
        if node1 is not node2:
            _record_answer(node1, node2, reason)
        return agreed

    return can_fuse


def _unfusable_node(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def unfusable_node(self: Any, node: Any) -> bool:
        answer = original(self, node)
        if answer:
            _graph_dict(_UNFUSABLE)[node] = True
        return answer

    return unfusable_node


def _cycle(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def will_fusion_create_cycle(self: Any, node1: Any, node2: Any) -> bool:
        answer = original(self, node1, node2)
        if answer:
            _record_answer(node1, node2, "will create cycle")
        return answer

    return will_fusion_create_cycle


def _why_no_fuse(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, reason: str, *args: Any) -> None:
        record_reason(reason % args if args else reason)
        original(self, reason, *args)

    return call


# Result --------------------------------------------------------------------------------------------------------------


def unfused_pairs(graph: Any, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The unfused pairs: two generated kernels that share data, or a kernel and a library call that feeds or uses it.

    `records`: the calls of the module, each with the scheduler's `nodes`, and on CPU with `nests`. Each pair has
    `first` and `second`, as [number of the call, numbers of its loop nests], both counted from 0, and `reason`. The
    reason says node1 for the first and node2 for the second; it is "extern" if one of them is a library call. Nests
    that Inductor put into one outer loop and separated again are one entry, with all of them as `first` and `second`.
    """
    scheduler = getattr(graph, "scheduler", None)
    places = _places(records)
    top = [node for node in getattr(scheduler, "nodes", ()) if any(each in places for each in node.get_nodes())]
    groups = {group: node for node in top for group in fusion_cpp.separate_nodes(node)}  # part → its whole
    if len(groups) < 2:
        return []
    answers = _last_answers(graph, top)
    used = _used(scheduler, list(groups))
    unfusable = graph.__dict__.get(_UNFUSABLE, {})
    pairs = []
    for first, second in itertools.combinations(groups, 2):
        (reads1, writes1), (reads2, writes2) = used[first], used[second]
        fed = writes1 & reads2 or writes2 & reads1
        if first in unfusable or second in unfusable:
            reason = "extern" if fed and not (first in unfusable and second in unfusable) else ""
        elif not fed and not (reads1 | writes1) & (reads2 | writes2):
            reason = ""
        elif groups[first] is groups[second]:
            reason = ""  # below is one entry for all of them
        else:
            reason = answers.get((groups[first], groups[second]), "not tried")
        if reason:
            pairs.append({"first": _place(first, places), "second": _place(second, places), "reason": reason})
    for node in top:
        reason = fusion_cpp.separation_reason(node)
        if reason:
            pairs.append({"first": _place(node, places), "second": _place(node, places), "reason": reason})
    return sorted(pairs, key=lambda pair: (pair["first"], pair["second"]))


def _last_answers(graph: Any, groups: Sequence[Any]) -> dict[tuple[Any, Any], str]:
    """(first, second) of the groups, in their order → the last reason against fusing them."""
    owner = {leaf: group for group in groups for leaf in group.get_nodes()}
    position = {group: number for number, group in enumerate(groups)}
    answers: dict[tuple[Any, Any], str] = {}
    for (node1, node2), reason in graph.__dict__.get(_ANSWERS, {}).items():
        first, second = _owner(node1, owner), _owner(node2, owner)
        if first is None or second is None or first is second:
            continue
        swapped = position[first] > position[second]
        pair = (second, first) if swapped else (first, second)
        if reason == _ORDER and pair in answers:
            continue
        text = _MEANING.get(reason, reason) or "agreed to, but other fusions came first"
        answers[pair] = re.sub("node([12])", lambda match: f"node{3 - int(match[1])}", text) if swapped else text
    return answers


def _places(records: Sequence[Mapping[str, Any]]) -> dict[Any, tuple[int, int]]:
    """Innermost node of the scheduler → the number of its call and of its loop nest, -1 without a nest."""
    places: dict[Any, tuple[int, int]] = {}
    for number, record in enumerate(records):
        places |= {leaf: (number, -1) for node in record["nodes"] for leaf in node.get_nodes()}
        for position, nest in enumerate(record.get("nests", ())):
            places |= {leaf: (number, position) for node in nest["nodes"] for leaf in node.get_nodes()}
    return places


def _place(group: Any, places: Mapping[Any, tuple[int, int]]) -> list[Any]:
    """[number of the first call that has nodes of the group, the numbers of its loop nests]."""
    of_leaves = [places[leaf] for leaf in group.get_nodes() if leaf in places]
    number = min(call for call, _ in of_leaves)
    return [number, sorted({nest for call, nest in of_leaves if call == number and nest >= 0})]


def _owner(node: Any, owner: Mapping[Any, Any]) -> Any:
    """The group that all parts of a node ended in; None if they ended in several."""
    groups = {id(owner.get(leaf)): owner.get(leaf) for leaf in node.get_nodes()}
    return next(iter(groups.values())) if len(groups) == 1 else None


def _used(scheduler: Any, groups: Sequence[Any]) -> dict[Any, tuple[set[str], set[str]]]:
    """Group → the buffers that it reads, and those that it writes. A call also writes the parts of its result."""
    used = {group: ({dep.name for dep in group.read_writes.reads}, set(group.get_buffer_names())) for group in groups}
    for node in scheduler.nodes:
        if node not in used and type(getattr(node, "node", None)).__name__ == "MultiOutput":
            reads = {dep.name for dep in node.read_writes.reads}
            for _, writes in used.values():
                if reads & writes:
                    writes.update(node.get_buffer_names())
    return used
