"""Measures how well the calls that `show --work` counts predict seconds, and whether each process counts the same.

    python benchmarks/compile_work.py --every 40                 # one of 40 cases of the package
    python benchmarks/compile_work.py --every 200 --runs 10      # the counts of ten processes
    python benchmarks/compile_work.py --page OLD NEW …           # the table of docs/memory-and-work.md, from runs

For each case: the calls, and the CPU seconds of a second compile in this process. At the end: the correlation of both,
and of the symbols' calls too. With --runs, each process starts anew.
The runs of --page have --checks work.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.capture.call_counts import SYMBOLS
from conformance.cases.case import Case
from conformance.cases.lookup import selected_cases
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.compile_growth import counted
from conformance.compiler.compiler import Compiler, compiler_here
from conformance.compiler.gpu_free_worker import GpuFreeWorkerError
from conformance.devices.environment import PreparationError
from conformance.devices.targets import Target
from conformance.errors import first_line
from conformance.facts.compile_work import NO_PHASES
from conformance.review.overview import consequence_lines
from conformance.review.review import review_items, run_text_finder
from conformance.storage.runs import Run

_WORK = "compile_work."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="parts of case ids; default: all")
    parser.add_argument("--target", default="cuda_sm90")
    parser.add_argument("--every", type=int, default=1, help="one of so many cases")
    parser.add_argument("--runs", type=int, default=1, help="count in so many processes")
    parser.add_argument("--page", nargs="+", type=Path, metavar="RUN", help="print a table of these runs")
    arguments = parser.parse_args()
    if arguments.page:
        print(page([Run(folder) for folder in arguments.page]), end="")
        return 0
    if arguments.runs > 1:
        return _vary(arguments)
    rows = []
    with contextlib.closing(compiler_here()) as compiler:
        cases = _cases(arguments)
        target = compiler.target(arguments.target)
        for case in cases:
            try:
                phases = counted(compiler.capture, case, target).calls["phases"]
                seconds = _seconds(compiler, case, target)
            except (GpuFreeWorkerError, PreparationError) as error:
                print(f"{case.id}: {first_line(error)}", flush=True)
                continue
            rows.append((sum(phases.values()), sum(phases.values()) - phases.get(SYMBOLS, 0), seconds))
            print(f"{case.id}: {rows[-1][0]:,} calls, {rows[-1][1]:,} without symbols, {seconds:.2f} s", flush=True)
    every, without, seconds = zip(*rows, strict=True)
    print(f"{len(rows)} cases: correlation with CPU seconds {statistics.correlation(every, seconds):.3f}, ", end="")
    print(f"without symbols {statistics.correlation(without, seconds):.3f}")
    return 0


def _seconds(compiler: Compiler, case: Case, target: Target) -> float:
    """CPU seconds of the faster of two compiles, after a first one."""
    found = []
    for _ in range(3):
        start = time.process_time()
        with compiler.capture(CaseRequest(case, target, texts=False)):
            found.append(time.process_time() - start)
    return min(found[1:])


def _cases(arguments: argparse.Namespace) -> list[Case]:
    """Call it when the process is prepared: the files of cases import torch."""
    found = selected_cases([], arguments.patterns, package=not arguments.patterns)
    return list(found.cases)[:: arguments.every]


def _vary(arguments: argparse.Namespace) -> int:
    counts: dict[str, set[tuple[int, int]]] = {}
    for _ in range(arguments.runs):
        with contextlib.closing(compiler_here()) as compiler:
            target = compiler.target(arguments.target)
            for case in _cases(arguments):
                with contextlib.suppress(GpuFreeWorkerError, PreparationError):
                    phases = counted(compiler.capture, case, target).calls["phases"]
                    symbols = phases.get(SYMBOLS, 0)
                    counts.setdefault(case.id, set()).add((sum(phases.values()) - symbols, symbols))
    for case, found in counts.items():
        lows, highs = ([choose(each[part] for each in found) for part in (0, 1)] for choose in (min, max))
        print(f"{case}: {lows[0]} to {highs[0]} calls, symbols {lows[1]} to {highs[1]}")
    same = sum(len({each[0] for each in found}) == 1 for found in counts.values())
    print(f"{same} of {len(counts)} cases: the same number of calls in {arguments.runs} processes")
    return 0


def page(runs: list[Run]) -> str:
    """A row for each run, of the items that all have; then what changed from one to the next."""
    records = [{each.name: each for each in run.items() if "compile_work" in each.fact_values} for run in runs]
    names = sorted(set.intersection(*map(set, records)))
    phases = sorted({key for of in records for name in names for key in of[name].fact_values if key.startswith(_WORK)})
    phases = [key for key in phases if key.removeprefix(_WORK) not in NO_PHASES]
    head = ["torch", "items", "calls", "kernels", "bytes at the peak", *(key.removeprefix(_WORK) for key in phases)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for of in records:
        values = [of[name].fact_values for name in names]
        sums = [
            sum(each.get(key, 0) for each in values) for key in ("compile_work", f"{_WORK}kernels", "memory", *phases)
        ]
        torch = ", ".join(sorted({of[name].torch.partition("+")[0] for name in names}))
        lines.append(f"| {torch} | {len(names)} | {' | '.join(f'{each:,}' for each in sums)} |")
    for before, after in zip(runs[:-1], records[1:], strict=True):
        review = review_items([after[name] for name in names], run_text_finder(before, before.folder.name))
        for cause in review.cost_causes:
            lines += [
                "",
                cause.title,
                "",
                *(f"- {line}" for line in (*consequence_lines(cause, 5), *cause.example.hunk)),
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
