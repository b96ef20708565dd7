"""Runs the suite of an earlier commit and of this one side by side, and says where the CPU time goes.

    python benchmarks/suite.py --before dea4066                                       # everything, two workers
    python benchmarks/suite.py --before HEAD~3 -- --device cpu conformance/ops/test_softmax.py
    python benchmarks/suite.py --repeat 2 -- --target cuda_sm90                       # this commit alone

Each commit is checked out into a temporary folder and gets a cache folder of its own, in which only the pretended
device is built: a first run of one case builds it, and is not counted. Then it runs `--repeat` times: the first time
nothing is compiled, later times everything is. Times are CPU seconds (user and system) of pytest, of its workers and of
the compiler, and wall seconds. What follows `--` goes to pytest.

The table has a row for each part (see suite_shares.py); its seconds are those of all workers together. "start and
pytest" is what is left: imports, collecting, reports. Run it while nothing else runs: CPU time too depends on that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Times:
    """Seconds. `last`: the last line of pytest."""

    cpu: float
    wall: float
    parts: Counter[str]
    last: str


def run(checkout: Path, cache: Path, arguments: list[str], workers: int) -> Times:
    with tempfile.TemporaryDirectory() as shares:
        environment = os.environ | {
            "PYTHONPATH": f"{checkout}{os.pathsep}{HERE}",
            "CONFORMANCE_CACHE": str(cache),
            "SUITE_SHARES": shares,
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "suite_shares", "-W", "ignore"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.run(
            [*command, "-n", str(workers), *arguments],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        parts: Counter[str] = Counter()
        for path in Path(shares).glob("*.json"):
            parts.update(json.loads(path.read_text(encoding="utf-8")))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    parts["start and pytest"] = parts.pop("process", 0.0) - sum(
        seconds for part, seconds in parts.items() if part not in ("process", "C++ compiler")
    )
    lines = process.stdout.strip().splitlines()
    return Times(cpu, end - start, parts, lines[-1] if lines else process.stderr[-300:])


def measure(revision: str, folder: Path, options: argparse.Namespace) -> list[Times]:
    """The times of each run of a commit. `revision`: "" for the working tree."""
    checkout = ROOT
    if revision:
        checkout = folder / "checkout"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "-f", checkout, revision], check=True)
    try:
        cache = folder / "cache"
        cache.mkdir()
        run(checkout, cache, ["--target", "cuda_sm90", "-k", "mean_of_20", "conformance/ops/test_smooth_l1_loss.py"], 1)
        for compiled in cache.glob("torch-*"):
            shutil.rmtree(compiled)
        return [run(checkout, cache, options.pytest, options.workers) for _ in range(options.repeat)]
    finally:
        if revision:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", checkout], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="the commit to compare with")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each commit; the first one compiles (default 2)")
    parser.add_argument("--workers", type=int, default=2, help="workers of pytest-xdist (default 2)")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    options = parser.parse_args()
    names = {"this": ""} if options.before is None else {"before": options.before, "this": ""}
    results: dict[str, list[Times]] = {}
    for name, revision in names.items():
        with tempfile.TemporaryDirectory(prefix="conformance-suite-") as folder:
            results[name] = measure(revision, Path(folder), options)
    columns = {f"{name}, run {number}": each for name, runs in results.items() for number, each in enumerate(runs, 1)}
    print(f"| CPU seconds | {' | '.join(columns)} |")
    print(f"|---|{'---:|' * len(columns)}")
    for part in dict.fromkeys(part for each in columns.values() for part in each.parts):
        print(f"| {part} | {' | '.join(f'{each.parts[part]:.0f}' for each in columns.values())} |")
    print(f"| **all** | {' | '.join(f'{each.cpu:.0f}' for each in columns.values())} |")
    print(f"| wall seconds | {' | '.join(f'{each.wall:.0f}' for each in columns.values())} |")
    for name, each in columns.items():
        print(f"\n{name}: {each.last}")


if __name__ == "__main__":
    main()
