"""Accepting that is killed: 2,000 texts by 8 workers, SIGKILL at a random moment of 50 runs, and a last run to the end.

    python benchmarks/store_kill.py [--runs 50] [--cases 250] [--folder FOLDER]

A run is what pytest's is: workers write items into a run's folder, then one process accepts them all; every third time
two such runs at once. After each, every file must be whole, and every text the one of that run or of an earlier one,
never older than it was. Takes about four minutes; exit status 1 at the first text that is torn, lost or older.
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
    """Long enough to be torn; what it says of itself stands in each part."""
    said = f"case {case} {target} round {number}"
    kernels = [f"# kernel k{each}\n" + f"{said}\n" * 20 for each in range(3)]
    return "\n".join([f"kernels     {said}\n", "--- inference\n" + "\n".join(kernels), f"def call(args):\n    {said}"])


def work(root: Path, number: int, worker: int, cases: int) -> None:
    run = Run(root / f"run{number}")
    for each in range(worker, cases * len(TARGETS), WORKERS):
        case, target = divmod(each, len(TARGETS))
        content = text(case, TARGETS[target], number)
        store = str(root / "expected_code")
        run.write_item(
            ItemRecord(f"op{case % 7}/case{case}", TARGETS[target], "deviceless", "2.13.0", store, text=content)
        )


def one_run(root: Path, number: int, cases: int) -> None:
    """What a process of its own does, with workers."""
    Run(root / f"run{number}").begin({})
    workers = [multiprocessing.Process(target=work, args=(root, number, w, cases)) for w in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    accepted = accept_snapshots(Run(root / f"run{number}").items(), "all", TARGETS)
    print("\n".join(accepted.lines()), flush=True)
    sys.exit(bool(accepted.problems))


def started(root: Path, number: int, cases: int) -> subprocess.Popen:
    command = [sys.executable, __file__, "--one", str(number), "--folder", str(root), "--cases", str(cases)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)


def must(holds: bool, said: str) -> None:
    if not holds:
        sys.exit(f"error: {said}")


def check(root: Path, cases: int, known: dict[tuple[str, str], int], newest: int) -> Counter[int]:
    """Which run each text is of. Ends the process at the first that is torn, lost or older than in `known`."""
    store = Store(root / "expected_code", TARGETS)
    seen: Counter[int] = Counter()
    for case in range(cases):
        name = f"op{case % 7}/case{case}"
        snapshot = store.read(name)  # raises for a torn file
        for target in TARGETS:
            found = snapshot.text("2.13", target) if snapshot else None
            if found is None:
                must((name, target) not in known, f"{name} {target}: lost")
                continue
            number = int(found.split("round ", 1)[1].split()[0])
            must(found == text(case, target, number) + "\n", f"{name} {target}: torn")
            must(known.get((name, target), 0) <= number <= newest, f"{name} {target}: older than it was")
            known[name, target] = number
            seen[number] += 1
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cases", type=int, default=250)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        one_run(arguments.folder, arguments.one, arguments.cases)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        _all_runs(Path(folder), arguments.runs, arguments.cases)


def _all_runs(root: Path, runs: int, cases: int) -> None:
    chance, known, phases = random.Random(4), {}, Counter()
    start = time.monotonic()
    started(root, 0, cases).communicate()
    whole = time.monotonic() - start
    check(root, cases, known, 0)
    for number in range(1, runs + 1):
        processes = [started(root, number, cases)]
        if number % 3 == 0:
            processes.append(started(root, number - 1, cases))  # an earlier one is repeated beside it
        time.sleep(chance.uniform(0.1, 1.1) * whole)
        for process in processes:
            ended = process.poll() is not None
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            phases["ended before" if ended else "killed"] += 1
        older = {key: min(value, number - 1) for key, value in known.items()} if number % 3 == 0 else known
        seen = check(root, cases, older, number)
        known.update(older)
        phases["while storing"] += 0 < seen[number] < sum(seen.values())
    said, _ = started(root, runs + 1, cases).communicate()
    seen = check(root, cases, known, runs + 1)
    left = [path for path in (root / "expected_code").rglob("*") if path.is_file() and path.suffix != ".txt"]
    must(seen == {runs + 1: cases * len(TARGETS)}, f"the last run did not complete: {seen}")
    must([path.name for path in left] in ([], [".lock"]), f"left behind: {left}")
    print(f"{runs} runs, {cases * len(TARGETS)} texts: {dict(phases)}; none torn, none lost")
    print(f"last run: {said.strip()}")


if __name__ == "__main__":
    main()
