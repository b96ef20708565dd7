"""Compares emulated with native numerics of the same items: prints where one passed and the other did not.

pytest conformance/ops --target cuda_sm90 --checks numerics --fresh --save-run native                      # on an H200
CUDA_VISIBLE_DEVICES= pytest conformance/ops --target cuda_sm90 --checks numerics --fresh --save-run emulated
python benchmarks/emulation.py native emulated
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from conformance.storage.runs import ItemRecord, RunError, open_run


def outcome(item: ItemRecord) -> str:
    found = item.outcome("numerics") or item.outcome("compile")
    return found.value if found else "not run"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, metavar="RUN", help="the native run and the emulated one: names of --save-run")
    names = parser.parse_args(arguments).runs
    try:
        native, emulated = ({item.name: item for item in open_run(Path.cwd(), name).items()} for name in names)
    except RunError as error:
        print(error)
        return 2
    both = sorted(set(native) & set(emulated))
    if not both:
        print("the two runs have no item in common: give two runs of the same targets")
        return 2
    wrong = [name for name in both if (native[name].evidence, emulated[name].evidence) == ("generated", "generated")]
    pairs = Counter((outcome(native[name]), outcome(emulated[name])) for name in both)
    print(f"{len(both)} items in both; {len(wrong)} of them were only generated, in both runs")
    print("| native | emulated | items |\n|---|---|---:|")
    for (first, second), count in pairs.most_common():
        print(f"| {first} | {second} | {count} |")
    differing = [name for name in both if outcome(native[name]) != outcome(emulated[name])]
    for name in differing:
        print(f"\n{name}")
        for kind, item in (("native", native[name]), ("emulated", emulated[name])):
            print(f"  {kind:10}{item.checks.get('numerics', 'not run')}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
