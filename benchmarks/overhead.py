"""Measures what the harness adds to compiling: the suite beside bare loops, for the same cases in one run.

    python benchmarks/overhead.py                                      # a sample of all operators, three targets
    python benchmarks/overhead.py --cold --targets cpu_avx2 --repeat 1 --cases 'mm/*bf16*'
    python benchmarks/overhead.py --cases 'mm/*' --targets cuda_sm90 --repeat 5
    python benchmarks/overhead.py --sample 1                           # one case of each test function
    python benchmarks/overhead.py --json overhead.json --profile cuda_sm90

For each target, these variants run the same cases in turns. A first round fills the caches of compiled objects and is
not counted.

    suite     an item, as the plugin runs it: capture, facts, text, numerics with special values, requirements,
              comparison with the snapshot, the record of the run; without the time of pytest itself
    bare      natively: torch.compile, one call and one torch.testing.assert_close against eager, with gradients;
              deviceless: code is generated with the same isolation and pretended device, and nothing is recorded
    emulated  only deviceless: the suite with emulation, which runs the code on the CPU. No bare loop does that, so the
              column has no counterpart, and `suite` leaves emulation out

All switch torch's FX-graph caches off, compile in this process, and reset Dynamo for each case: otherwise cases that
share a function would become dynamic or stop compiling. The suite leaves out texts that torch makes for logs
(capture/unread.py), and collects garbage less often (compiler/garbage_collection.py). The bare loop does neither, as a
user's own loop would not. Times are CPU seconds (user and system, this process and its
children) and wall seconds: for each case and variant the median over the rounds, then the mean over the cases.
On a machine that others use too, run it with `taskset` on one core: threads that wait for each other use CPU time.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import dataclasses
import fnmatch
import gc
import json
import os
import pstats
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.capture import invoke
from conformance.capture.isolation import isolated
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.wrappers.unloaded import generate_module
from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import OPS
from conformance.compiler.case_request import program_of
from conformance.containers import copy_to
from conformance.devices.machine import Machine
from conformance.devices.targets import Target
from conformance.harness.item.checks import Item
from conformance.harness.session import Session
from conformance.normalize.rules import apply_rules
from conformance.settings import Settings
from conformance.storage.accept import accept_snapshots
from conformance.storage.runs import Run
from conformance.storage.snapshots import Store

#: Default of --sample.
SAMPLED = 3
#: Python's own, read before the session sets others.
USUAL_THRESHOLDS = gc.get_threshold()


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds."""

    cpu: float
    wall: float


class Watch:
    """A reporter that reports nothing: a check that fails raises, and ends the benchmark."""

    @contextlib.contextmanager
    def check(self, name: str) -> Iterator[None]:
        try:
            yield
        except _SkippedError:
            if name != "numerics":
                raise

    def skip(self, reason: str) -> NoReturn:
        raise _SkippedError(reason)

    known = skip

    def note(self, name: str, value: str) -> None:
        """Fails: with --fresh, no numerics are left out."""
        raise AssertionError(f"{name}: {value}")


class _SkippedError(Exception):
    pass


class BenchmarkSession(Session):
    """A session with a store of its own: the benchmark accepts into it in its first round."""

    snapshots: Store

    def store(self, case: Case) -> Store:  # noqa: ARG002 - one store for all
        return self.snapshots


def time_call(function: Callable[[], Any]) -> Times:
    before, start = os.times(), time.perf_counter()
    function()
    after, end = os.times(), time.perf_counter()
    return Times(sum(after[:4]) - sum(before[:4]), end - start)


def bare_native(case: Case, target: Target) -> None:
    """What a user would type: compile, call, compare."""
    import torch
    from torch._functorch import config as functorch_config
    from torch._inductor import config

    options = {"fx_graph_cache": False, "fx_graph_remote_cache": False, "compile_threads": 1, **case.config}
    torch.compiler.reset()
    with config.patch(options), functorch_config.patch(enable_autograd_cache=False):
        results = []
        for function in (case.fn, torch.compile(case.fn, dynamic=case.dynamic)):
            arguments = copy_to(case.build(), torch.device(target.device))
            output = function(**arguments)
            inputs = [arguments[name] for name in case.grad]
            gradients = torch.autograd.grad(output, inputs, torch.ones_like(output)) if inputs else ()
            results.append((output, *gradients))
        with contextlib.suppress(
            AssertionError
        ):  # it compares with eager instead of float64, so eager's rounding can fail it
            torch.testing.assert_close(*results, equal_nan=True)
    torch.compiler.reset()


