"""Kernels with data in common that stay apart, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.facts.kernels import label
from conformance.facts.model import Fact, Seen

_SHOWN = 8  # pairs; the rest is counted by reason
_EXTERN = {"extern": "a library call is not fused", "fallback": "a fallback is not fused"}


def unfused(seen: Seen) -> Fact:
    """How many pairs; of each the kernels, numbered as in `kernels`, on cpu with the loop nest, and the reason.

    Nests that were to share one outer loop, and do not, are one of those pairs, however many they are.
    """
    found = pairs(seen)
    texts = Counter(f"{who}: {why}" for who, why in found)
    if not found:
        return Fact(0, ("none",))
    lines = [text if times == 1 else f"{text} ({times} times)" for text, times in list(texts.items())[:_SHOWN]]
    hidden = set(list(texts)[_SHOWN:])
    rest = Counter(why for who, why in found if f"{who}: {why}" in hidden)
    if rest:
        reasons = ", ".join(why if times == 1 else f"{why} ({times} times)" for why, times in rest.items())
        lines.append(f"and {rest.total()} more: {reasons}")
    return Fact(len(found), tuple(lines) if len(lines) == 1 else (str(len(found)), *lines))


def pairs(seen: Seen) -> list[tuple[str, str]]:
    """How each pair is named, and why it is apart; in the order of the calls."""
    found, start = [], 0
    for module in seen.capture.modules:
        calls = seen.calls[start : start + len(module.observed["calls"])]
        before = sum(call["call"] == "kernel" for call in seen.calls[:start])
        found += [_pair(pair, calls, before) for pair in module.observed.get("unfused", ())]
        start += len(calls)
    return found


def _pair(pair: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], before: int) -> tuple[str, str]:
    """How two are named together, and why they are apart. `before`: kernels in earlier modules."""
    (first, nests1), (second, nests2) = places = pair["first"], pair["second"]
    names = [_name(place, calls, before) for place in places]
    reason = pair["reason"]
    if reason == "extern":
        called = {calls[number]["call"] for number, _ in places}
        reason = next((said for call, said in _EXTERN.items() if call in called), "a user-defined kernel is not fused")
    reason = re.sub("node([12])", lambda found: names[int(found[1]) - 1], reason)
    if first == second:  # nests of one kernel
        both = _nests(nests1).replace("+", ", ") if nests1 == nests2 else f"{_nests(nests1)} and {_nests(nests2)}"
        return f"{_name((first, ()), calls, before)} nests {both}", reason
    return " and ".join(names), reason


def _name(place: Sequence[Any], calls: Sequence[Mapping[str, Any]], before: int) -> str:
    """As in `kernels`: `2`, `2 backward`; with ` nest 1` where it has several; what is called, of a library call."""
    number, nests = place
    call = calls[number]
    if call["call"] != "kernel":
        return call["name"]
    kernel = label(call, before + sum(each["call"] == "kernel" for each in calls[: number + 1]))
    if not nests or len(nests) == len(call["nests"]):
        return kernel
    return f"{kernel} nest {_nests(nests)}"


def _nests(numbers: Sequence[int]) -> str:
    """`1`, or `2+3` where they are fused; counted from 1."""
    return "+".join(str(number + 1) for number in numbers)
