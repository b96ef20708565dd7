"""Clocks, and taking turns: a block of calls of each function after the other, until each has been timed for long
enough. What slows the machine down for a while then slows all of them.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

#: At least so many blocks of each function share its time; on the cpu each block is one sample.
BLOCKS = 50
#: At least so many turns, however slow the functions are, unless they take more than PATIENCE times what was asked for.
LEAST, PATIENCE = 10, 10
#: A measurement is called noisy where its quartiles are further apart than this part of the median.
NOISY = 0.25
#: Seconds: for the first look at how long a call takes, which is also the warm-up.
_WARM_UP = 0.02
#: Seconds: blocks on the cpu are not longer, so that most of them fit between two interruptions by other processes.
_SHORT = 0.001
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Spread:
    """Microseconds a call, of `samples` samples: the median, both quartiles, and between which two the median of very
    many samples would be, 19 times out of 20: by the ranks of these, whatever they are distributed like.
    """

    median: float
    low: float
    high: float
    samples: int
    least: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Of the samples' seconds a call; at least one."""
        ordered, count = sorted(seconds), len(seconds)
        low, median, high = statistics.quantiles(ordered, n=4, method="inclusive") if count > 1 else ordered * 3
        rank = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))  # 1.96 standard deviations of a fair coin
        found = [round(value * _MICROSECONDS, 4) for value in (median, low, high, ordered[rank], ordered[-1 - rank])]
        return cls(*found[:3], count, *found[3:])

    @property
    def iqr(self) -> float:
        return self.high - self.low

    @property
    def noisy(self) -> bool:
        return self.iqr > NOISY * self.median

    def differs(self, other: Spread, least: float = 0.0, *, in_turns: bool = False) -> bool:
        """Whether the medians differ beyond noise: by more than the fraction `least` of the smaller one, and without
        the quartile ranges overlapping; of two that were timed `in_turns` without the medians' own ranges overlapping,
        because what disturbs one of them disturbs both.
        """
        if in_turns:
            apart = self.least > other.most or self.most < other.least
        else:
            apart = self.low > other.high or self.high < other.low
        return apart and abs(self.median - other.median) > least * min(self.median, other.median)


@dataclass(frozen=True)
class Work:
    """A call to be timed: `stmt`, in which the `names` may stand."""

    stmt: str
    names: Mapping[str, Any] = field(default_factory=dict)

    def function(self) -> Callable[[], Any]:
        scope = dict(self.names)
        exec(f"def call():\n    return {self.stmt}", scope)  # noqa: S102 - our own text, compiled as timeit does
        return scope["call"]


class Clock(Protocol):
    """`ready` gives the works as they are timed, which are compared with each other. `start` warms one up, and gives a
    function that times one block: the seconds a call, one or more.
    """

    def ready(self, works: Mapping[str, Work]) -> Mapping[str, Work]: ...
    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]: ...


@dataclass(frozen=True)
class CpuClock:
    """torch.utils.benchmark: wall time of a block of calls, garbage collection off, on `threads` threads."""

    threads: int = 1

    def ready(self, works: Mapping[str, Work]) -> Mapping[str, Work]:
        return works

    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]:
        """`block`: seconds."""
        from torch.utils.benchmark import Timer

        timer = Timer(work.stmt, globals=dict(work.names), num_threads=self.threads)
        first = timer.blocked_autorange(min_run_time=min(_WARM_UP, block))
        calls = max(1, round(min(block, _SHORT) / first.median))
        return lambda: timer.timeit(calls).times


@dataclass(frozen=True)
class GpuClock:
    """triton.testing.do_bench: time between two events on the device for each call, its cache cleared before.

    Calls are replayed from a CUDA graph: what the device does, without the host's time to launch it, which shows in
    kernels of a few µs whenever the host falls behind. Where one of the works cannot be captured, because it
    synchronises, or the device has no graphs, all of them are called.
    """

    def ready(self, works: Mapping[str, Work]) -> Mapping[str, Work]:
        import torch

        if not torch.cuda.is_available():
            return works
        try:
            graphs = {name: _captured(work.function()) for name, work in works.items()}
        except RuntimeError:  # what cannot be captured says so, and ends the capture
            torch.cuda.synchronize()
            return works
        return {name: Work("graph.replay()", {"graph": graph}) for name, graph in graphs.items()}

    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]:
        """`block`: seconds."""
        from triton.testing import do_bench

        function, milliseconds = work.function(), 1e3 * block

        def timed(warm_up: float) -> Sequence[float]:
            found = do_bench(function, warmup=warm_up, rep=milliseconds, return_mode="all")
            return [each / 1e3 for each in found]

        timed(1e3 * _WARM_UP)
        return lambda: timed(milliseconds / 10)


def _captured(function: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    import torch

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # what is set up at the first call on a stream is not to be captured
        function()
        function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def in_turns(
    works: Mapping[str, Work], clock: Clock, seconds: float, now: Callable[[], float] = time.perf_counter
) -> dict[str, Spread]:
    """Times each for about `seconds`, a block each in turn; who goes first changes from round to round."""
    blocks = {name: clock.start(work, seconds / BLOCKS) for name, work in clock.ready(works).items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    names, budget, start = list(works), seconds * len(works), now()
    for turn in itertools.count(1):
        for name in names if turn % 2 else reversed(names):
            found[name] += blocks[name]()
        spent = now() - start
        if (spent >= budget and turn >= LEAST) or spent >= PATIENCE * budget:
            return {name: Spread.of(each) for name, each in found.items()}
    raise AssertionError("itertools.count ended")
