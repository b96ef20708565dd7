"""Counts, over cases, which properties of same bits hold, and lists where structure says the same and bits do not.

    python benchmarks/same_bits.py --target cuda_sm90                    # all cases of operators
    python benchmarks/same_bits.py --target cpu_avx2 --every 20 softmax  # one of 20 of those that match

Run it on the device: without it there is the structure alone, and nothing to disagree with. --output writes a line of
JSON for each verdict.

On an H200 with torch 2.11, of 165 cases: two runs have the same bits for 126, other bits for 5, and may have others in
another process for 34. 104 have eager's bits. 59 of 286 other layouts and 6 of 107 batches give others.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.lookup import selected_cases
from conformance.compiler import same_bits
from conformance.compiler.compiler import GeneratingError, compiler_here
from conformance.devices.environment import PreparationError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="parts of case ids; default: all")
    parser.add_argument("--target", required=True)
    parser.add_argument("--every", type=int, default=1, help="one of so many cases")
    parser.add_argument("--shard", default="0/1", help="I/N: the I-th of N parts of the cases")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    part, parts = map(int, arguments.shard.split("/"))
    end = time.monotonic() + 60 * arguments.minutes
    counts: Counter[tuple[str, str, str]] = Counter()
    with contextlib.closing(compiler_here()) as compiler:
        target = compiler.target(arguments.target)
        cases = selected_cases([], arguments.patterns, package=not arguments.patterns).cases
        cases = list(cases)[:: arguments.every][part::parts]
        done = 0
        for case in cases:
            if time.monotonic() > end:
                break
            done += 1
            try:
                found = list(same_bits.verdicts(compiler, case, target, deviceless=False))
            except (GeneratingError, PreparationError) as error:
                counts["not compiled", "", ""] += 1
                print(f"{case.id}: {str(error)[:150]}", flush=True)
                continue
            except Exception as error:  # noqa: BLE001 - what a case's own call raises is counted
                counts["raises", type(error).__name__, ""] += 1
                print(f"{case.id}: {type(error).__name__}: {str(error)[:150]}", flush=True)
                continue
            for each in found:
                counts[each.kind, each.word, each.evidence] += 1
                if each.reason == same_bits.UNEXPLAINED:
                    counts[each.kind, "unexplained", ""] += 1
                    print(f"{case.id}: {each}", flush=True)
                if arguments.output:
                    with arguments.output.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"case": case.id, **dataclasses.asdict(each)}) + "\n")
    print(f"{done} of {len(cases)} cases on {target.name}")
    for (kind, word, evidence), count in sorted(counts.items()):
        print(f"{kind:<14}{word:<14}{evidence:<12}{count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