def bare_deviceless(case: Case, target: Target) -> None:
    """Generates code without the device and records nothing."""
    import torch

    where = "torch._inductor.graph:GraphLowering.compile_to_module"
    generate = Patch(where, lambda _: generate_module, "nothing is compiled or loaded")
    with isolated(target, "deviceless", dict(case.config)), applied([generate]):
        invoke.call(program_of(case, target), torch.compile(case.fn, dynamic=case.dynamic), target.device)


def select_cases(patterns: Sequence[str], most: int = SAMPLED) -> list[Case]:
    """The cases that match the patterns; without patterns, at most `most` of each test function, evenly spread."""
    cases = cases_below([OPS])
    if patterns:
        return [case for case in cases if any(fnmatch.fnmatch(case.id, pattern) for pattern in patterns)]
    functions: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        functions[case.operator, case.name].append(case)
    chosen = []
    for found in functions.values():
        step = max(1, (len(found) - 1) // max(1, most - 1))
        chosen += found[::step][:most]
    return chosen


def start_session(checks: Sequence[str] | None = None) -> BenchmarkSession:
    """Starts a session, and prepares this process before torch is imported."""
    folder = Path(tempfile.mkdtemp(prefix="conformance-overhead-"))
    # The bare variant emulates nothing either, runs everything, and compiles for each target.
    settings = Settings(emulation=False, fresh=True, captures="alone")
    settings = dataclasses.replace(settings, checks=tuple(checks)) if checks else settings
    session = BenchmarkSession(settings, Machine.detect(), Run(folder / "run"))
    session.run.begin({})
    session.snapshots = Store(folder / "expected_code", tuple(session.machine.targets()))
    session.prepare()
    session.set_up_torch()
    return session


def variants(session: BenchmarkSession, case: Case, target: Target) -> dict[str, Callable[[], None]]:
    native = session.mode(target) == "native"
    bare = bare_native if native else bare_deviceless
    found = {
        "suite": lambda: run_item(session, case, target),
        "bare": lambda: with_usual_collections(lambda: bare(case, target)),
    }
    if not native and target.device != "cpu" and "numerics" in session.settings.checks:
        found["emulated"] = lambda: emulated(session, case, target)
    return found


def with_usual_collections(function: Callable[[], None]) -> None:
    """Calls the function with Python's own settings of garbage collection."""
    before = gc.get_threshold()
    gc.set_threshold(*USUAL_THRESHOLDS)
    try:
        function()
    finally:
        gc.set_threshold(*before)


def emulated(session: BenchmarkSession, case: Case, target: Target) -> None:
    """The item with emulation. A known failure of emulation counts as it comes."""
    before = session.settings
    session.settings = dataclasses.replace(before, emulation=True)
    try:
        run_item(session, case, target)
    finally:
        session.settings = before


def run_item(session: BenchmarkSession, case: Case, target: Target) -> None:
    """Runs the item. Forgets normalised texts first: in a run of the suite, the item has not been seen before."""
    apply_rules.cache_clear()
    Item(session, case, target).run(Watch())


def first_error(*functions: Callable[[], None]) -> str:
    """The message of the first function that raises; "" if none does."""
    try:
        for function in functions:
            function()
    except Exception as error:  # noqa: BLE001 - any error leaves the case out
        return str(error)
    return ""


def first_round(session: BenchmarkSession, cases: list[Case], target: Target) -> list[Case]:
    """Fills the caches on disk and stores the snapshots. Returns the cases that compile for the target."""
    session.settings = dataclasses.replace(session.settings, accept="all")
    good = []
    for case in cases:
        if problem := first_error(*variants(session, case, target).values()):
            print(f"left out: {case.id} for {target.name}: {problem[:100]!r}", file=sys.stderr)
        else:
            good.append(case)
    records = [session.run.item(case.id, target.name) for case in good]
    for record in records:
        record.store = str(session.snapshots.root)
    accept_snapshots(records, "all", list(session.machine.targets()))
    session.settings = dataclasses.replace(session.settings, accept="")
    return good


def measure(
    session: BenchmarkSession, cases: list[Case], target: Target, repeat: int, cold: bool
) -> dict[str, dict[str, Times]]:
    """Case → variant → its median times. The variants take turns, and so does which of them is first."""
    from torch._inductor.utils import fresh_cache

    found: dict[str, dict[str, list[Times]]] = defaultdict(lambda: defaultdict(list))
    for number in range(repeat):
        for case in cases:
            pairs = list(variants(session, case, target).items())
            for name, variant in pairs if number % 2 else reversed(pairs):
                with fresh_cache() if cold else contextlib.nullcontext():
                    found[case.id][name].append(time_call(variant))
    return {
        case: {
            name: Times(statistics.median(t.cpu for t in times), statistics.median(t.wall for t in times))
            for name, times in by_variant.items()
        }
        for case, by_variant in found.items()
    }


def rows(
    session: Session, target: Target, cases: list[Case], times: dict[str, dict[str, Times]]
) -> list[dict[str, Any]]:
    """A row for the forward cases, and one for those with a backward."""
    out = []
    for backward in (False, True):
        group = [times[case.id] for case in cases if bool(case.grad) == backward]
        if not group:
            continue
        mean = {
            f"{variant}_{kind}": statistics.fmean(getattr(each[variant], kind) for each in group)
            for variant in group[0]
            for kind in ("cpu", "wall")
        }
        direction = "forward and backward" if backward else "forward"
        row = {"target": target.name, "mode": session.mode(target), "cases": len(group), "direction": direction}
        out.append(row | mean | {"added": 100 * (mean["suite_cpu"] / mean["bare_cpu"] - 1)})
    return out


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        (
            "| target | how | what | cases | suite, CPU s | bare, CPU s | added | suite, wall s | bare, wall s "
            "| emulated, CPU s |"
        ),
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['target']} | {row['mode']} | {row['direction']} | {row['cases']} | {row['suite_cpu']:.3f} | "
        f"{row['bare_cpu']:.3f} | {row['added']:+.0f} % | {row['suite_wall']:.3f} | {row['bare_wall']:.3f} | "
        + (f"{row['emulated_cpu']:.3f} |" if "emulated_cpu" in row else "|")
        for row in found
    ]
    for mode in dict.fromkeys(row["mode"] for row in found):
        group = [row for row in found if row["mode"] == mode]
        suite, bare = (sum(row[f"{variant}_cpu"] * row["cases"] for row in group) for variant in ("suite", "bare"))
        lines.append(
            f"| **all {mode}** | | | {sum(row['cases'] for row in group)} | | "
            f"| {100 * (suite / bare - 1):+.0f} % | | | |"
        )
    return "\n".join(lines)


