"""Clocks, and interleaved timing: blocks of calls of each function in turns. A slow phase of the machine then slows all
functions alike.
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

#: Each function's time is divided into this many blocks or more. On the CPU each block is one sample.
MIN_BLOCKS = 50
#: Each function gets at least MIN_TURNS turns, unless that takes more than MAX_OVERTIME times the requested time.
MIN_TURNS, MAX_OVERTIME = 10, 10
#: A measurement is noisy if its interquartile range is larger than this part of the median.
NOISE = 0.25
#: Seconds of the first calls, which show how long a call takes. They are also the warm-up.
_WARM_UP = 0.02
#: Seconds: the longest block on the CPU. Most short blocks fit between two interruptions by other processes.
_MAX_BLOCK = 0.001
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Spread:
    """The distribution of `samples` samples, in microseconds for each call: the median and both quartiles.

    `least`, `most`: the 95 % confidence interval of the median, from the ranks of the samples; it assumes nothing on
    their distribution.
    """

    median: float
    low: float
    high: float
    samples: int
    least: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """From one or more samples, in seconds for each call."""
        ordered, count = sorted(seconds), len(seconds)
        low, median, high = statistics.quantiles(ordered, n=4, method="inclusive") if count > 1 else ordered * 3
        rank = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))  # 1.96 standard deviations of a fair coin
        return cls(
            median=_microseconds(median),
            low=_microseconds(low),
            high=_microseconds(high),
            samples=count,
            least=_microseconds(ordered[rank]),
            most=_microseconds(ordered[-1 - rank]),
        )

    @property
    def iqr(self) -> float:
        """The interquartile range."""
        return self.high - self.low

    @property
    def noisy(self) -> bool:
        return self.iqr > NOISE * self.median

    def differs(self, other: Spread, min_change: float = 0.0, *, interleaved: bool = False) -> bool:
        """Whether the medians differ by more than noise, and by more than the fraction `min_change` of the smaller one.

        More than noise: the quartile ranges do not overlap. For `interleaved` measurements, the confidence intervals
        of the medians do not overlap: what disturbs one measurement then disturbs the other too.
        """
        if interleaved:
            separate = self.least > other.most or self.most < other.least
        else:
            separate = self.low > other.high or self.high < other.low
        return separate and abs(self.median - other.median) > min_change * min(self.median, other.median)


def _microseconds(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, 4)


@dataclass(frozen=True)
class Work:
    """A call to time: the statement `stmt`, which uses `names`."""

    stmt: str
    names: Mapping[str, Any] = field(default_factory=dict)

    def function(self) -> Callable[[], Any]:
        scope = dict(self.names)
        exec(f"def call():\n    return {self.stmt}", scope)  # noqa: S102 - our own text, compiled as timeit does
        return scope["call"]


class Clock(Protocol):
    """Times works.

    `prepare` returns the works in the form in which they are timed. `start` warms up one work, and returns a function
    that times one block: it returns one or more samples, in seconds for each call.
    """

    def prepare(self, works: Mapping[str, Work]) -> Mapping[str, Work]: ...
    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]: ...


@dataclass(frozen=True)
class CpuClock:
    """torch.utils.benchmark: wall time of a block of calls on `threads` threads, without garbage collection."""

    threads: int = 1

    def prepare(self, works: Mapping[str, Work]) -> Mapping[str, Work]:
        return works

    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]:
        """`block`: seconds."""
        from torch.utils.benchmark import Timer

        timer = Timer(work.stmt, globals=dict(work.names), num_threads=self.threads)
        first = timer.blocked_autorange(min_run_time=min(_WARM_UP, block))
        calls = max(1, round(min(block, _MAX_BLOCK) / first.median))
        return lambda: timer.timeit(calls).times


@dataclass(frozen=True)
class GpuClock:
    """triton.testing.do_bench: time of each call between two events on the device, each call with an empty cache.

    The calls are replayed from a CUDA graph. The time is then the device's own, without the host's time to launch a
    kernel, which dominates for kernels of a few µs. If one of the works cannot be captured (it synchronises, or the
    device has no graphs), all works are called instead.
    """

    def prepare(self, works: Mapping[str, Work]) -> Mapping[str, Work]:
        import torch

        if not torch.cuda.is_available():
            return works
        try:
            graphs = {name: _cuda_graph(work.function()) for name, work in works.items()}
        except RuntimeError:  # raised for a work that cannot be captured; this also ends the capture
            torch.cuda.synchronize()
            return works
        return {name: Work("graph.replay()", {"graph": graph}) for name, graph in graphs.items()}

    def start(self, work: Work, block: float) -> Callable[[], Sequence[float]]:
        """`block`: seconds."""
        from triton.testing import do_bench

        function, milliseconds = work.function(), 1e3 * block

        def time_calls(warm_up: float) -> Sequence[float]:
            samples = do_bench(function, warmup=warm_up, rep=milliseconds, return_mode="all")
            return [sample / 1e3 for sample in samples]

        time_calls(1e3 * _WARM_UP)
        return lambda: time_calls(milliseconds / 10)


def _cuda_graph(function: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    import torch

    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):  # the first calls on a stream set things up that must not be captured
        function()
        function()
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def time_interleaved(
    works: Mapping[str, Work], clock: Clock, seconds: float, now: Callable[[], float] = time.perf_counter
) -> dict[str, Spread]:
    """Times each work for about `seconds`, one block each in turns. The order is reversed after each round."""
    blocks = {name: clock.start(work, seconds / MIN_BLOCKS) for name, work in clock.prepare(works).items()}
    samples: dict[str, list[float]] = {name: [] for name in works}
    names, budget, start = list(works), seconds * len(works), now()
    for turn in itertools.count(1):
        for name in names if turn % 2 else reversed(names):
            samples[name] += blocks[name]()
        spent = now() - start
        if (spent >= budget and turn >= MIN_TURNS) or spent >= MAX_OVERTIME * budget:
            break
    return {name: Spread.of(of_one) for name, of_one in samples.items()}
