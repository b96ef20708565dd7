"""Measures what the sweep costs beside a bare loop of code generation, for the same cases in one run.

    python benchmarks/sweep.py                              # every 10th entry of op_db in f32, on cuda_sm90
    python benchmarks/sweep.py --every 1 --target xpu_pvc   # all of them
    python benchmarks/sweep.py --pytest                     # also the whole sweep of f32, as a user starts it

`suite` is an item as pytest runs it with `--checks requirements,code`: capture, facts, text, comparison with what is
stored, the record of the run. `bare` generates the code of the same case with the same isolation and records nothing;
overhead.py describes both, and how they are timed: CPU seconds, of all threads and child processes. The machine's load
is printed, because on a machine that others use, caches and hyper-threads cost CPU time too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import overhead

from conformance.cases import run_values
from conformance.cases.case import Case
from conformance.cases.lookup import cases_below
from conformance.cases.roots import SWEEP
from conformance.cases.run_values import SampleSelection

CHECKS = ("requirements", "code")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda_sm90", help="the target (default: cuda_sm90)")
    parser.add_argument("--dtype", default="f32", help="the dtype (default: f32)")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="every N-th entry (default: 10)")
    parser.add_argument("--repeat", type=int, default=1, help="rounds that count (default: 1)")
    parser.add_argument("--pytest", action="store_true", help="also time the whole sweep with two workers")
    options = parser.parse_args()
    print(f"load before: {_load()}")
    session = overhead.start_session(CHECKS)
    target = session.machine.targets()[options.target]
    cases = sweep_cases(options.dtype)[:: options.every]
    cases = overhead.first_round(session, cases, target)
    times = overhead.measure(session, cases, target, options.repeat, cold=False)
    print(overhead.table(overhead.rows(session, target, cases, times)))
    for variant in ("suite", "bare"):
        print(f"{variant}: {sum(each[variant].cpu for each in times.values()):.1f} CPU s for {len(times)} cases")
    ratio = sum(each["suite"].cpu for each in times.values()) / sum(each["bare"].cpu for each in times.values())
    print(f"ratio of CPU seconds: {ratio:.3f}; load after: {_load()}")
    return whole_sweep(options.target, options.dtype) if options.pytest else 0


def sweep_cases(dtype: str) -> list[Case]:
    """The first sample of each entry in this dtype."""
    run_values.use(selection=SampleSelection(dtypes=(dtype,)))
    return cases_below([SWEEP / "test_opinfo.py"])


def whole_sweep(target: str, dtype: str) -> int:
    """Runs the sweep with two workers, and prints its seconds."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "pytest", "-p", "conformance.plugin", "--pyargs", "conformance.sweep", "-q"]
        command += ["-n", "2", "--target", target, "--dtypes", dtype, "--checks", ",".join(CHECKS), "--tb=no"]
        command += ["-p", "no:cacheprovider", "--store", store]
        before, start = os.times(), time.perf_counter()
        status = subprocess.run(command, env=os.environ | {"EXPECTTEST_ACCEPT": "new"}, check=False).returncode
        after, seconds = os.times(), time.perf_counter() - start
    cpu = sum(after[2:4]) - sum(before[2:4])
    print(f"pytest: {cpu:.0f} CPU s, {seconds:.0f} s; load: {_load()}")
    return status


def _load() -> str:
    return " ".join(f"{each:.1f}" for each in os.getloadavg()) + f" on {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
