"""What numerics without the device cost: CPU seconds of each emulated item, its compilation among them.

    python benchmarks/emulation_cost.py                                          # all of cuda and xpu, one process
    python benchmarks/emulation_cost.py --target cuda_sm90 -k sdpa --json F      # what pytest takes

One item is run before the clock starts: importing torch, Triton and Inductor is paid once a process. Seconds are of
this process and of those that it waits for, on one thread, so that another load on the machine changes them little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conformance.targets import targets  # noqa: E402 - from this checkout

#: What an emulated item may take, in CPU seconds: each, and the median.
MOST, MIDDLE = 5.0, 0.5
SLOWEST = 10


class Clock:
    """CPU seconds of each item, by its node id."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.targets = set(targets())
        self._warm = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """The first item once more: what it has to import and to start is not its own."""
        if session.items:
            item = session.items[0]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        self._warm = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            # a test that is no case has no target
            if self._warm and item.name.rstrip("]").rpartition("-")[2] in self.targets:
                self.seconds[item.nodeid] = cpu_seconds() - before


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def told(seconds: dict[str, float]) -> list[str]:
    """Count, median, 99th percentile, most, those over the limit, and the slowest."""
    if not seconds:
        return ["no item ran"]
    ordered = sorted(seconds.values())
    late = ordered[math.ceil(0.99 * len(ordered)) - 1]
    over = sum(value > MOST for value in ordered)
    middle = statistics.median(ordered)
    said = f"{len(ordered)} items, {sum(ordered):.0f} CPU s: median {middle:.2f} s, 99th percentile {late:.2f} s"
    lines = [f"{said}, most {ordered[-1]:.2f} s; {over} over {MOST:g} s"]
    slowest = sorted(seconds.items(), key=lambda pair: -pair[1])[:SLOWEST]
    return lines + [f"  {value:6.2f}  {name.rpartition('/')[2]}" for name, value in slowest]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="the seconds of each item")
    mine, rest = parser.parse_known_args(arguments)
    selected = any(each.split("=")[0] in ("--target", "--device") for each in rest)
    paths = [] if any(Path(each.partition("::")[0]).exists() for each in rest) else [str(ROOT / "conformance" / "ops")]
    options = ["-n", "0", "-q", "--checks", "numerics", *([] if selected else ["--device", "cuda,xpu"])]
    clock = Clock()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # read when numpy and torch are imported, which is below
    status = pytest.main([*options, *paths, *rest], plugins=[clock])
    if mine.json:
        mine.json.write_text(json.dumps(clock.seconds, indent=1), encoding="utf-8")
    print("\n".join(told(clock.seconds)))
    slow = clock.seconds and (max(clock.seconds.values()) > MOST or statistics.median(clock.seconds.values()) > MIDDLE)
    return int(bool(slow)) or int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
