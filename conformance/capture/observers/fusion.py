"""Why two kernels that have data in common were not fused: what Inductor's scheduler was told while it tried.

The scheduler asks for each pair, in rounds; the last answer about what became two kernels is kept. Where Inductor gives
a reason (WhyNoFuse, which its log shows), it is that one; the C++ backend gives none, and its rules are watched by
observers/fusion_cpp.py. selftests/facts/test_explain_fusion.py takes rules away and sees their reasons go.
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

#: Said where the scheduler refuses and no rule that is known has answered. Tests look for it.
UNKNOWN = "refused by a rule that is unknown here"
_ORDER = "node1 must go before node2"  # said of the pair taken the wrong way round

#: Inductor's shorter reasons, which name a setting or leave out what they mean.
_MEANING = {
    "no shared data": "no shared data (one buffer at other indices)",
    "score_fusion_memory_threshold": "too few bytes in common (score_fusion_memory_threshold)",
    "exceeds max fusion": "too many operators for one kernel (max_fusion_size)",
    "will create cycle": "fusion would create a cycle",
    "fusion_prevent_too_many_reads_and_writes": "too many buffers for one kernel (max_fusion_unique_io_buffers)",
}


@dataclass
class _Question:
    """One call of Scheduler.can_fuse. `reasons`: what was said against it, in order."""

    reasons: list[str] = field(default_factory=list)


_asked: list[_Question] = []  # a stack: what is fused already asks for its parts


def patches() -> list[Patch]:
    scheduler = "torch._inductor.scheduler:Scheduler"
    return [
        Patch(f"{scheduler}.can_fuse", _can_fuse, "which pairs were tried, and which of the reasons is whose"),
        Patch(f"{scheduler}.unfusable_node", _unfusable_node, "what is left out of every pair: library calls"),
        Patch(f"{scheduler}.will_fusion_create_cycle", _cycle, "what is asked after can_fuse has agreed"),
        Patch("torch._inductor.scheduler:WhyNoFuse.__call__", _why, "the reasons that Inductor itself gives"),
        *fusion_cpp.patches(said),
    ]


def reset() -> None:
    _asked.clear()


def said(reason: str) -> None:
    """Takes down a reason against the pair that is being asked about."""
    if _asked:
        _asked[-1].reasons.append(reason)


# What is watched ------------------------------------------------------------------------------------------------------


def _of_graph(name: str) -> dict[Any, Any]:
    from torch._inductor.virtualized import V

    return V.graph.__dict__.setdefault(name, {})


def _answer(node1: Any, node2: Any, reason: str) -> None:
    answers = _of_graph(_ANSWERS)
    answers.pop((node1, node2), None)  # so that the last answers come last
    answers[node1, node2] = reason


def _can_fuse(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def can_fuse(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> bool:
        question = _Question()
        _asked.append(question)
        try:
            agreed = original(self, node1, node2, *args, **kwargs)
        finally:
            _asked.pop()
        reason = "" if agreed else question.reasons[-1] if question.reasons else UNKNOWN
        if reason:
            said(reason)
        if node1 is not node2:
            _answer(node1, node2, reason)
        return agreed

    return can_fuse


def _unfusable_node(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def unfusable_node(self: Any, node: Any) -> bool:
        answer = original(self, node)
        if answer:
            _of_graph(_UNFUSABLE)[node] = True
        return answer

    return unfusable_node


def _cycle(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def will_fusion_create_cycle(self: Any, node1: Any, node2: Any) -> bool:
        answer = original(self, node1, node2)
        if answer:
            _answer(node1, node2, "will create cycle")
        return answer

    return will_fusion_create_cycle


def _why(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, reason: str, *args: Any) -> None:
        said(reason % args if args else reason)
        original(self, reason, *args)

    return call


# What came of it ------------------------------------------------------------------------------------------------------


def seen(graph: Any, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pairs of generated kernels with data in common, and of kernels with library calls that feed them or are fed.

    `records`: what the module calls, each with the scheduler's `nodes` and on cpu with `nests`. Each pair has `first`
    and `second`, as [number of the call, numbers of its loop nests], both counted from 0, and `reason`, which says
    node1 for the first and node2 for the second, and is "extern" where one of them is a library call. Nests that were
    to share an outer loop and do not are one entry, all of them as `first` and as `second`.
    """
    scheduler = getattr(graph, "scheduler", None)
    places = _places(records)
    top = [node for node in getattr(scheduler, "nodes", ()) if any(each in places for each in node.get_nodes())]
    groups = {group: node for node in top for group in fusion_cpp.taken_apart(node)}  # what is apart → its whole
    if len(groups) < 2:
        return []
    answers = _last_answers(graph, top)
    used = _used(scheduler, list(groups))
    unfusable = graph.__dict__.get(_UNFUSABLE, {})
    found = []
    for first, second in itertools.combinations(groups, 2):
        (reads1, writes1), (reads2, writes2) = used[first], used[second]
        fed = writes1 & reads2 or writes2 & reads1
        if first in unfusable or second in unfusable:
            reason = "extern" if fed and not (first in unfusable and second in unfusable) else ""
        elif not fed and not (reads1 | writes1) & (reads2 | writes2):
            reason = ""
        elif groups[first] is groups[second]:
            reason = ""  # said once for all of them, below
        else:
            reason = answers.get((groups[first], groups[second]), "not tried")
        if reason:
            found.append({"first": _place(first, places), "second": _place(second, places), "reason": reason})
    for node in top:
        reason = fusion_cpp.why_apart(node)
        if reason:
            found.append({"first": _place(node, places), "second": _place(node, places), "reason": reason})
    return sorted(found, key=lambda pair: (pair["first"], pair["second"]))


