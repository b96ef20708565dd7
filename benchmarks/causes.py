"""Counts the causes that the review finds for changes planted into Inductor.

It reads the folder that benchmarks/planted_changes.py wrote. For each change it prints the changed texts, the causes,
the share of the texts that the first three causes explain, the time and the first title. For each pair of changes it
also prints how many texts show the second change, and how many of them an acceptance of all causes of the first change
would take with them. `--stored` compares all stored texts of two torch versions instead, to measure time and memory.

    python benchmarks/causes.py /tmp/planted
    python benchmarks/causes.py --stored 2.11 2.13
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.roots import OPS
from conformance.devices.targets import targets
from conformance.review.causes import Cause, ChangedText, find_causes
from conformance.storage.locations import snapshot_stores
from conformance.storage.snapshots import Snapshot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder that benchmarks/planted_changes.py wrote")
    parser.add_argument("--stored", nargs=2, metavar="VERSION", help="compare the stored texts of two torch versions")
    parser.add_argument("--titles", type=int, default=1, metavar="N", help="print the titles of the first N causes")
    arguments = parser.parse_args()
    print(f"{'change':50} {'texts':>6} {'causes':>7} {'first 3':>8} {'s':>6}")
    if arguments.stored:
        print_causes(" → ".join(arguments.stored), stored_changes(*arguments.stored), arguments.titles)
        gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{gigabytes:.2f} GiB at most")
        return
    changes = {
        path.name.removesuffix(".json.gz"): [
            ChangedText(*each) for each in json.loads(gzip.decompress(path.read_bytes()))
        ]
        for path in sorted(arguments.folder.glob("*.json.gz"))
    }
    found = {name: print_causes(name, texts, arguments.titles) for name, texts in changes.items()}
    print(f"\n{'pair':60} {'with the second':>16} {'taken with the first':>21}")
    for name in filter(lambda each: "+" in each, changes):
        first, second = name.split("+")
        if first in found and second in found:
            print_pair(name, changes[name], found[name], changes[first], found[first])


def read(path: Path) -> list[ChangedText]:
    return [ChangedText(*each) for each in json.loads(gzip.decompress(path.read_bytes()))]


def stored_changes(old: str, new: str) -> list[ChangedText]:
    """The texts that differ between two stored torch versions."""
    changes = []
    for store in snapshot_stores([OPS]):
        for case in store.cases():
            snapshot = store.read(case) or Snapshot()
            for target in targets():
                before, after = snapshot.text(old, target), snapshot.text(new, target)
                if before and after and before != after:
                    changes.append(ChangedText(case, target, before, after))
    return changes


def print_causes(name: str, changes: list[ChangedText], titles: int) -> list[Cause]:
    start = time.perf_counter()
    causes = find_causes(changes)
    seconds = time.perf_counter() - start
    numbers: dict[ChangedText, set[int]] = defaultdict(set)
    for number, cause in enumerate(causes):
        for member in cause.members:
            numbers[member].add(number)
    first = sum(each <= {0, 1, 2} for each in numbers.values()) / max(1, len(numbers))
    print(f"{name:50} {len(numbers):6} {len(causes):7} {first:8.0%} {seconds:6.1f}")
    for cause in causes[:titles]:
        print(f"    {len(cause.members):5}  {cause.title[:110]}")
    sys.stdout.flush()
    return causes


def print_pair(
    name: str, both: list[ChangedText], causes: list[Cause], first: list[ChangedText], first_causes: list[Cause]
) -> None:
    """The texts that differ from what the first change alone makes of them show the second change.

    Such a text must have a cause that the first change alone does not have, so that it stays open.
    """
    alone = {member.name: member.new for member in first}
    known = {cause.id for cause in first_causes}
    ids = defaultdict(set)
    for cause in causes:
        for member in cause.members:
            ids[member.name].add(cause.id)
    with_second = [each for each in both if alone.get(each.name, each.stored) != each.new]
    taken = [each for each in with_second if ids[each.name] <= known]
    print(f"{name:60} {len(with_second):16} {len(taken):21}", *(each.name for each in taken[:5]))


if __name__ == "__main__":
    main()
