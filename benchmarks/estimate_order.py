"""Whether estimates order kernels as their times on a device do: `estimate` against torch.profiler.

    python benchmarks/estimate_order.py --json order.json      # on a machine with an NVIDIA GPU of a target
    python benchmarks/estimate_order.py --dry-run              # all but the timing, for cuda_sm90 without the device

Compiles the functions of estimate_functions.py, times each of their kernels and library calls on the device (see
kernel_times.py), and compares with the estimates. Of all pairs whose times differ by more than 20 %, it counts those
that the estimates order in the same way. Exit status 1: they are fewer than 90 %.

A function that fails is named, and the others go on. After --seconds, no further function begins.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import estimate_functions  # noqa: E402 - imports from this checkout
import kernel_times  # noqa: E402

from conformance.bench.selection import select_target  # noqa: E402
from conformance.capture.deviceless.prepare import prepare  # noqa: E402
from conformance.capture.wrappers.unloaded import without_values  # noqa: E402
from conformance.cases.case import Case  # noqa: E402
from conformance.compiler.compiler import Compiler, compiler_here  # noqa: E402
from conformance.containers import copy_to  # noqa: E402
from conformance.devices.speeds import Speeds, SpeedsError, speeds_of  # noqa: E402
from conformance.devices.targets import GPUS, Target  # noqa: E402
from conformance.facts.least_times import CallEstimate, each_call  # noqa: E402
from conformance.facts.model import ObservedCapture  # noqa: E402

DRY_TARGET = "cuda_sm90"
#: Pairs count if the longer time is more than so many times the shorter. The goal: this share of them in order.
DIFFERENT, GOAL = 1.2, 0.9
SECONDS = 165.0
_WORST = 25


@dataclasses.dataclass
class Row:
    """Calls that are timed as one. `us`: estimated. `cold`, `warm`: measured, in µs; 0 without a device."""

    function: str
    name: str
    call: str
    bound: str
    moved: int
    operations: Mapping[str, int]
    us: float
    cold: float = 0.0
    warm: float = 0.0
    samples: list[float] = dataclasses.field(default_factory=list)
    events: list[str] = dataclasses.field(default_factory=list)


def row_of(function: str, calls: Sequence[CallEstimate]) -> Row:
    operations: Counter[str] = Counter()
    for call in calls:
        operations.update(call.operations)
    longest = max(calls, key=lambda call: call.us)
    return Row(
        function=function,
        name=" + ".join(call.function or call.name for call in calls),
        call="+".join(dict.fromkeys(call.call for call in calls)),
        bound=longest.bound,
        moved=sum(call.read + call.written for call in calls),
        operations=dict(operations),
        us=round(sum(call.us for call in calls), 3),
    )


def wrong_pairs(rows: Sequence[Row], which: str = "cold") -> tuple[int, list[tuple[Row, Row]]]:
    """The number of pairs whose measured times differ, and those that the estimates order otherwise or not at all.

    In each pair, the first took longer. The pairs that differ most come first.
    """
    count, wrong = 0, []
    for first, second in itertools.combinations(rows, 2):
        slow, fast = (first, second) if getattr(first, which) > getattr(second, which) else (second, first)
        if getattr(slow, which) <= DIFFERENT * getattr(fast, which):
            continue
        count += 1
        if slow.us <= fast.us:
            wrong.append((slow, fast))
    wrong.sort(key=lambda pair: -getattr(pair[0], which) / getattr(pair[1], which))
    return count, wrong


# One function ---------------------------------------------------------------------------------------------------------


def measured(
    compiler: Compiler, case: Case, target: Target, speeds: Speeds, *, dry: bool
) -> tuple[list[Row], list[str]]:
    """The rows of one function, and what could not be matched."""
    values = without_values() if dry else contextlib.nullcontext()
    with values, compiler.generate(case, target, run=not dry, deviceless=dry) as result:
        observed = ObservedCapture.of(result.capture)
        estimates = each_call(observed, speeds)
        if dry:
            return [row_of(case.name, [each]) for each in estimates], []
        if result.compiled is None:
            raise RuntimeError("the compiled function cannot be called here")
        import torch

        arguments, compiled = copy_to(case.build(), torch.device(target.device)), result.compiled
        events = kernel_times.traced(lambda: compiled(**arguments))
        if not kernel_times.turns(events):
            cold, warm = kernel_times.whole_us(lambda: compiled(**arguments))
            timed = [kernel_times.Timed(list(range(len(estimates))), cold, warm)]
            problems = ["the profiler saw nothing of the device: timed as a whole"]
        else:
            timed, problems = kernel_times.times(events, observed.calls)
    rows = []
    for each in timed:
        row = row_of(case.name, [estimates[number] for number in each.calls])
        row.cold, row.warm, row.samples, row.events = each.cold_us, each.warm_us, each.cold, each.events
        rows.append(row)
    return rows, problems


def measure_all(
    cases: Sequence[Case], compiler: Compiler, target: Target, speeds: Speeds, *, dry: bool, seconds: float
) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    remarks: list[str] = []
    start = time.perf_counter()
    for case in cases:
        began = time.perf_counter()
        if began - start > seconds:
            remarks.append(f"{case.name}: left out after {seconds:g} s")
            continue
        try:
            own, problems = measured(compiler, case, target, speeds, dry=dry)
        except Exception as error:  # noqa: BLE001 - one function must not lose the others
            last = traceback.extract_tb(error.__traceback__)[-1]
            remarks.append(f"{case.name}: {type(error).__name__} ({last.filename}:{last.lineno}): {error}")
            print(f"  failed: {case.name}", flush=True)
            continue
        rows += own
        remarks += [f"{case.name}: {problem}" for problem in problems]
        print(f"  {time.perf_counter() - began:5.1f} s  {case.name}: {len(own)} rows", flush=True)
    return rows, remarks


# Reports --------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> list[str]:
    """A line for each row, the longest first: measured, estimated, their ratio, and what the estimate comes from."""
    faults: Counter[int] = Counter(id(row) for pair in wrong_pairs(rows)[1] for row in pair)
    titles = f"{'cold µs':>9} {'warm µs':>9} {'least µs':>9} {'ratio':>6} {'wrong':>5} {'MB':>8} {'GFLOP':>8}"
    lines = [f"{titles}  {'bound':12} function: call"]
    for row in sorted(rows, key=lambda row: (-row.cold, -row.us)):
        ratio = f"{row.cold / row.us:6.2f}" if row.cold else f"{'':6}"
        lines.append(
            f"{row.cold:9.1f} {row.warm:9.1f} {row.us:9.1f} {ratio} {faults[id(row)]:5d} {row.moved / 1e6:8.1f} "
            f"{sum(row.operations.values()) / 1e9:8.2f}  {row.bound:12} {row.function}: {row.name[:70]} ({row.call})"
        )
    return lines


def summary(rows: Sequence[Row]) -> tuple[float, list[str]]:
    """The share of pairs in order, and lines: both shares, the median ratio of each bound, and the worst pairs."""
    lines = []
    shares = {}
    for which in ("cold", "warm"):
        count, wrong = wrong_pairs(rows, which)
        shares[which] = 1 - len(wrong) / count if count else 1.0
        cache = "an empty" if which == "cold" else "a filled"
        lines.append(
            f"with {cache} cache: {shares[which]:.1%} of {count} pairs that differ by more than "
            f"{DIFFERENT - 1:.0%} are in order, {len(wrong)} are not"
        )
    for kind in sorted({(row.call, row.bound) for row in rows}):
        ratios = sorted(row.cold / row.us for row in rows if (row.call, row.bound) == kind)
        lines.append(
            f"measured / least of {kind[0]}, bound by {kind[1]}: {ratios[0]:.2f} to {ratios[-1]:.2f}, "
            f"median {ratios[len(ratios) // 2]:.2f}, {len(ratios)} rows"
        )
    worst = wrong_pairs(rows)[1][:_WORST]
    lines += ["worst pairs (the first took longer, its estimate is not longer):"] if worst else []
    for slow, fast in worst:
        lines.append(
            f"  {slow.cold:8.1f} > {fast.cold:8.1f} µs, estimated {slow.us:8.1f} <= {fast.us:8.1f}: "
            f"{slow.function}: {slow.name[:40]} | {fast.function}: {fast.name[:40]}"
        )
    return shares["cold"], lines


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help=f"do all but the timing, for {DRY_TARGET}")
    parser.add_argument("-k", default="", dest="part", metavar="TEXT", help="only functions with this in their name")
    parser.add_argument("--product", default="", metavar="NAME", help="of speeds.toml; default: by the device's name")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"begin nothing later; default: {SECONDS:g}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows")
    wanted = parser.parse_args(arguments)
    cases = [
        each
        for name, function in vars(estimate_functions).items()
        for each in (function.cases if name.startswith("test_") else [])
        if wanted.part in each.name
    ]
    if not cases:
        parser.error(f"no function has {wanted.part!r} in its name")
    if not wanted.dry_run:
        prepare(GPUS)  # no device is pretended while something is timed
    with contextlib.closing(compiler_here()) as compiler:
        target = compiler.target(DRY_TARGET) if wanted.dry_run else select_target(compiler.machine, "cuda", None, 1)
        compiler.set_up_torch()
        import torch

        device = "none" if wanted.dry_run else torch.cuda.get_device_name()
        speeds = _speeds(target, wanted.product, device)
        about = {"target": target.name, "device": device, "product": speeds.product, "torch": torch.__version__}
        print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
        rows, remarks = measure_all(cases, compiler, target, speeds, dry=wanted.dry_run, seconds=wanted.seconds)
    print("\n".join(table(rows)))
    share, lines = (1.0, []) if wanted.dry_run or not rows else summary(rows)
    print("\n".join([*lines, *(f"remark: {each}" for each in remarks)]))
    if wanted.json:
        data: dict[str, Any] = {"about": about, "share": share, "rows": [dataclasses.asdict(row) for row in rows]}
        wanted.json.write_text(json.dumps({**data, "remarks": remarks}, indent=1), encoding="utf-8")
    return int(share < GOAL or not rows)


def _speeds(target: Target, product: str, device: str) -> Speeds:
    """The product that is asked for, or the one with a word of the device's name, or the first."""
    if product:
        return speeds_of(target, product)
    for word in device.split():
        with contextlib.suppress(SpeedsError):
            if any(letter.isdigit() for letter in word):
                return speeds_of(target, word)
    return speeds_of(target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
