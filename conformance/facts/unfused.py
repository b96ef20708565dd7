"""Kernels that share data and are not fused, with Inductor's reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.facts.kernels import label
from conformance.facts.model import Fact, ObservedCapture

_SHOWN = 8  # pairs; the last line counts the others by reason
_EXTERN = {"extern": "a library call is not fused", "fallback": "a fallback is not fused"}


def unfused(observed: ObservedCapture) -> Fact:
    """The number of pairs. Each line has the reason and the kernels, numbered as in `kernels`, on CPU with loop nests.

    Several nests that Inductor first put into one outer loop and then separated count as one pair.
    """
    pairs = unfused_pairs(observed)
    texts = Counter(f"{names}: {reason}" for names, reason in pairs)
    if not pairs:
        return Fact(0, ("none",))
    lines = [text if times == 1 else f"{text} ({times} times)" for text, times in list(texts.items())[:_SHOWN]]
    hidden = set(list(texts)[_SHOWN:])
    rest = Counter(reason for names, reason in pairs if f"{names}: {reason}" in hidden)
    if rest:
        reasons = ", ".join(each if times == 1 else f"{each} ({times} times)" for each, times in rest.items())
        lines.append(f"and {rest.total()} more: {reasons}")
    return Fact(len(pairs), tuple(lines) if len(lines) == 1 else (str(len(pairs)), *lines))


def unfused_pairs(observed: ObservedCapture) -> list[tuple[str, str]]:
    """The names of each pair, and why Inductor did not fuse it; in the order of the calls."""
    return [(names, reason) for _, names, reason in unfused_calls(observed)]


def unfused_calls(observed: ObservedCapture) -> list[tuple[set[int], str, str]]:
    """The same with the numbers of both calls."""
    pairs, start = [], 0
    for module in observed.capture.modules:
        calls = observed.calls[start : start + len(module.observed["calls"])]
        before = sum(call["call"] == "kernel" for call in observed.calls[:start])
        for pair in module.observed.get("unfused", ()):
            numbers = {start + pair["first"][0], start + pair["second"][0]}
            pairs.append((numbers, *_pair(pair, calls, before)))
        start += len(calls)
    return pairs


def _pair(pair: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], before: int) -> tuple[str, str]:
    """The names of a pair, and the reason. `before`: the number of kernels in earlier modules."""
    (first, nests1), (second, nests2) = places = pair["first"], pair["second"]
    names = [_name(place, calls, before) for place in places]
    reason = pair["reason"]
    if reason == "extern":
        called = {calls[number]["call"] for number, _ in places}
        reason = next((text for call, text in _EXTERN.items() if call in called), "a user-defined kernel is not fused")
    reason = re.sub("node([12])", lambda match: names[int(match[1]) - 1], reason)
    if first == second:  # nests of one kernel
        both = _nests(nests1).replace("+", ", ") if nests1 == nests2 else f"{_nests(nests1)} and {_nests(nests2)}"
        return f"{_name((first, ()), calls, before)} nests {both}", reason
    return " and ".join(names), reason


def _name(place: Sequence[Any], calls: Sequence[Mapping[str, Any]], before: int) -> str:
    """`2` or `2 backward` as in `kernels`, with ` nest 1` if it has several; of a library call, the function's name."""
    number, nests = place
    call = calls[number]
    if call["call"] != "kernel":
        return call["name"]
    kernel = label(call, before + sum(each["call"] == "kernel" for each in calls[: number + 1]))
    if not nests or len(nests) == len(call["nests"]):
        return kernel
    return f"{kernel} nest {_nests(nests)}"


def _nests(numbers: Sequence[int]) -> str:
    """`1`, or `2+3` for fused nests; counted from 1."""
    return "+".join(str(number + 1) for number in numbers)
