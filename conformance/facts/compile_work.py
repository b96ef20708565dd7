"""The work of a compile, in numbers that do not depend on the machine."""

from __future__ import annotations

from typing import Any

from conformance.capture.call_counts import SYMBOLS
from conformance.facts.model import Fact, ObservedCapture
from conformance.words import pluralise

#: Parts that say what was generated.
SIZES = ("nodes", "kernels", "lines", "bytes")
#: Parts that are no phases of the sum.
NO_PHASES = (*SIZES, "functions", SYMBOLS)
#: A smaller change of the work of a compile, as a part of it, is no change.
LEAST_CHANGE = 0.02
#: How many functions the lines name, and how many the data does.
_NAMED, _RECORDED = 8, 100


def is_changed(before: float, after: float) -> bool:
    """Whether calls became so many more or fewer that they count as changed."""
    return before != after and abs(after - before) >= LEAST_CHANGE * before


def compile_work(observed: ObservedCapture) -> Fact | None:
    """The calls of Python functions, without those on expressions of symbols; None if they were not counted.

    Parts: `.dynamo`, `.lowering` and so on: of each phase; `.nodes`: operators of the graphs that Inductor lowers;
    `.kernels`: different kernels, each built once; `.lines`, `.bytes`: of the generated code; `.functions`: the
    functions that are called most, with their calls. The lines: each phase, the most first, and a few functions.
    """
    calls = observed.capture.calls
    if not calls:
        return None
    phases, modules = calls["phases"], observed.capture.modules
    total = sum(count for phase, count in phases.items() if phase != SYMBOLS)
    counts = (
        sum(len(module.observed["operators"]) for module in modules),
        len({call["function"] for call in observed.kernels if call.get("function")}),
        sum(module.code.count("\n") for module in modules),
        sum(len(module.code.encode()) for module in modules),
    )
    sizes = dict(zip(SIZES, counts, strict=True))
    order = sorted(phases, key=lambda phase: (-phases[phase], phase))
    lines = [
        f"{total} calls, without those for symbols: {', '.join(f'{phase} {phases[phase]}' for phase in order)}",
        ", ".join(pluralise(count, name.removesuffix("s")) for name, count in sizes.items()),
        *(f"{count} {name}" for name, count in list(calls["functions"].items())[:_NAMED]),
    ]
    parts: dict[str, Any] = {name.replace(" ", "_"): count for name, count in phases.items()} | sizes
    parts["functions"] = dict(list(calls["functions"].items())[:_RECORDED])
    return Fact(total, tuple(lines), parts)
