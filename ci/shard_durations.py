#!/usr/bin/env python3
"""Writes ci/shard_durations.json, by which pytest-split divides the sweep among machines.

It has the mean seconds of an item of each function, from the durations of this checkout's runs (.conformance/). Run the
whole sweep first. Functions that did not run keep their seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from conformance.harness.schedule.shards import by_function  # noqa: E402 # from this checkout
from conformance.storage import durations  # noqa: E402

FILE = ROOT / "ci" / "shard_durations.json"
SWEEP = "conformance/sweep/"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / ".conformance", help="the folder with durations.json"
    )
    found = durations.read(parser.parse_args().folder)
    new = by_function({node_id: seconds for node_id, seconds in found.items() if node_id.startswith(SWEEP)})
    if not new:
        print("no run of the sweep left durations: run pytest --pyargs conformance.sweep first", file=sys.stderr)
        return 1
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    FILE.write_text(json.dumps(dict(sorted((before | new).items())), indent=0) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {len(new):,} functions, {sum(new.values()):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