def _last_answers(graph: Any, groups: Sequence[Any]) -> dict[tuple[Any, Any], str]:
    """Two of the groups, in their order → the last reason against what became of them."""
    owner = {leaf: group for group in groups for leaf in group.get_nodes()}
    position = {group: number for number, group in enumerate(groups)}
    answers: dict[tuple[Any, Any], str] = {}
    for (node1, node2), reason in graph.__dict__.get(_ANSWERS, {}).items():
        first, second = _owner(node1, owner), _owner(node2, owner)
        if first is None or second is None or first is second:
            continue
        turned = position[first] > position[second]
        pair = (second, first) if turned else (first, second)
        if reason == _ORDER and pair in answers:
            continue
        text = _MEANING.get(reason, reason) or "agreed to, but other fusions came first"
        answers[pair] = re.sub("node([12])", lambda found: f"node{3 - int(found[1])}", text) if turned else text
    return answers


def _places(records: Sequence[Mapping[str, Any]]) -> dict[Any, tuple[int, int]]:
    """Each of the scheduler's innermost nodes → the number of its call, and of its loop nest; -1 without one."""
    places = {}
    for number, record in enumerate(records):
        places |= {leaf: (number, -1) for node in record["nodes"] for leaf in node.get_nodes()}
        for position, nest in enumerate(record.get("nests", ())):
            places |= {leaf: (number, position) for node in nest["nodes"] for leaf in node.get_nodes()}
    return places


def _place(group: Any, places: Mapping[Any, tuple[int, int]]) -> list[Any]:
    own = [places[leaf] for leaf in group.get_nodes() if leaf in places]
    number = min(call for call, _ in own)
    return [number, sorted({nest for call, nest in own if call == number and nest >= 0})]


def _owner(node: Any, owner: Mapping[Any, Any]) -> Any:
    """The group that a node of some round ended in; None where its parts went different ways."""
    groups = {id(owner.get(leaf)): owner.get(leaf) for leaf in node.get_nodes()}
    return next(iter(groups.values())) if len(groups) == 1 else None


def _used(scheduler: Any, groups: Sequence[Any]) -> dict[Any, tuple[set[str], set[str]]]:
    """Group → the buffers that it reads, and those that it writes. Parts of a call's result count as written by it."""
    used = {group: ({dep.name for dep in group.read_writes.reads}, set(group.get_buffer_names())) for group in groups}
    for node in scheduler.nodes:
        if node not in used and type(getattr(node, "node", None)).__name__ == "MultiOutput":
            reads = {dep.name for dep in node.read_writes.reads}
            for _, writes in used.values():
                if reads & writes:
                    writes.update(node.get_buffer_names())
    return used
