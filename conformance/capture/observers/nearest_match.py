"""Where a graph is most like a pattern that does not match it, and what is different there.

Private parts of torch: the expressions of torch/_inductor/pattern_matcher.py with their
fields (`fns`, `op`, `flat_args_kwargs`, `outputs`, `pattern`, `inner_pattern`, `users`), MatchContext, and the
FailedMatch with which it says why a match failed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.capture.observers.operators import operator_name

#: So many operators or users are named.
_NAMED = 5
#: How the text begins that names one operator and the one that the pattern has.
_OTHER_OPERATOR = "the graph has"


@dataclass(frozen=True)
class Nearest:
    """The place where a graph is most like a pattern. `size`: how many nodes correspond. `text`: what is different.

    `names_operator`: whether that is an operator where the pattern has another one. `matches`: how often the whole
    pattern matches, as far as the pattern alone says.
    """

    size: int = 0
    text: str = ""
    names_operator: bool = False
    matches: int = 0

    @property
    def likeness(self) -> tuple[bool, int, bool]:
        """Of two places, that with the greater one says more."""
        return bool(self.text), self.size, self.names_operator


class SearchedGraph:
    """A torch.fx.Graph, with its nodes by operator: so a pattern is compared with few of them."""

    def __init__(self, graph: Any) -> None:
        from torch._inductor.pattern_matcher import extract_target

        self._nodes: dict[tuple[str, Any], list[Any]] = {}
        for node in graph.nodes:
            if node.op in ("call_function", "call_method", "call_module"):
                self._nodes.setdefault((node.op, extract_target(node)), []).append(node)

    def nodes_like(self, pattern: Any) -> list[Any]:
        """The nodes with an operator with which a pattern may end."""
        if not _calls(pattern):
            return []
        return [node for target in dict.fromkeys(pattern.fns) for node in self._nodes.get((pattern.op, target), ())]

    def operators(self) -> list[str]:
        """The names of all operators, sorted."""
        return sorted({operator_name(target) for _, target in self._nodes} - {"operator.getitem"})


def nearest_match(pattern: Any, graph: SearchedGraph) -> Nearest:
    """The place of the graph that is most like `pattern` (a PatternExpr) and does not match it."""
    tried = {node: pattern.match(node) for node in graph.nodes_like(pattern)}
    failed = {node: failure for node, failure in tried.items() if not failure}
    matched = {node for match in tried.values() if match for node in match.nodes}
    best = max(failed, key=lambda node: _similarity(pattern, node), default=None)
    size = _similarity(pattern, best) if best is not None else 0
    text = _difference(failed[best], pattern, best) if best is not None else ""
    names_operator = text.startswith(_OTHER_OPERATOR)
    for part, parent in _parts(pattern):
        for node in graph.nodes_like(part):
            # A part that matches whole says more than the end of the pattern at another place
            if node not in matched and (similar := _similarity(part, node)) > size and part.match(node):
                size, text = similar, _difference_after(node, parent)
                names_operator = text.startswith(_OTHER_OPERATOR)
    if not text:
        names = graph.operators()
        others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        has = f"it has {', '.join(names[:_NAMED])}{others}" if names else "it has no operator"
        text = f"there is no {_expected(pattern)} in the graph: {has}"
    return Nearest(size, text, names_operator, len(tried) - len(failed))


def _calls(pattern: Any) -> bool:
    return hasattr(pattern, "fns") and hasattr(pattern, "op")


def _inner(pattern: Any) -> list[Any]:
    """The expressions inside of one, in order."""
    if (outputs := getattr(pattern, "outputs", None)) is not None:
        return [each for each in outputs if each is not None]
    for name in ("pattern", "inner_pattern"):
        if (inner := getattr(pattern, name, None)) is not None:
            return [inner]
    return [each for each in getattr(pattern, "flat_args_kwargs", ((), None))[0] if hasattr(each, "_match")]


def _parts(pattern: Any) -> Iterator[tuple[Any, Any]]:
    """Each call inside of a pattern, and the call that uses it. Outer ones come first, each once."""
    seen, waiting = set(), [(pattern, pattern)]
    while waiting:
        owner, user = waiting.pop(0)
        for part in _inner(owner):
            if id(part) not in seen:
                seen.add(id(part))
                if _calls(part) and _calls(user) and part is not user and not hasattr(owner, "outputs"):
                    yield part, user
                waiting.append((part, part if _calls(part) and not hasattr(part, "outputs") else user))


def _has_target(pattern: Any, node: Any) -> bool:
    """Whether a node has the operator with which the pattern ends."""
    from torch._inductor.pattern_matcher import extract_target

    if not _calls(pattern) or getattr(node, "op", None) != pattern.op:
        return False
    return extract_target(node) in pattern.fns


def _arguments(pattern: Any, node: Any) -> list[Any]:
    """The arguments of a node that a pattern of a call looks at; in order."""
    kwargs = {name: value for name, value in node.kwargs.items() if name in getattr(pattern, "kwargs", {})}
    return list(pattern.flatten(node.args, kwargs)[0]) if hasattr(pattern, "flatten") else []


def _similarity(pattern: Any, node: Any) -> int:
    """How many calls of the pattern have a counterpart, if it ends at the node."""
    if outputs := getattr(pattern, "outputs", None):
        return _similarity(outputs[0], node)
    if inner := getattr(pattern, "pattern", getattr(pattern, "inner_pattern", None)):
        each = node if isinstance(node, (list, tuple)) else [node]
        return max((_similarity(inner, one) for one in each), default=0)
    if not _has_target(pattern, node):
        return 0
    pairs = zip(_inner_and_constants(pattern), _arguments(pattern, node), strict=False)
    return 1 + sum(_similarity(part, argument) for part, argument in pairs if hasattr(part, "_match"))


def _inner_and_constants(pattern: Any) -> list[Any]:
    return list(getattr(pattern, "flat_args_kwargs", ((), None))[0])


def _difference(failure: Any, pattern: Any, node: Any) -> str:
    """What a FailedMatch says, in words of this suite."""
    kind, args = failure.format_string.partition(" ")[0].strip(":"), failure.args
    if kind == "function_mismatch" and len(args) > 1:
        found, wanted = args[0], args[1]
        if _has_target(wanted, found):
            counts = f"{len(found.args)} arguments where {len(getattr(wanted, 'args', ()))} were"
            return f"{operator_name(found.target)} has {counts}"
        return f"{_OTHER_OPERATOR} {_found(found)} where {_expected(wanted)} was"
    if kind == "multiple_users" and args:
        found = _counterpart(args[0], pattern, node)
        users = f": {_users(found)}" if found is not None else ""
        return f"{_expected(args[0])} has more or fewer users than in the pattern{users}"
    if kind == "constant_args" and len(args) > 1:
        return f"{_found(args[0])} has {_found(args[1])} where {failure.kwargs.get('pattern')!r} was"
    if kind.startswith("list[") and len(args) > 1 and hasattr(args[1], "format_string"):
        return _difference(args[1], pattern, node)
    if kind == "kwarg" and args:
        return f"two different values stand where the pattern has {args[0]!r} twice"
    if str(failure).startswith("repeated pattern"):
        return "two different values stand where the pattern has one twice"
    return str(failure).replace("\n", " ")


def _difference_after(node: Any, parent: Any) -> str:
    """What is different behind a node that stands for a part of a pattern. `parent`: what uses the part there."""
    for user in node.users:
        if _has_target(parent, user) and not (failure := parent.match(user)):
            return _difference(failure, parent, user)
    return f"{_OTHER_OPERATOR} {_users(node)} where {_expected(parent)} was"


def _counterpart(wanted: Any, pattern: Any, node: Any) -> Any:
    """The node that stands for a part of the pattern, if the pattern ends at `node`; None if there is none."""
    if outputs := getattr(pattern, "outputs", None):
        return _counterpart(wanted, outputs[0], node)
    if not _has_target(pattern, node):
        return None
    if wanted is pattern:
        return node
    pairs = zip(_inner_and_constants(pattern), _arguments(pattern, node), strict=False)
    found = (_counterpart(wanted, part, argument) for part, argument in pairs if hasattr(part, "_match"))
    return next((each for each in found if each is not None), None)


def _expected(pattern: Any) -> str:
    """The operator of a call in a pattern. What takes one result of several stands for the operator that makes them."""
    if outputs := getattr(pattern, "outputs", None):
        return _expected(outputs[0])
    if inner := getattr(pattern, "inner_pattern", None):
        return _expected(inner)
    if operator.getitem in getattr(pattern, "fns", ()) and (parts := _inner(pattern)):
        return _expected(parts[0])
    return operator_name(pattern.fns[0]) if _calls(pattern) else repr(pattern)


def _found(node: Any) -> str:
    """What stands at a place of the graph."""
    if getattr(node, "op", None) == "placeholder":
        return "an input"
    if getattr(node, "op", None) == "get_attr":
        return "a constant"
    if not hasattr(node, "op"):
        return repr(node)
    if node.target is operator.getitem:
        return _found(node.args[0])
    return operator_name(node.target)


def _users(node: Any) -> str:
    """The operators that use a node's result."""
    users = list(
        dict.fromkeys("the end of the graph" if each.op == "output" else _found_user(each) for each in node.users)
    )
    return " and ".join(users[:_NAMED]) or "nothing"


def _found_user(node: Any) -> str:
    if node.target is operator.getitem and node.users:
        return _users(node)
    return operator_name(node.target)
