"""Counts the matches of the patterns that a case names, and finds out why one does not match.

The name of a pattern, a function, and a pass stand for rewrites: a match counts where a pass rewrites it. A function
with example inputs, and an expression, are searched for in the graph after the passes.

Decisions: torch/_inductor/pattern_matcher.py: PatternMatcherPass.apply, and the method `apply` of the entries of a
pass; torch/_inductor/graph.py: GraphLowering.codegen, where the graph after the passes is complete. `gen_pattern` and
`fwd_only` make an expression of a searched function, as register_replacement does.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conformance.capture.observers.nearest_match import Nearest, SearchedGraph, nearest_match
from conformance.capture.observers.pattern_rewrites import pattern_name
from conformance.capture.patching.patch import Patch, recording
from conformance.capture.program import WantedMatches
from conformance.errors import ConformanceError, first_line

_ENTRIES = ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry")
_NAME = "_conformance_name"
_REFUSED = "all its operators are there, but its extra_check, another pattern or a write between them kept the pass off"


class PatternError(ConformanceError, ValueError):
    """A pattern of a contract that is no pattern, or that cannot be traced. The message says what would be right."""


class PatternMatches:
    """The matches of several patterns in one capture. Make it where torch may be imported, before the capture.

    `config`: the options of Inductor. Where one of them is the method `apply` of a pass, no patch sees its graph.
    """

    def __init__(self, wanted: Sequence[WantedMatches], config: Mapping[str, Any]) -> None:
        self._observed = [_Observed(each) for each in wanted]
        owners = [getattr(value, "__self__", None) for value in config.values()] if wanted else []
        self._unseen = [each for each in owners if passes_of(each)]
        self._names: set[str] = set()

    def patches(self) -> list[Patch]:
        """The patches that observe; none if no pattern is wanted."""
        if not self._observed:
            return []
        matcher, graph = "torch._inductor.pattern_matcher", "torch._inductor.graph:GraphLowering.codegen"
        entry = "counts the rewrites of one entry"
        found = [
            Patch(f"{matcher}:PatternMatcherPass.apply", self._wrap_pass, "sees each graph before a pass changes it"),
            *(Patch(f"{matcher}:{each}.apply", self._wrap_entry, entry) for each in _ENTRIES),
            Patch(graph, self._wrap_codegen, "sees each graph after the passes"),
        ]
        return recording("matches", found)

    def results(self) -> dict[str, dict[str, Any]]:
        """Name → `count`: of matches; `nearest`: why there are not more, in few words; `found`: whether the pattern is
        one of a pass of this compile, or was searched for.
        """
        return {each.wanted.name: each.result(sorted(self._names)) for each in self._observed}

    def _entries(self, matcher_pass: Any) -> list[tuple[str, Any]]:
        """The entries of a pass with their names. One entry may be there for several operators."""
        unique = {id(entry): entry for entry in _entries_of(matcher_pass)}.values()
        named = [(_name_of(entry), entry) for entry in unique]
        self._names.update(name for name, _ in named)
        return named

    def _wrap_pass(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(matcher_pass: Any, gm: Any) -> Any:
            graph = SearchedGraph(getattr(gm, "graph", gm))
            entries = self._entries(matcher_pass)
            for each in self._observed:
                each.before_pass(matcher_pass, entries, graph)
            return original(matcher_pass, gm)

        return apply

    def _wrap_entry(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(entry: Any, match: Any, graph: Any, node: Any) -> None:
            original(entry, match, graph, node)
            for each in self._observed:
                each.after_rewrite(entry)

        return apply

    def _wrap_codegen(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen(lowering: Any) -> Any:
            if type(lowering).__name__ != "SubgraphLowering":
                graph = SearchedGraph(lowering.module.graph)
                for each in self._observed:
                    for unseen in self._unseen:
                        each.before_pass(unseen, self._entries(unseen), graph)
                    each.after_passes(graph)
            return original(lowering)

        return codegen


class _Observed:
    """A wanted pattern. `entries`: identity → entry of a pass that has it. `rewrites`: how often one was applied."""

    def __init__(self, wanted: WantedMatches) -> None:
        self.wanted = wanted
        self.entries: dict[int, Any] = {}
        self.rewrites = 0
        self._place = Nearest()
        self._passes = passes_of(wanted.pattern)
        self._searched = _searched_expression(wanted, self._passes)

    def before_pass(self, matcher_pass: Any, entries: Sequence[tuple[str, Any]], graph: SearchedGraph) -> None:
        if self._searched is None:
            own = [entry for name, entry in entries if self._is_wanted(matcher_pass, name, entry)]
            self.entries |= {id(entry): entry for entry in own}
            self._place = _nearer(self._place, *(nearest_match(entry.pattern, graph) for entry in own))

    def after_rewrite(self, entry: Any) -> None:
        if self._searched is None and (id(entry) in self.entries or self._is_wanted(None, "", entry)):
            self.entries[id(entry)] = entry
            self.rewrites += 1

    def after_passes(self, graph: SearchedGraph) -> None:
        if self._searched is not None:
            self._place = _nearer(self._place, nearest_match(self._searched, graph))

    def result(self, known: Sequence[str]) -> dict[str, Any]:
        """`known`: the names of the patterns of all passes."""
        if self._searched is not None:
            return {"count": self._place.matches, "nearest": self._place.text, "found": True}
        if self.entries:
            refused = self._place.matches > self.rewrites
            return {"count": self.rewrites, "nearest": _REFUSED if refused else self._place.text, "found": True}
        return {"count": 0, "nearest": self._without_a_pass(known), "found": False}

    def _without_a_pass(self, known: Sequence[str]) -> str:
        if self._passes:
            return "its pass was not applied: is it in `config`?"
        if not isinstance(self.wanted.pattern, str):
            return "no pass of this compile has the pattern: is the pass in `config`, and the pattern registered?"
        similar = difflib.get_close_matches(self.wanted.pattern, known, 3)
        hint = f"; nearest: {', '.join(similar)}" if similar else ""
        return f"no pass of this compile has a pattern of this name{hint}"

    def _is_wanted(self, matcher_pass: Any, name: str, entry: Any) -> bool:
        pattern = self.wanted.pattern
        if isinstance(pattern, str):
            return name == pattern or name.startswith(f"{pattern}.")
        if self._passes:
            return any(each is matcher_pass for each in self._passes)
        return any(each is pattern for each in _functions_of(entry))


def _nearer(first: Nearest, *others: Nearest) -> Nearest:
    """The text of the place that is most alike, and the sum of all matches."""
    best = max((first, *others), key=lambda each: each.likeness)
    return dataclasses.replace(best, matches=first.matches + sum(each.matches for each in others))


def _name_of(entry: Any) -> str:
    """The name of an entry, which takes time to find out. An entry keeps it."""
    if _NAME not in entry.__dict__:
        entry.__dict__[_NAME] = pattern_name(entry)
    return entry.__dict__[_NAME]


def _entries_of(matcher_pass: Any) -> Iterator[Any]:
    for entries in matcher_pass.patterns.values():
        yield from entries


def passes_of(pattern: Any) -> list[Any]:
    """The passes that a pattern of a contract is, or that are its attributes. A function has none."""
    from torch._inductor.pattern_matcher import PatternMatcherPass

    if isinstance(pattern, PatternMatcherPass):
        return [pattern]
    if inspect.isroutine(pattern) or isinstance(pattern, str):
        return []
    attributes = getattr(pattern, "__dict__", {}).values()
    return [each for each in attributes if isinstance(each, PatternMatcherPass)]


def _searched_expression(wanted: WantedMatches, passes: Sequence[Any]) -> Any:
    """The expression to search for in a graph; None for a pattern that a pass must rewrite. Raises PatternError."""
    from torch._inductor.pattern_matcher import PatternExpr, fwd_only, gen_pattern

    pattern = wanted.pattern
    if isinstance(pattern, PatternExpr):
        return pattern
    if isinstance(pattern, str) or passes:
        return None
    if not inspect.isroutine(pattern):
        raise PatternError(
            f"the pattern {wanted.name!r} is of type {type(pattern).__name__}; give a function, the name of a pattern "
            "of Inductor, an expression such as CallFunction(…), or a PatternMatcherPass"
        )
    if not wanted.inputs:
        return None
    try:
        return gen_pattern(pattern, list(wanted.inputs), fwd_only)
    except Exception as error:
        said = f"{type(error).__name__}: {first_line(error)}"
        raise PatternError(f"the pattern {wanted.name!r} cannot be traced with its inputs: {said}") from error


def _functions_of(entry: Any) -> Iterator[Any]:
    """The functions that a library's author knows an entry by: the searched one, its replacement, and the handler."""
    functions = [getattr(entry, "handler", None)]
    if inspect.isfunction(entry.extra_check):
        closure = inspect.getclosurevars(entry.extra_check).nonlocals
        functions += [closure.get("search_fn"), closure.get("replace_fn")]
    for function in functions:
        while function is not None:
            yield function
            function = getattr(function, "__wrapped__", getattr(function, "func", None))  # noqa: PLW2901