def print_profile(session: BenchmarkSession, cases: list[Case], target: Target) -> None:
    """Prints a profile of the suite's time to stderr."""
    profile = cProfile.Profile(time.process_time)
    for case in cases:
        profile.runcall(variants(session, case, target)["suite"])
    pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(r"conformance|print_readable", 45)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", action="append", default=[], metavar="PATTERN", help="only case ids that match")
    parser.add_argument("--sample", type=int, default=SAMPLED, metavar="N", help="cases of each test function, at most")
    parser.add_argument(
        "--targets", default="cpu_avx2,cuda_sm90,xpu_pvc", metavar="LIST", help="targets, comma-separated"
    )
    parser.add_argument("--repeat", type=int, default=3, help="rounds that count")
    parser.add_argument("--cold", action="store_true", help="build compiled objects again each time, as in CI")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--profile", metavar="TARGET", help="print a profile of the suite's time instead")
    options = parser.parse_args(arguments)
    session = start_session()
    known = session.machine.targets()
    names = [options.profile] if options.profile else options.targets.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown target {unknown[0]!r}; known are {', '.join(known)}")
    cases = select_cases(options.cases, options.sample)
    found = []
    for target in (known[name] for name in names):
        good = first_round(session, cases, target)
        if options.profile:
            print_profile(session, good, target)
            continue
        found += rows(session, target, good, measure(session, good, target, options.repeat, options.cold))
    if found:
        print(table(found))
    if options.json:
        about = {"torch": session.torch, "repeat": options.repeat, "cold": options.cold, "rows": found}
        options.json.write_text(json.dumps(about, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
