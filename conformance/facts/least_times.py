"""The least time of each call of a capture: the slower of its bytes and its operations, as in a roofline model.

time = start + max(bytes / bandwidth, operations / rate)

`start` is the time of the smallest kernel on the device: without it, tiny kernels would take no time at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.devices.speeds import Speeds
from conformance.facts.kernels import describe
from conformance.facts.model import FactError, ObservedCapture

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


def least_us(moved: int, operations: Mapping[str, int], speeds: Speeds) -> tuple[float, str]:
    """The least time of a call in µs, and what takes most of it: BYTES, START or a class of operations.

    Different classes of operations may be computed at once: the slowest counts.
    """
    seconds = {BYTES: moved / speeds.bandwidth}
    seconds |= {kind: count / speeds.rate(kind) for kind, count in operations.items()}
    bound = max(seconds, key=lambda kind: seconds[kind])
    us = (speeds.start + seconds[bound]) * _MICROSECONDS
    return us, bound if seconds[bound] > speeds.start else START


def each_call(observed: ObservedCapture, speeds: Speeds) -> list[CallEstimate]:
    """Each call by itself, in the order of the code. Raises FactError if this torch lacks what costs are read from."""
    if missing := observed.capture.unknown.get("costs"):
        raise FactError(f"costs are unknown: torch {observed.capture.torch} lacks {missing}")
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
