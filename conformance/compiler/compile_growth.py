"""The work of compiling a case, counted; and how it grows where a function is repeated, as a model repeats a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance import facts
from conformance.cases.case import Case
from conformance.cases.repeated_case import repeated
from conformance.compiler.case_request import CaseRequest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from conformance.capture.model import Capture
    from conformance.capture.result import CaptureResult
    from conformance.devices.targets import Target

    Captures = Callable[[CaseRequest], AbstractContextManager[CaptureResult]]

#: A larger exponent is named: with twice as many blocks, the work should be twice as much.
LIMIT = 1.1
REPETITIONS = (1, 2, 4, 8, 16, 32, 64)
#: What grows beside the phases of the compile.
_MEMORY = "memory"
#: The growth of small numbers says nothing: of fewer calls per repetition, and of memory that is nearly the same.
_FEW = 200
_NEARLY = 1.05


def counted(captures: Captures, case: Case, target: Target, repeats: int = 1) -> Capture:
    """A capture without the device, with the calls of its compile. Raises what compiling raises."""
    request = CaseRequest(case, target, texts=False, counts_calls=True, repeats=repeats)
    with captures(request) as result:
        return result.capture


@dataclass(frozen=True)
class Growth:
    """`counts`: repetitions → phase, "all" or "memory" → calls, or bytes."""

    counts: Mapping[int, Mapping[str, int]]

    def exponents(self) -> dict[str, float]:
        """How each count grows with the number of repetitions: 1 in proportion, 2 with the square.

        It is that of the last doublings, since a compile has work that does not depend on its size. Needs three counts.
        """
        low, middle, high = sorted(self.counts)[-3:]
        found = {}
        for name, most in self.counts[high].items():
            first, second = (self.counts[each].get(name, 0) for each in (low, middle))
            if second <= first * _NEARLY if name == _MEMORY else (most - second) / (high - middle) < _FEW:
                continue
            if name == _MEMORY and most - second <= second - first:
                continue  # it grows less with each doubling: no power says that
            if second > first and most > second:
                found[name] = math.log2((most - second) / (second - first))
        return found

    def lines(self) -> Iterator[str]:
        """A line for each number of repetitions, the exponents, and what grows faster than LIMIT."""
        for repeats, counts in sorted(self.counts.items()):
            yield f"{repeats:>3} times: {counts['all']:>10,} calls, {counts[_MEMORY]:,} bytes at the peak"
        if len(self.counts) < 3:
            return
        exponents = self.exponents()
        if "all" in exponents:
            yield f"calls grow with the power {exponents['all']:.2f} of the repetitions"
        if _MEMORY in exponents:
            yield f"memory grows with the power {exponents[_MEMORY]:.2f}"
        fast = {name: power for name, power in exponents.items() if power > LIMIT and name != "all"}
        for name, power in sorted(fast.items(), key=lambda each: -each[1]):
            yield f"faster than in proportion: {name}, power {power:.2f}"


def growth(captures: Captures, case: Case, target: Target, repetitions: Sequence[int] = REPETITIONS) -> Growth:
    """Compiles the repetitions of the case. Raises CaseError where it cannot be repeated, and what compiling raises."""
    repeated(case, 2)  # raises before anything is compiled
    counts = {}
    for repeats in repetitions:
        capture = counted(captures, case, target, repeats)
        found = facts.extract(capture)
        phases = capture.calls["phases"]
        counts[repeats] = phases | {"all": sum(phases.values()), _MEMORY: found.value("memory")}
    return Growth(counts)
