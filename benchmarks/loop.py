"""Prints how long a person waits, each figure beside a limit or beside an earlier commit, measured in the same run.

    python benchmarks/loop.py                              # this checkout
    python benchmarks/loop.py --before 1eadd618            # and an earlier commit
    python benchmarks/loop.py --only one-shot --repeat 9
    python benchmarks/loop.py --only cold --cold 16        # on a machine with 16 cores

- one-shot: one warm item, and `show`, beside a script with nothing but torch.compile on the cpu. Run in turns; medians
  of the ratios of each turn, of CPU seconds (user and system) and of the clock.
- collection: `pytest --collect-only` of all items.
- doctor: with an empty cache.
- time-left: what the progress says at 10, 50 and 90 % of a run with an empty cache, by what is then really left.
- cold: a file of about 20 cases on cuda_sm90 and cpu_avx512, with an empty cache.
- watch: from saving a file to the answer; see loop_watch.py.

`--before` checks the commit out into a temporary folder. Other work on the machine disturbs seconds more than ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

BARE = """
import torch
@torch.compile
def f(x): return x.flip(-1)
print(f(torch.randn(3, 4)))
"""
#: A file that takes about three minutes with an empty cache on two cores, and one of about 20 cases.
COLD_RUN = ("conformance/ops/test_pool.py", "conformance/ops/test_var.py")
COLD_FILE = "conformance/ops/test_pool.py"
COLD_TARGETS = "cuda_sm90,cpu_avx512"
#: At these shares of a run, the time left is compared with the real one.
SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Seconds:
    cpu: float
    wall: float


@dataclass(frozen=True)
class Checkout:
    """A checkout of the suite. `cache`: a folder for its runs that find everything compiled."""

    name: str
    folder: Path
    cache: Path

    def run(self, *words: str, cache: Path | None = None, **variables: str) -> Seconds:
        """Runs Python with these words. Exits with its output where it fails."""
        environment = os.environ | variables
        environment["PYTHONPATH"] = f"{self.folder}{os.pathsep}{HERE}"
        environment["CONFORMANCE_CACHE"] = str(cache or self.cache)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, pytest compiles each module of the plugin anew
        before, start = _cpu_of_children(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        seconds = Seconds(_cpu_of_children() - before, time.perf_counter() - start)
        if done.returncode:
            sys.exit(f"{self.name}: python {' '.join(words)} ended with status {done.returncode}\n{done.stdout[-2000:]}"
                     f"{done.stderr[-2000:]}")  # fmt: skip
        return seconds

    def pytest(self, *words: str, cache: Path | None = None, **variables: str) -> Seconds:
        return self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *words, cache=cache, **variables)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def one_shot(checkouts: Sequence[Checkout], options: argparse.Namespace) -> Iterator[str]:
    def shots(checkout: Checkout) -> dict[str, Callable[[], Seconds]]:
        found: dict[str, Callable[[], Seconds]] = {}
        for target in ("cuda_sm90", options.cpu_target):
            node_id = f"conformance/ops/test_flip.py::test_hflip[224-f32-contiguous-{target}]"
            words = ("-m", "conformance", "show", "flip/hflip-224-f32-contiguous", "--target", target)
            found[f"item on {target}, {checkout.name}"] = lambda node_id=node_id: checkout.pytest(node_id)
            found[f"show for {target}, {checkout.name}"] = lambda words=words: checkout.run(*words)
        return found

    runs = {name: run for checkout in checkouts for name, run in shots(checkout).items()}
    runs["bare script"] = lambda: checkouts[0].run("-c", BARE)
    for run in runs.values():
        run()  # compiles
    times: dict[str, list[Seconds]] = {name: [] for name in runs}
    for _ in range(options.repeat):
        for name, run in runs.items():
            times[name].append(run())
    for name, values in times.items():
        ratios = [
            statistics.median(part(one) / part(bare) for one, bare in zip(values, times["bare script"], strict=True))
            for part in (_cpu, _wall)
        ]
        yield f"{name}: {_seconds(values)}; {ratios[0]:.2f} times the bare script's CPU, {ratios[1]:.2f} its time"


def collection(checkouts: Sequence[Checkout], options: argparse.Namespace) -> Iterator[str]:
    times: dict[str, list[Seconds]] = {checkout.name: [] for checkout in checkouts}
    for number in range(options.repeat + 1):
        for checkout in checkouts:
            taken = checkout.pytest("--collect-only")
            if number:  # the first run compiles Python's files
                times[checkout.name].append(taken)
    yield from _beside_before("collecting all items", times)


def doctor(checkouts: Sequence[Checkout], options: argparse.Namespace) -> Iterator[str]:
    times: dict[str, list[Seconds]] = {checkout.name: [] for checkout in checkouts}
    for _ in range(min(options.repeat, 2)):
        for checkout in checkouts:
            with tempfile.TemporaryDirectory() as cache:
                times[checkout.name].append(checkout.run("-m", "conformance", "doctor", cache=Path(cache)))
    yield from _beside_before("doctor, empty cache", times)


def time_left(checkouts: Sequence[Checkout], options: argparse.Namespace) -> Iterator[str]:
    for checkout in checkouts:
        with tempfile.TemporaryDirectory() as folder, _without_durations(checkout):
            record = Path(folder, "record.json")
            words = ("-p", "loop_progress", "-n", str(options.workers), *COLD_RUN)
            taken = checkout.pytest(*words, cache=Path(folder, "cache"), LOOP_PROGRESS=str(record))
            began, ended, samples = json.loads(record.read_text(encoding="utf-8"))
        parts = []
        for share in SHARES:
            at, said = min(samples, key=lambda sample: abs(sample[0] - began - share * (ended - began)))
            parts.append(f"{said:.0f} s said and {ended - at:.0f} s left at {share:.0%}")
        yield f"time left, {checkout.name}: {', '.join(parts)}; the run took {taken.wall:.0f} s"


@contextlib.contextmanager
def _without_durations(checkout: Checkout) -> Iterator[None]:
    """Lets a run know no durations, as in a new clone."""
    file = checkout.folder / ".conformance" / "durations.json"
    text = file.read_bytes() if file.exists() else None
    file.unlink(missing_ok=True)
    try:
        yield
    finally:
        if text is not None:
            file.write_bytes(text)


def cold(checkouts: Sequence[Checkout], options: argparse.Namespace) -> Iterator[str]:
    times: dict[str, list[Seconds]] = {}
    for checkout in checkouts:
        with tempfile.TemporaryDirectory() as cache:
            words = ("--target", COLD_TARGETS, "-n", str(options.cold or options.workers), COLD_FILE)
            times[checkout.name] = [checkout.pytest(*words, cache=Path(cache))]
    yield from _beside_before(f"{COLD_FILE} on {COLD_TARGETS}, empty cache", times)


def watch(_checkouts: Sequence[Checkout], _options: argparse.Namespace) -> Iterator[str]:
    if importlib.util.find_spec("loop_watch") is None:
        yield "watch: this checkout has no loop_watch.py"
        return
    import loop_watch

    for what, seconds, ratio in loop_watch.measure():
        yield f"watch, {what}: {seconds:.1f} s; {ratio:.2f} times the bare script's time"


def _beside_before(what: str, times: dict[str, list[Seconds]]) -> Iterator[str]:
    for name, values in times.items():
        yield f"{what}, {name}: {_seconds(values)}"
    if len(times) > 1:
        before, this = times.values()
        ratios = [statistics.median(map(part, this)) / statistics.median(map(part, before)) for part in (_cpu, _wall)]
        yield f"{what}: {ratios[0]:.2f} times the CPU seconds of before, {ratios[1]:.2f} times its time"


def _seconds(values: Sequence[Seconds]) -> str:
    return f"{statistics.median(map(_cpu, values)):.1f} CPU s, {statistics.median(map(_wall, values)):.1f} s"


def _cpu(seconds: Seconds) -> float:
    return seconds.cpu


def _wall(seconds: Seconds) -> float:
    return seconds.wall


PARTS = {
    "one-shot": one_shot,
    "collection": collection,
    "doctor": doctor,
    "time-left": time_left,
    "cold": cold,
    "watch": watch,
}


@contextlib.contextmanager
def _checkouts(before: str | None) -> Iterator[list[Checkout]]:
    with tempfile.TemporaryDirectory(prefix="conformance-loop-") as name:
        folder = Path(name)
        found = [Checkout("this", ROOT, folder / "cache")]
        if before is None:
            yield found
            return
        old = folder / "checkout"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "-f", old, before], check=True)
        try:
            yield [Checkout(f"before ({before})", old, folder / "cache-before"), *found]
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", old], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--repeat", type=int, default=5, help="turns of one-shot and collection (default 5)")
    parser.add_argument("--workers", type=int, default=2, help="workers of time-left and cold (default 2)")
    parser.add_argument("--cold", type=int, metavar="N", help="workers of cold")
    parser.add_argument("--cpu-target", default="cpu_avx2", help="a cpu target of this machine (default cpu_avx2)")
    options = parser.parse_args()
    with _checkouts(options.before) as checkouts:
        for name in options.only or PARTS:
            for line in PARTS[name](checkouts, options):
                print(line, flush=True)


if __name__ == "__main__":
    main()
