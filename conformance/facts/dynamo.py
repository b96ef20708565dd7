"""What Dynamo did before Inductor: graph breaks, the frames that it compiled, and the guards of the compiled code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from conformance.capture.model import Capture
from conformance.capture.observers.dynamo import (
    COMPILES,
    GRAPH_BREAKS,
    GUARDS,
    JUMP,
    LATER_CALLS,
    LATER_REASONS,
    RECOMPILES,
    first_line,
)
from conformance.capture.program import OWN_CODE_CALLS
from conformance.facts.model import Fact, ObservedCapture

_ANOTHER_BREAK = "*** While handling this graph break, another graph break occurred: ***"


def graph_breaks(observed: ObservedCapture) -> Fact:
    """The number of graph breaks. A line for each: Dynamo's reason, without stack and paths, and the line of code."""
    texts = Counter(graph_break_lines(observed.capture.counters))
    lines = [text if count == 1 else f"{text} ({count} times)" for text, count in texts.items()]
    return Fact(texts.total(), (str(texts.total()), *lines) if lines else ("none",), instead=lambda _: "; ".join(lines))


def graph_break_lines(counters: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One text for each break: ``Dynamic shape operator at `x.nonzero()` ``. `counters`: those of a capture."""
    places: dict[str, list[str]] = {}  # first line of a reason → a line of code for each break
    for entry, count in counters.get(GRAPH_BREAKS, {}).items():
        reason, _, code = entry.partition("\t")
        places.setdefault(reason, []).extend([code] * count)
    lines = []
    for reason, count in counters.get("graph_break", {}).items():
        first = first_line(reason)
        for _ in range(count):
            codes = places.get(first, [])
            lines.append(_with_code(first, codes.pop(0) if codes else ""))
    jumps = [code for reason, codes in places.items() if reason.startswith(JUMP) for code in codes]
    return lines + [_with_code("data-dependent branch", code) for code in jumps]


def nothing_compiled(capture: Capture) -> str:
    """Says that no graph reached Inductor, with the graph breaks; "" where one did."""
    if capture.modules or capture.counters.get("stats", {}).get("unique_graphs"):  # a pass may remove a whole graph
        return ""
    breaks = graph_break_lines(capture.counters) or _skipped_frames(capture.counters)
    return f"nothing was compiled: no graph reached Inductor ({'; '.join(breaks or ['Dynamo found no operator'])})"


def _skipped_frames(counters: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Reasons for which Dynamo leaves whole functions to Python: `Dynamic shape operator`, `graph break in loop`."""
    parts = [part for reason in counters.get("unimplemented", {}) for part in reason.split(_ANOTHER_BREAK)]
    return list(dict.fromkeys(map(first_line, parts)))


def _with_code(reason: str, code: str) -> str:
    return f"{reason} at `{code}`" if code else reason


def guards(observed: ObservedCapture) -> Fact:
    """The number of guards in all frames, with those on torch's own state. The line begins with the most frequent kind.

    A guard is a condition under which Dynamo uses the compiled code again.
    """
    kinds = observed.capture.counters.get(GUARDS, {})
    total = sum(kinds.values())
    texts = [f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))]
    return Fact(total, (f"{total}: {', '.join(texts)}" if texts else "none",), kinds, absent=0)


def compiles(observed: ObservedCapture) -> Fact:
    """The number of frames that Dynamo compiled: functions, and parts of one after a graph break.

    `.first`: in the first call. `.later`: in the calls after it, which are made only where the case requires the fact:
    one with other values, and with dynamic shapes three with other sizes. `.small`: in the two after those, with sizes
    of 1 and of 0, for which Dynamo has code of its own: no part of the number. The lines name the functions, the graph
    breaks that divide them, and the guards that failed.
    """
    counters = observed.capture.counters
    functions, again = counters.get(COMPILES, {}), counters.get(RECOMPILES, {})
    calls, reasons = counters.get(LATER_CALLS), counters.get(LATER_REASONS, {})
    small = {call: count for call, count in (calls or {}).items() if call in OWN_CODE_CALLS}
    others = {call: count for call, count in (calls or {}).items() if call not in small}
    first, later = sum(functions.values()), sum(others.values())
    names = [name if count == 1 else f"{name} ({count} times)" for name, count in functions.items()]
    lines = [f"divided by: {text}" for text in (graph_break_lines(counters) if first > 1 else ())]
    lines += [f"{name} again: {reason}" for name, _, reason in (key.partition("\t") for key in again)]
    lines += _again_lines(others, reasons, "more")
    of_small = _again_lines(small, reasons, "beside them")
    instead = {"small": "; ".join(of_small)}
    whole = "; ".join([", ".join(names), *lines])
    if others and not later:
        lines.append(f"no more in later calls: {', '.join(others)}")
    where = " in the first call" if calls is None else ""
    lines = [f"{first + later}{where}: {', '.join(names)}" if names else "none", *lines, *of_small]
    parts = {"first": first} | ({} if calls is None else {"later": later, "small": sum(small.values())})
    return Fact(first + later, tuple(lines), parts, instead=lambda part: instead.get(part, whole))


def _again_lines(calls: Mapping[str, int], reasons: Mapping[str, int], word: str) -> list[str]:
    """What each call compiled again, with the guards that failed."""
    found = [key.partition("\t") for key in reasons]
    return [
        f"{count} {word} in the call {call!r}: {'; '.join(reason for of, _, reason in found if of == call)}"
        for call, count in calls.items()
        if count
    ]
