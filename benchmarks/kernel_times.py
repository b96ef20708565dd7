"""The device's own time of each call of a compiled function: torch.profiler's trace, matched with the recorded calls.

A turn is: read a buffer that is larger than the cache, mark, call the function, mark, call it again, mark. So each turn
has a call without and a call with data in the cache. The mark is a kernel of torch that only waits.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The kernel of torch.cuda._sleep.
MARK = "spin_kernel"
_MARKS = 3
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
#: Bytes: more than the cache of any device.
_FLUSH = 512 * 2**20
TURNS = 7


@dataclass(frozen=True)
class Event:
    name: str
    us: float


@dataclass
class Timed:
    """Calls that are timed as one: a generated kernel, or the library calls between two of them.

    `calls`: their positions. `cold`, `warm`: µs, one sample a turn. `events`: the names of kernels, of the last turn.
    """

    calls: list[int]
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    @property
    def cold_us(self) -> float:
        return statistics.median(self.cold)

    @property
    def warm_us(self) -> float:
        return statistics.median(self.warm)


def traced(call: Callable[[], Any]) -> list[Event]:
    """All that ran on the device in TURNS turns, in order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    buffer = torch.ones(_FLUSH // 4, device="cuda")
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for _ in range(TURNS):
            buffer.sum()
            for _ in range(_MARKS - 1):
                _mark()
                call()
            _mark()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    on_device = [each for each in trace["traceEvents"] if each.get("cat") in _ON_DEVICE]
    return [Event(each["name"], each["dur"]) for each in sorted(on_device, key=lambda each: each["ts"])]


def whole_us(call: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """µs of whole calls with an empty and with a filled cache, where the profiler sees nothing of the device.

    The device waits first, so that the host has launched all kernels when the first of them begins.
    """
    import torch

    buffer = torch.ones(_FLUSH // 4, device="cuda")
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        buffer.sum()
        torch.cuda.synchronize()
        for samples in found:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            _mark(cycles=3_000_000)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            samples.append(1e3 * start.elapsed_time(end))
    return found


def _mark(cycles: int = 1000) -> None:
    import torch

    torch.cuda._sleep(cycles)  # noqa: SLF001 - no public call runs a kernel that nothing else runs


def turns(events: Sequence[Event]) -> list[tuple[list[Event], list[Event]]]:
    """What each turn ran with an empty and with a filled cache. What runs between turns is left out."""
    segments: list[list[Event]] = []
    for event in events:
        if MARK in event.name:
            segments.append([])
        elif segments:
            segments[-1].append(event)
    return list(zip(segments[::_MARKS], segments[1::_MARKS], strict=False))


def matched(
    events: Sequence[Event], calls: Sequence[Mapping[str, str]]
) -> tuple[list[tuple[list[int], list[Event]]], list[str]]:
    """The events of one call of the function, for each generated kernel and for the library calls between two.

    `calls`: as observed, each with `call` and for a kernel `function`. Also returns problems, as text.
    """
    found: list[tuple[list[int], list[Event]]] = []
    problems: list[str] = []
    rest, waiting = list(events), []

    def end_libraries(until: int) -> None:
        nonlocal rest, waiting
        taken, rest = rest[:until], rest[until:]
        if waiting and taken:
            found.append((waiting, taken))
        elif waiting:
            problems.append(f"calls {waiting} ran nothing on the device")
        elif taken:
            problems.append(f"{len(taken)} events belong to no call, such as {taken[0].name}")
        waiting = []

    for number, call in enumerate(calls):
        if call["call"] != "kernel":
            waiting.append(number)
            continue
        at = next((index for index, event in enumerate(rest) if _is_kernel(event.name, call["function"])), None)
        if at is None:
            problems.append(f"no event {call['function']}")
            continue
        end_libraries(at)
        found.append(([number], [rest.pop(0)]))
    end_libraries(len(rest))
    return found, problems


def _is_kernel(event: str, function: str) -> bool:
    return event == function or event.startswith(f"{function}_")


def times(events: Sequence[Event], calls: Sequence[Mapping[str, str]]) -> tuple[list[Timed], list[str]]:
    """The times of each call over all turns. Also returns problems, each once."""
    timed: dict[tuple[int, ...], Timed] = {}
    problems: dict[str, None] = {}
    for pair in turns(events):
        for name, part in zip(("cold", "warm"), pair, strict=True):
            found, wrong = matched(part, calls)
            problems |= dict.fromkeys(wrong)
            for numbers, own in found:
                entry = timed.setdefault(tuple(numbers), Timed(numbers))
                getattr(entry, name).append(sum(event.us for event in own))
                entry.events = [event.name for event in own]
    return [each for each in timed.values() if each.cold and each.warm], list(problems)
