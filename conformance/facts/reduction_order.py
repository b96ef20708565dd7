"""The order in which each kernel adds up, as text: two captures with the same text are the same by structure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.facts.kernels import label
from conformance.facts.model import ObservedCapture

if TYPE_CHECKING:
    from conformance.capture.model import Capture

#: Kinds of Triton kernels whose bits depend on the launch. Others compute each element alone.
_DEPENDS_ON_LAUNCH = re.compile(r"reduction|scan|sort|template")


def reduction_order(capture: Capture, launches: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each kernel and library call: operators, kind, reduced sizes, threads, lanes, launches.

    Sizes that are not reduced are left out. `launches`: name of a Triton kernel → how Inductor may launch it.
    """
    return [
        f"{label(call, number)}: {'; '.join(_parts(call, launches))}"
        for number, call in enumerate(ObservedCapture.of(capture).calls, 1)
    ]


def _parts(call: Mapping[str, Any], launches: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if call["call"] != "kernel":
        yield f"{call['call']} {call.get('name', '')}".strip()
        return
    yield ", ".join(sorted(call["ops"]))
    nests = call.get("nests") or ()
    if not nests:
        yield _loops(call)
    yield from map(_nest, nests)
    if call.get("split"):
        yield f"{call['split']} half of a split"
    if (call.get("work") or {}).get("atomics"):
        yield "atomic additions"
    if _DEPENDS_ON_LAUNCH.search(call["kind"]):
        yield from filter(None, [" or ".join(launches.get(call.get("function", ""), ()))])


def _nest(nest: Mapping[str, Any]) -> str:
    """A loop nest of C++. Vectorised functions have other bits than scalar ones; a masked tail has the vectorised."""
    is_vectorised = nest["vectorised"] == "yes"
    if not nest["reduced"]:
        return (
            "pointwise, vectorised" + (", tail scalar" * (nest["tail"] == "scalar")) if is_vectorised else "pointwise"
        )
    parts = [_loops(nest), {"reduction": "threads share a sum"}.get(nest["parallel"], "one thread for a sum")]
    if is_vectorised:
        along = any(int(loop[1:]) >= len(nest["ranges"]) for loop in nest["loops"])
        parts.append(f"{nest['width']} lanes {'along the sum' if along else 'of sums'}")
        parts += [f"tail {nest['tail']}"] if nest["tail"] != "none" else []
    return ", ".join(parts)


def _loops(loops: Mapping[str, Any]) -> str:
    return f"{loops['kind']} {''.join(f'[{size}]' for size in loops.get('reduced') or ())}".strip()


def unstable(capture: Capture, launches: Mapping[str, Sequence[str]]) -> str:
    """What may give other bits in the next run or process; "" for nothing. Names the first kernel of each kind."""
    found: dict[str, list[str]] = {}
    for number, call in enumerate(ObservedCapture.of(capture).kernels, 1):
        kernel, chosen = f"kernel {label(call, number)}", launches.get(call.get("function", ""), ())
        if (call.get("work") or {}).get("atomics"):
            found.setdefault("atomic", []).append(f"{kernel} adds atomically")
        if "split scan" in call["kind"]:
            found.setdefault("scan", []).append(f"{kernel} adds up what other blocks have at that moment")
        if len(chosen) > 1 and _DEPENDS_ON_LAUNCH.search(call["kind"]):
            texts = " or ".join(chosen)
            found.setdefault("launch", []).append(f"{kernel} takes the fastest of {len(chosen)} launches: {texts}")
    return "; ".join(f"{first}{f', and {len(rest)} more do' if rest else ''}" for first, *rest in found.values())


def library_calls(capture: Capture) -> list[str]:
    """The functions of libraries and the fallbacks that the code calls: they choose their kernels by themselves."""
    calls = ObservedCapture.of(capture).calls
    return list(dict.fromkeys(call.get("name", "") or call["call"] for call in calls if call["call"] != "kernel"))


def difference(one: Sequence[str], other: Sequence[str]) -> str:
    """What the first kernel that is another one does differently; "" if all are the same."""
    counts = f"{len(one)} kernels and calls → {len(other)}; " if len(one) != len(other) else ""
    for before, after in itertools.zip_longest(one, other, fillvalue=": nothing"):
        if before != after:
            name = (before if before != ": nothing" else after).partition(": ")[0]
            parts = [each.partition(": ")[2].split("; ") for each in (before, after)]
            gone, new = ("; ".join(x for x in parts[i] if x not in parts[1 - i]) for i in (0, 1))
            return f"{counts}kernel {name}: {gone or 'nothing'} → {new or 'nothing'}"
    return ""
