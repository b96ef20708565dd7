"""Measures what emulation costs: CPU seconds of each emulated item of a run, with its compilation.

    pytest conformance/ops --device cuda,xpu --fresh && python benchmarks/emulation_cost.py   # the last run
    python benchmarks/emulation_cost.py --run NAME -k sdpa --json F                       # of `--save-run NAME`

The record of each item has its CPU seconds: those of all threads of its worker, and of the processes that the worker
waited for. Other load on the machine inflates them by up to a half.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conformance.storage.runs import LAST, RunError, open_run  # noqa: E402 - imports from this checkout

#: Limits in CPU seconds: for each emulated item, and for the median.
MOST, MIDDLE = 5.0, 0.5
SLOWEST = 10


def summary(seconds: Mapping[str, float]) -> list[str]:
    """Lines with count, median, 99th percentile, maximum, the number over the limit, and the slowest items."""
    ordered = sorted(seconds.values())
    late = ordered[math.ceil(0.99 * len(ordered)) - 1]
    over = sum(value > MOST for value in ordered)
    middle = statistics.median(ordered)
    counts = f"{len(ordered)} items, {sum(ordered):.0f} CPU s: median {middle:.2f} s, 99th percentile {late:.2f} s"
    lines = [f"{counts}, most {ordered[-1]:.2f} s; {over} over {MOST:g} s"]
    slowest = sorted(seconds.items(), key=lambda pair: -pair[1])[:SLOWEST]
    return lines + [f"  {value:6.2f}  {name}" for name, value in slowest]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default=LAST, metavar="NAME", help="a name of --save-run (default: the last run)")
    parser.add_argument("-k", default="", dest="part", metavar="TEXT", help="only items with this in their name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the seconds of each item")
    wanted = parser.parse_args(arguments)
    try:
        run = open_run(ROOT, wanted.run)
    except RunError as error:
        parser.error(str(error))
    emulated = (item for item in run.items() if item.evidence == "emulated" and wanted.part in item.name)
    seconds = {item.name: item.cpu_seconds for item in emulated}
    if not seconds:
        parser.error(
            f"the run {wanted.run} has no emulated item{f' with {wanted.part!r} in its name' if wanted.part else ''}"
        )
    if wanted.json:
        wanted.json.write_text(json.dumps(seconds, indent=1), encoding="utf-8")
    print("\n".join(summary(seconds)))
    return int(max(seconds.values()) > MOST or statistics.median(seconds.values()) > MIDDLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
