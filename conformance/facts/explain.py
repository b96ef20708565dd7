"""Why a capture came out as it did, in words: for `show --why`. Every sentence is what Inductor or Dynamo answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.capture.model import Capture
from conformance.capture.observers.fallbacks import listed
from conformance.facts import facts
from conformance.facts.graph_breaks import breaks
from conformance.facts.kernels import kernels
from conformance.facts.model import Seen
from conformance.facts.unfused import pairs


def why(capture: Capture) -> str:
    """A text of paragraphs: each kernel, what stays apart, fallbacks, rewrites, graph breaks; raises FactError where
    the capture was made without observing.
    """
    seen = Seen.of(capture)
    if capture.error:
        return f"compiling raised {capture.error}\n"
    described = kernels(seen).lines
    texts = described if len(seen.kernels) == 1 else described[1:]
    parts: list[str] = []
    for number, kernel in enumerate(seen.kernels, 1):
        parts += [f"kernel {texts[number - 1]}", *_indented(_kernel(kernel))]
    if not seen.kernels:
        parts.append("no kernel is generated")
    parts += _section("not fused, though they have data in common:", [f"{who}: {why}" for who, why in pairs(seen)])
    parts += _section("fallbacks:", dict.fromkeys(_fallbacks(seen)))
    parts += _section("rewritten by patterns:", _rewrites(capture))
    parts += _section("graph breaks:", breaks(capture.counters))
    for number, module in enumerate(capture.modules, 1):
        decided = [_reduction(each) for each in module.observed.get("reductions", ())]
        name = (
            module.kind if len({each.kind for each in capture.modules}) == len(capture.modules) else f"graph {number}"
        )
        parts += _section(f"how reductions were laid out ({name}):" if len(capture.modules) > 1 else _LAID_OUT, decided)
    return "\n".join(parts) + "\n"


_LAID_OUT = "how reductions were laid out:"


def _indented(lines: Any) -> list[str]:
    return [f"  {line}" for line in lines]


def _section(title: str, lines: Any) -> list[str]:
    lines = list(lines)
    return [title, *_indented(lines)] if lines else []


def _kernel(kernel: Mapping[str, Any]) -> Iterator[str]:
    """Of a C++ kernel whether each of its loop nests is vectorised, and why not, or what within it is not."""
    nests = kernel.get("nests", [])
    for position, nest in enumerate(nests, 1):
        where = f"nest {position}: " if len(nests) > 1 else ""
        if nest["vectorised"] == "yes":
            tile = "a transposed tile of " if nest["transposed"] else ""
            how = f"{tile}{nest['width']} lanes along {', '.join(nest['loops'])}"
            tail = "" if nest["tail"] == "none" else f", the rest {nest['tail']}"
            yield f"{where}vectorised, {how}{tail}"
            if nest["reason"]:
                yield f"{where}not in vectors: {nest['reason']}"
        elif nest["vectorised"] == "no":
            yield f"{where}not vectorised: {nest['reason']}"


def _fallbacks(seen: Seen) -> Iterator[str]:
    for call in seen.calls:
        if call["call"] == "fallback":
            module = f"{call['module']}: " if call["module"] else ""
            reason = call.get("reason") or "why was not seen"
            heading = listed(call["name"]) if reason.startswith("make_fallback") else ""
            yield f"{module}{call['name']}: {reason}" + (f", listed by Inductor under: {heading}" if heading else "")


def _rewrites(capture: Capture) -> list[str]:
    lines = facts(capture)["patterns"].lines
    return [] if lines == ("none",) else list(lines)


def _reduction(decision: Mapping[str, Any]) -> str:
    what = f"{decision['outer']} of {decision['reduced']} elements, {decision['hint']}"
    if "splits" in decision:
        if decision["splits"] == "1":
            return f"{what}: not split on {decision['multiprocessors']} multiprocessors"
        return f"{what}: split into {decision['splits']} for {decision['multiprocessors']} multiprocessors"
    how = "persistent" if decision["persistent"] else "a loop, not persistent"
    return f"{what}: {how}" + (f", which takes up to {decision['limit']} elements" if decision["limit"] else "")
