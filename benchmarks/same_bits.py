"""Counts, over cases, which properties of same bits hold, and lists where structure says the same and bits do not.

    python benchmarks/same_bits.py --target cuda_sm90                    # all cases of operators
    python benchmarks/same_bits.py --target cpu_avx2 --every 20 softmax  # one of 20 of those that match

Run it on the device: without it there is the structure alone, and nothing to disagree with. --output writes a line of
JSON for each verdict. --cost runs pytest with and without the check, and prints the ratio of their times.
`--page RUN …` prints docs/same-bits-operators.md from runs with --checks same_bits.

On an H200 with torch 2.11, of 2,023 cases that run there: two runs have the same bits for 1,696, other bits for 36, and
may have others in another process for 291. 1,370 have eager's bits. 241 of 1,744 layouts, and 176 of 1,307 batches give
others. Each difference has its reason.

--cost with --every 120 on cuda_sm90, emulated: 1.24 times the time without the check; --every 200 on cpu_avx2: 1.25.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.cases.bit_variants import DIFFER, MAY_DIFFER, PROPERTIES, SAME, UNDEFINED
from conformance.cases.lookup import selected_cases
from conformance.compiler import same_bits
from conformance.compiler.compiler import GeneratingError, compiler_here
from conformance.devices.environment import PreparationError
from conformance.storage.runs import Run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="parts of case ids; default: all")
    parser.add_argument("--target", default="cuda_sm90")
    parser.add_argument("--cost", action="store_true", help="what the check costs: pytest with and without it")
    parser.add_argument("--page", nargs="+", type=Path, metavar="RUN", help="print the page of these runs")
    parser.add_argument("--every", type=int, default=1, help="one of so many cases")
    parser.add_argument("--shard", default="0/1", help="I/N: the I-th of N parts of the cases")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.cost:
        return cost(arguments.target, arguments.every, arguments.patterns)
    if arguments.page:
        print(page(arguments.page), end="")
        return 0
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


def cost(target: str, every: int, patterns: list[str]) -> int:
    """Runs the cases with the default checks, and with this one too: each time anew, and first once to fill caches."""
    cases = list(selected_cases([], patterns, package=not patterns).cases)[::every]
    with tempfile.TemporaryDirectory() as folder:
        subset = Path(folder, "subset.txt")
        subset.write_text("\n".join(case.id for case in cases) + "\n", encoding="utf-8")
        seconds = []
        for checks in (
            "numerics,requirements,code,same_bits",
            *("numerics,requirements,code", "numerics,requirements,code,same_bits") * 2,
        ):
            words = ("--subset", str(subset), "--target", target, "--checks", checks, "--fresh", "-n", "0", "-q")
            start = time.monotonic()
            subprocess.run(
                [sys.executable, "-m", "pytest", "conformance/ops", *words], check=False, stdout=subprocess.DEVNULL
            )
            seconds.append(time.monotonic() - start)
            print(f"{checks}: {seconds[-1]:.0f} s", flush=True)
    without, with_check = seconds[1] + seconds[3], seconds[2] + seconds[4]
    print(f"{len(cases)} cases on {target}: {with_check / without:.2f} times the time without the check")
    return 0


def page(runs: list[Path]) -> str:
    """How many cases keep each property, of those where it is defined: by operator and target; and the reasons."""
    counts: dict[tuple[str, str], dict[str, list[int]]] = {}
    reasons: Counter[tuple[str, str, str]] = Counter()
    evidence: Counter[tuple[str, str]] = Counter()
    torches, items = set(), Counter[str]()
    for folder in runs:
        for item in Run(folder).items():
            items[item.target] += bool(item.same_bits)
            for kind, found in item.same_bits.items():
                torches.add(item.torch)
                place = (item.case.partition("/")[0], item.target)
                cell = counts.setdefault(place, {name: [0, 0] for name in PROPERTIES})[kind]
                cell[0] += found["word"] == SAME
                cell[1] += found["word"] != UNDEFINED
                evidence[item.target, found["evidence"]] += 1
                if found["word"] in (DIFFER, MAY_DIFFER):
                    reasons[item.target, kind, _short(found["reason"])] += 1
    lines = [
        "# The same bits: all operators and models",
        "",
        f"Written by `python benchmarks/same_bits.py --page RUN …` from runs with torch {', '.join(sorted(torches))}.",
        "[What the properties are](same-bits.md). A cell: how many cases keep it, of those where it is defined.",
        "",
        *(f"- {target}: {text}" for target, text in _evidence(evidence, items)),
        "",
        "| operator | target | " + " | ".join(PROPERTIES) + " |",
        "|---" * (2 + len(PROPERTIES)) + "|",
    ]
    for (operator, target), cells in sorted(counts.items()):
        texts = [f"{same} of {all_}" if all_ else "–" for same, all_ in cells.values()]
        lines.append(f"| {operator} | {target} | {' | '.join(texts)} |")
    lines += ["", "## Why bits differ, or may", "", "| target | property | reason | cases |", "|---|---|---|---|"]
    lines += [f"| {target} | {kind} | {why} | {n} |" for (target, kind, why), n in sorted(reasons.items(), key=_most)]
    return "\n".join(lines) + "\n"


def _most(entry: tuple[tuple[str, str, str], int]) -> tuple[str, str, int, str]:
    (target, kind, why), count = entry
    return target, kind, -count, why


def _evidence(found: Counter[tuple[str, str]], items: Counter[str]) -> list[tuple[str, str]]:
    targets = sorted({target for target, _ in found})
    counts = {target: [found[target, kind] for kind in ("native", "structure")] for target in targets}
    return [
        (target, f"{items[target]:,} cases; {native:,} verdicts native, {structure:,} by structure")
        for target, (native, structure) in counts.items()
    ]


def _short(reason: str) -> str:
    """The kind of a reason: without the kernel, its operators and its numbers."""
    text = re.sub(r"^\d+ kernels and calls → \d+; .*", "another number of kernels", reason.partition(", and ")[0])
    text = re.sub(r"^kernels? \d+( \w+ward)?:? ", "", text)
    for known, short in _KINDS:
        if re.search(known, text):
            return short
    return "the kernels do something else" if "→" in text else text


#: In a reason → its kind.
_KINDS = (
    ("its values are wrong", "its values are wrong, a known failure"),
    ("takes the fastest of", "takes the fastest of several launches"),
    ("adds up in its own order", "adds up in its own order"),
    ("rounds to 16 bits only", "rounds to 16 bits only at its end"),
    ("16-bit results are rounded", "rounds to 16 bits elsewhere"),
    ("may be contracted", "contracts to an fma elsewhere"),
    ("^call .* is for ", "calls a library's function for operators"),
    ("a pattern changed", "a pattern changed the graph"),
    ("own way to compute", "has its own way to compute a function"),
    ("^other bits in each run", "other bits in each run"),
    ("removed conversions", "a pattern removed conversions"),
    ("the other of 0.0", "may choose the other of 0.0 and -0.0"),
    ("adds? atomically", "adds atomically"),
    ("choose another of equal", "may choose another of equal elements"),
    ("a library chooses", "a library chooses its own kernel"),
    ("persistent reduction.* → .*reduction|reduction.* → .*persistent", "persistent or looped"),
    ("XBLOCK.* → .*XBLOCK|nothing → XBLOCK|XBLOCK.* → nothing", "other blocks, warps or layouts"),
    ("vectorised|lanes|tail", "other lanes, or a tail"),
)


if __name__ == "__main__":
    sys.exit(main())
