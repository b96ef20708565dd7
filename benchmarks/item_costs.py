"""Prints what the items of a saved run cost, target by target, and what captures cost that targets share.

    pytest -n auto --fresh --save-run costs
    python benchmarks/item_costs.py costs

Times are CPU seconds of the worker and of its processes, from the run's records. Kernels that are compiled for several
items count where the first of these items began. The start of workers and pytest itself are not in them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.storage.runs import ItemRecord, open_run


def row(name: str, items: Sequence[ItemRecord]) -> str:
    alone = [item.cpu_seconds for item in items if not item.shared_with]
    shared = [item.cpu_seconds for item in items if item.shared_with]
    total = sum(alone) + sum(shared)
    means = [f"{sum(each) / len(each):.3f}" if each else "" for each in (alone, shared)]
    return f"| {name} | {len(alone):,} | {means[0]} | {len(shared):,} | {means[1]} | {total:,.0f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the name of a run that --save-run kept, or its folder")
    items = list(open_run(Path.cwd(), parser.parse_args().run).items())
    print("| target | captured alone | s an item | shared | s an item | s in all |\n|---|---:|---:|---:|---:|---:|")
    for target in sorted({item.target for item in items}):
        print(row(target, [item for item in items if item.target == target]))
    print(row("all", items))
    return 0


if __name__ == "__main__":
    sys.exit(main())
