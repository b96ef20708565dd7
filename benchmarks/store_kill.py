"""Kills accepting: 50 runs of 8 workers and 2,000 texts get SIGKILL at a random moment. A last run is not killed.

    python benchmarks/store_kill.py [--runs 50] [--cases 250] [--folder FOLDER]

Each run works as pytest's: workers write items into the folder of a run, then one process accepts them. Every third
time, two runs work at once. After each run, every file must be complete, and every text must be of that run, or the
text that was stored before it. Takes about four minutes. Exit status 1: a text is incomplete, lost, or older than
before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.devices.targets import targets
from conformance.storage.accept import accept_snapshots
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Store

WORKERS = 8
TARGETS = list(targets())[:WORKERS]


def text(case: int, target: str, number: int) -> str:
    """Returns a text that names its case, target and run in every part, so that a mix of two texts is detected."""
    label = f"case {case} {target} round {number}"
    kernels = [f"# kernel k{each}\n" + f"{label}\n" * 20 for each in range(3)]
    return "\n".join(
        [f"kernels     {label}\n", "--- inference\n" + "\n".join(kernels), f"def call(args):\n    {label}"]
    )


def write_items(root: Path, number: int, worker: int, cases: int) -> None:
    """Writes the items of one worker."""
    run = Run(root / f"run{number}")
    for each in range(worker, cases * len(TARGETS), WORKERS):
        case, target = divmod(each, len(TARGETS))
        content = text(case, TARGETS[target], number)
        store = str(root / "expected_code")
        run.write_item(
            ItemRecord(f"op{case % 7}/case{case}", TARGETS[target], "deviceless", "2.13.0", store, text=content)
        )


def run_and_accept(root: Path, number: int, cases: int) -> None:
    """Starts the workers, then accepts their items. Runs in a process that may be killed."""
    Run(root / f"run{number}").begin({})
    workers = [multiprocessing.Process(target=write_items, args=(root, number, w, cases)) for w in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    accepted = accept_snapshots(Run(root / f"run{number}").items(), "all", TARGETS)
    print("\n".join(accepted.lines()), flush=True)
    sys.exit(bool(accepted.problems))


def start_run(root: Path, number: int, cases: int) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--one", str(number), "--folder", str(root), "--cases", str(cases)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)


def require(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(f"error: {message}")


def check(root: Path, cases: int, known: dict[tuple[str, str], int], newest: int) -> Counter[int]:
    """Returns how many texts are of each run. Exits if a text is incomplete, lost, or older than in `known`."""
    store = Store(root / "expected_code", TARGETS)
    texts_of_run: Counter[int] = Counter()
    for case in range(cases):
        name = f"op{case % 7}/case{case}"
        snapshot = store.read(name)  # raises for an incomplete file
        for target in TARGETS:
            stored = snapshot.text("2.13", target) if snapshot else None
            if stored is None:
                require((name, target) not in known, f"{name} {target}: lost")
                continue
            number = int(stored.split("round ", 1)[1].split()[0])
            require(stored == text(case, target, number) + "\n", f"{name} {target}: incomplete or mixed")
            require(known.get((name, target), 0) <= number <= newest, f"{name} {target}: older than before")
            known[name, target] = number
            texts_of_run[number] += 1
    return texts_of_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cases", type=int, default=250)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        run_and_accept(arguments.folder, arguments.one, arguments.cases)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        _all_runs(Path(folder), arguments.runs, arguments.cases)


def _all_runs(root: Path, runs: int, cases: int) -> None:
    chance, phases = random.Random(4), Counter[str]()
    known: dict[tuple[str, str], int] = {}
    start = time.monotonic()
    start_run(root, 0, cases).communicate()
    duration = time.monotonic() - start
    check(root, cases, known, 0)
    for number in range(1, runs + 1):
        processes = [start_run(root, number, cases)]
        if number % 3 == 0:
            processes.append(start_run(root, number - 1, cases))  # repeats the run before at the same time
        time.sleep(chance.uniform(0.1, 1.1) * duration)
        for process in processes:
            ended = process.poll() is not None
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            phases["already ended" if ended else "killed"] += 1
        older = {key: min(value, number - 1) for key, value in known.items()} if number % 3 == 0 else known
        counts = check(root, cases, older, number)
        known.update(older)
        phases["while storing"] += 0 < counts[number] < sum(counts.values())
    report, _ = start_run(root, runs + 1, cases).communicate()
    counts = check(root, cases, known, runs + 1)
    left = [path for path in (root / "expected_code").rglob("*") if path.is_file() and path.suffix != ".txt"]
    require(counts == {runs + 1: cases * len(TARGETS)}, f"the last run did not complete: {counts}")
    require([path.name for path in left] in ([], [".lock"]), f"left behind: {left}")
    print(f"{runs} runs, {cases * len(TARGETS)} texts: {dict(phases)}; none incomplete, none lost")
    print(f"last run: {report.strip()}")


if __name__ == "__main__":
    main()
