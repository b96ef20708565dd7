"""The estimate of a capture: the least times of its calls.

What no estimate counts stands in NOT_COUNTED. So a kernel may take several times its least time, and the sum of all
kernels is no time of a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.capture.model import Capture
from conformance.devices.speeds import Speeds
from conformance.facts import extract
from conformance.facts.least_times import CallEstimate, each_call
from conformance.facts.model import ObservedCapture

NOT_COUNTED = (
    "launches and other work of the host",
    "data that stay in a cache",
    "kernels too small to fill the device",
    "access that is not coalesced",
    "address arithmetic and synchronisation",
)


@dataclass(frozen=True)
class Estimate:
    """All calls of a case on a target, the longest first. `product`: of speeds.toml, whose figures were used.

    `read`, `written`: bytes of all calls. `least`: the bytes that any code moves. `buffers`: the number of allocations.
    """

    case: str
    target: str
    product: str
    read: int
    written: int
    least: int
    buffers: int
    calls: list[CallEstimate] = field(default_factory=list)

    @property
    def us(self) -> float:
        """The sum of the least times, in µs."""
        return sum(call.total_us for call in self.calls)

    @property
    def kernels(self) -> int:
        return sum(call.count for call in self.calls if call.call == "kernel")


def estimate(capture: Capture, speeds: Speeds) -> Estimate:
    """The estimate of a capture. Raises FactError if no observer recorded it."""
    facts, observed = extract(capture), ObservedCapture.of(capture)
    counts = {part: facts.value(f"bytes.{part}") for part in ("read", "written", "least")}
    calls = sorted(_merged(each_call(observed, speeds)), key=lambda call: -call.total_us)
    return Estimate(
        capture.case, capture.target, speeds.product, **counts, buffers=facts.value("buffers.allocated"), calls=calls
    )


def _merged(calls: Iterable[CallEstimate]) -> list[CallEstimate]:
    """Equal calls become one with their number. The names of their kernels may differ; the first holds."""
    found: dict[object, list[CallEstimate]] = {}
    for call in calls:
        key = (call.name, call.call, call.module, call.read, call.written, *sorted(call.operations.items()))
        found.setdefault(key, []).append(call)
    return [dataclasses.replace(equal[0], count=len(equal)) for equal in found.values()]
