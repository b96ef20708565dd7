"""The text of `show --why`: why Inductor generated this code. Every reason is an answer of Inductor or Dynamo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conformance.capture.model import Capture
from conformance.capture.observers.fallbacks import inductor_heading
from conformance.facts.dynamo import graph_break_lines
from conformance.facts.kernels import kernels
from conformance.facts.model import ObservedCapture
from conformance.facts.patterns import patterns
from conformance.facts.unfused import unfused_pairs


def explanation(capture: Capture) -> str:
    """The reasons in paragraphs: each kernel, unfused pairs, fallbacks, rewrites, graph breaks, layouts of reductions.

    Raises FactError if no observer recorded the capture.
    """
    observed = ObservedCapture.of(capture)
    if capture.error:
        return f"compiling raised {capture.error}\n"
    described = kernels(observed).lines
    texts = described if len(observed.kernels) == 1 else described[1:]
    lines: list[str] = []
    for number, kernel in enumerate(observed.kernels, 1):
        lines += [f"kernel {texts[number - 1]}", *_indented(_vectorisation(kernel))]
    if not observed.kernels:
        lines.append("no kernel is generated")
    unfused = [f"{names}: {reason}" for names, reason in unfused_pairs(observed)]
    lines += _section("not fused, though they share data:", unfused)
    lines += _section("fallbacks:", dict.fromkeys(_fallbacks(observed)))
    lines += _section("rewritten by patterns:", _rewrites(observed))
    lines += _section("graph breaks:", graph_break_lines(capture.counters))
    kinds = [module.kind for module in capture.modules]
    for number, module in enumerate(capture.modules, 1):
        name = module.kind if len(set(kinds)) == len(kinds) else f"graph {number}"
        decisions = [_reduction(each) for each in module.observed.get("reductions", ())]
        lines += _section("decisions on reductions" + (f" ({name}):" if len(kinds) > 1 else ":"), decisions)
    return "\n".join(lines) + "\n"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """The title and its lines; nothing if there are no lines."""
    lines = list(lines)
    return [title, *_indented(lines)] if lines else []


def _vectorisation(kernel: Mapping[str, Any]) -> Iterator[str]:
    nests = vectorisation_of_nests(kernel)
    for position, lines in enumerate(nests, 1):
        yield from (f"nest {position}: {line}" if len(nests) > 1 else line for line in lines)


def vectorisation_of_nests(kernel: Mapping[str, Any]) -> list[list[str]]:
    """For each loop nest of a C++ kernel: whether Inductor vectorised it, why not, and what in it is scalar."""
    return [list(_vectorisation_of(nest)) for nest in kernel.get("nests", [])]


def _vectorisation_of(nest: Mapping[str, Any]) -> Iterator[str]:
    if nest["vectorised"] == "yes":
        tile = "a transposed tile of " if nest["transposed"] else ""
        width = f"{tile}{nest['width']} lanes along {', '.join(nest['loops'])}"
        tail = "" if nest["tail"] == "none" else f", the rest {nest['tail']}"
        yield f"vectorised, {width}{tail}"
        if nest["reason"]:
            yield f"not in vectors: {nest['reason']}"
    elif nest["vectorised"] == "no":
        yield f"not vectorised: {nest['reason']}"


def _fallbacks(observed: ObservedCapture) -> Iterator[str]:
    for call in observed.calls:
        if call["call"] == "fallback":
            module = f"{call['module']}: " if call["module"] else ""
            yield f"{module}{call['name']}: {fallback_reason(call)}"


def fallback_reason(call: Mapping[str, Any]) -> str:
    """Why Inductor calls ATen, and under which heading it lists the operator."""
    reason = call.get("reason") or "no reason was recorded"
    heading = inductor_heading(call["name"]) if reason.startswith("make_fallback") else ""
    return f"{reason}, listed by Inductor under: {heading}" if heading else reason


def _rewrites(observed: ObservedCapture) -> list[str]:
    lines = patterns(observed).lines
    return [] if lines == ("none",) else list(lines)


def _reduction(decision: Mapping[str, Any]) -> str:
    elements = f"{decision['reduced']} elements"
    results = (
        f"1 result of {elements}" if decision["outer"] == "1" else f"{decision['outer']} results of {elements} each"
    )
    results = f"{results}, {decision['hint']}"
    if "splits" in decision:
        if decision["splits"] == "1":
            return f"{results}: not split on {decision['multiprocessors']} multiprocessors"
        return f"{results}: split into {decision['splits']} parts for {decision['multiprocessors']} multiprocessors"
    loops = "persistent" if decision["persistent"] else "a loop, not persistent"
    return f"{results}: {loops}" + (f" (the limit is {decision['limit']} elements)" if decision["limit"] else "")
