"""The least time of each call of a capture: the slower of its bytes and its operations, as in a roofline model.

time = start + max(bytes / bandwidth, operations / rate)

`start` is the time of the smallest kernel on the device: without it, tiny kernels would take no time at all. What no
estimate counts stands in NOT_COUNTED. So a kernel may take several times its least time, and the sum of all kernels is
no time of a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conformance.capture.model import Capture
from conformance.devices.speeds import Speeds
from conformance.facts import extract
from conformance.facts.kernels import describe
from conformance.facts.model import ObservedCapture

NOT_COUNTED = (
    "launches and other work of the host",
    "data that stay in a cache",
    "kernels too small to fill the device",
    "access that is not coalesced",
    "address arithmetic and synchronisation",
)
_MICROSECONDS = 1e6
BYTES, START = "bytes", "start"


@dataclass(frozen=True)
class CallEstimate:
    """Equal calls of one module. `call`: "kernel", "extern" or "fallback". `count`: how many they are.

    `name`: operators, kind and loops of a kernel; the function of a library call. `function`: the kernel's name in the
    code. `module`: "" if there is only one. `read`, `written`: bytes of one call. `operations`: class → number, of one
    call. `us`: the least time of one call, in µs. `bound`: what takes most of
    it: "bytes", a class of operations, or "start".
    """

    name: str
    call: str
    module: str
    read: int
    written: int
    operations: Mapping[str, int]
    us: float
    bound: str
    function: str = ""
    count: int = 1

    @property
    def total_us(self) -> float:
        return self.us * self.count


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


def least_us(moved: int, operations: Mapping[str, int], speeds: Speeds) -> tuple[float, str]:
    """The least time of a call in µs, and what takes most of it: BYTES, START or a class of operations.

    Different classes of operations may be computed at once: the slowest counts.
    """
    seconds = {BYTES: moved / speeds.bandwidth}
    seconds |= {kind: count / speeds.rate(kind) for kind, count in operations.items()}
    bound = max(seconds, key=lambda kind: seconds[kind])
    us = (speeds.start + seconds[bound]) * _MICROSECONDS
    return us, bound if seconds[bound] > speeds.start else START


def estimate(capture: Capture, speeds: Speeds) -> Estimate:
    """The estimate of a capture. Raises FactError if no observer recorded it."""
    facts, observed = extract(capture), ObservedCapture.of(capture)
    counts = {part: facts.value(f"bytes.{part}") for part in ("read", "written", "least")}
    calls = sorted(_merged(each_call(observed, speeds)), key=lambda call: -call.total_us)
    return Estimate(
        capture.case, capture.target, speeds.product, **counts, buffers=facts.value("buffers.allocated"), calls=calls
    )


def each_call(observed: ObservedCapture, speeds: Speeds) -> list[CallEstimate]:
    """Each call by itself, in the order of the code."""
    found = []
    for call in observed.calls:
        cost = call["cost"]
        us, bound = least_us(cost["read"] + cost["written"], cost["operations"], speeds)
        found.append(
            CallEstimate(
                name=describe(call) if call["call"] == "kernel" else call["name"],
                call=call["call"],
                module=call["module"],
                read=cost["read"],
                written=cost["written"],
                operations=cost["operations"],
                us=round(us, 3),
                bound=bound,
                function=call.get("function", ""),
            )
        )
    return found


def _merged(calls: Iterable[CallEstimate]) -> list[CallEstimate]:
    """Equal calls become one with their number. The names of their kernels may differ; the first holds."""
    found: dict[object, list[CallEstimate]] = {}
    for call in calls:
        key = (call.name, call.call, call.module, call.read, call.written, *sorted(call.operations.items()))
        found.setdefault(key, []).append(call)
    return [dataclasses.replace(equal[0], count=len(equal)) for equal in found.values()]
