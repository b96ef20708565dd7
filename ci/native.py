#!/usr/bin/env python3
"""Runs everything that needs a device, on a machine that has one, and notes the results in native.toml.

    python ci/native.py                     # all parts that native.toml does not have for this commit
    python ci/native.py --minutes 9         # begins no part that may not end in this time; the next call goes on
    python ci/native.py --only ops-gpu,sweep-gpu   # these parts, also if they have run
    python ci/native.py --list              # the parts, and what is noted of each
    python ci/native.py --check             # lint: how many commits that touch captures or numerics are newer

A part is one run of pytest, or of a command. Nothing is installed: the machine has torch, Triton and what the package
requires.
Exit status 1 if a part failed. Commit native.toml: docs/deviceless.md shows it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "ci" / "native.toml"
#: A change of these can change a result on a device.
RELEVANT = (
    "conformance/capture",
    "conformance/numerics",
    "conformance/compiler",
    "conformance/ops",
    "conformance/sweep",
)
#: So many commits that touch RELEVANT after a part's run, lint names the part.
WARNS = 30
#: Ends pytest's output: a summary of this suite's own, and pytest's.
_LAST = re.compile(r"^\d+ items? = ")
_FAILED = re.compile(r"^(\w+) failed: (\S+?): ")


@dataclass(frozen=True)
class Part:
    """`words`: arguments of Python. In them, GPU stands for this machine's GPUs, WIDEST for the CPU target with the
    longest vectors, and WIDE for all CPU targets but cpu_avx2. `minutes`: a guess, for 16 cores. `needs`: a package
    without which the part cannot run.
    """

    name: str
    words: str
    minutes: int
    needs: str = ""


PARTS = (
    Part("ops-gpu", "-m pytest conformance/ops --target GPU --require-device --verify-deviceless", 6),
    Part("sweep-gpu", "-m pytest conformance/sweep --dtypes f32,bf16 --target GPU --require-device", 5),
    Part("ops-cpu", "-m pytest conformance/ops --target WIDE --require-device", 6),
    Part("ops-avx2", "-m pytest conformance/ops --target cpu_avx2 --require-device", 5),
    Part("sweep-cpu", "-m pytest conformance/sweep --dtypes f32 --target WIDEST --require-device", 3),
    Part("models-gpu", "-m pytest conformance/models --quick --target GPU --require-device", 4, "transformers"),
    Part(
        "same-bits-gpu", "-m pytest conformance/ops --quick --checks same_bits --target GPU -k 'norm or mm or sum'", 3
    ),
    Part("confirm", "-m conformance confirm --quick -k flip --output .conformance/confirmed.zip", 2),
)


@dataclass(frozen=True)
class Result:
    """The last run of a part. `line`: the last line of the suite, or of the output. `failed`: what failed."""

    command: str
    machine: str
    torch: str
    commit: str
    date: str
    seconds: int
    line: str
    failed: list[str] = field(default_factory=list)


def read(file: Path = FILE) -> dict[str, Result]:
    """Part → its last run."""
    tables = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: Result(**table) for name, table in tables.items()}


def write(results: dict[str, Result], file: Path = FILE) -> None:
    lines = ["# Written by ci/native.py on a machine with a device."]
    for name in sorted(results, key=[part.name for part in PARTS].index):
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in asdict(results[name]).items()]
    temporary = file.with_suffix(".new")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(file)


@dataclass(frozen=True)
class Here:
    """This machine: the names of its targets, the widest of the CPU first, and a line that describes it."""

    gpus: list[str]
    cpus: list[str]
    description: str
    torch: str

    @classmethod
    def detect(cls) -> Here:
        import torch

        from conformance.devices.machine import Machine

        machine = Machine.detect()
        native = {name: target for name, target in machine.targets().items() if machine.is_native(target)}
        cpus = [name for name, target in native.items() if target.device == "cpu"]
        summary = machine.summary()
        gpus = " and ".join(summary["gpus"].values()) or "no GPU"
        description = f"{gpus}; {summary['processor']}, {summary['cores']} cores ({', '.join(summary['isas'])})"
        return cls([name for name in native if name not in cpus], cpus[::-1], description, str(torch.__version__))

    def obstacle(self, part: Part) -> str:
        """Why the part cannot run here; "" if it can."""
        import importlib.util

        if part.needs and importlib.util.find_spec(part.needs) is None:
            return f"the package {part.needs} is not installed"
        if not self.gpus and ("GPU" in part.words or part.name == "confirm"):
            return "there is no GPU"
        return ""

    def command(self, part: Part, workers: int) -> list[str]:
        wide = [name for name in self.cpus if name != "cpu_avx2"] or self.cpus
        places = {"GPU": ",".join(self.gpus), "WIDE": ",".join(wide), "WIDEST": self.cpus[0]}
        words = [places.get(word, word) for word in shlex.split(part.words)]
        return [*words, "-n", str(workers)]


def run(part: Part, here: Here, workers: int, logs: Path, tested: str) -> Result:
    """Runs a part. `tested`: the commit. Its output goes to a log, and its last lines to the terminal."""
    words = here.command(part, workers)
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{part.name}.log"
    began = time.monotonic()
    with log.open("wb") as output:
        status = subprocess.run(
            [sys.executable, *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        ).returncode
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((each for each in reversed(lines) if _LAST.match(each)), lines[-1] if lines else "it printed nothing")
    line = last.partition("; next: ")[0]
    failed = [f"{found[1]}: {found[2]}" for each in lines if (found := _FAILED.match(each))]
    if status and not failed:
        failed = [f"exit status {status}"]
    seconds = round(time.monotonic() - began)
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    return Result("python " + shlex.join(words), here.description, here.torch, tested, today, seconds, line, failed)


def commit() -> str:
    """The checked-out commit."""
    return _git("rev-parse", "HEAD") or "unknown"


def newer(result: Result) -> int | None:
    """How many commits after the run touch RELEVANT; None if the history does not have the commit."""
    found = _git("rev-list", "--count", f"{result.commit}..HEAD", "--", *RELEVANT)
    return int(found) if found else None


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() if not run.returncode else ""


def lines(results: dict[str, Result]) -> list[str]:
    """A line for each part: its last run."""
    found = []
    for part in PARTS:
        result = results.get(part.name)
        if result is None:
            found.append(f"{part.name:<14} never ran")
            continue
        ago = newer(result)
        age = "commit not in this history" if ago is None else f"{ago} commits that can change it are newer"
        failed = f"; failed: {', '.join(result.failed)}" if result.failed else ""
        found.append(f"{part.name:<14} {result.date}, torch {result.torch}, {age}: {result.line}{failed}")
    return found


def check(results: dict[str, Result]) -> int:
    """Prints which parts are old or failed. Returns the exit status: 0, because lint's machine has no device."""
    for part in PARTS:
        result = results.get(part.name)
        ago = newer(result) if result else None
        if result is None or ago is None or ago > WARNS or result.failed:
            print(f"warning: {lines({part.name: result} if result else {})[PARTS.index(part)]}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.name for part in PARTS]
    parser.add_argument("--only", metavar="PARTS", help=f"of {', '.join(names)}")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no part that may not end within N minutes")
    parser.add_argument("-n", dest="workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    parser.add_argument("--logs", type=Path, default=ROOT / ".conformance" / "native", metavar="FOLDER")
    parser.add_argument("--commit", metavar="SHA", help="what is tested, where git does not know it")
    parser.add_argument("--list", action="store_true", help="print what is noted, and run nothing")
    parser.add_argument("--check", action="store_true", help="print the parts that are old or failed")
    options = parser.parse_args()
    results: dict[str, Any] = read()
    if options.list or options.check:
        if options.check:
            return check(results)
        print("\n".join(lines(results)))
        return 0
    wanted = options.only.split(",") if options.only else names
    if unknown := set(wanted) - set(names):
        parser.error(f"there is no part {min(unknown)!r}: there are {', '.join(names)}")
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    here, began, failed, tested = Here.detect(), time.monotonic(), False, options.commit or commit()
    print(f"{here.description}; torch {here.torch}", flush=True)
    for part in PARTS:
        if part.name not in wanted:
            continue
        before = results.get(part.name)
        if not options.only and before and before.commit == tested and before.machine == here.description:
            print(f"{part.name}: it ran at this commit: {before.line}", flush=True)
            continue
        if obstacle := here.obstacle(part):
            print(f"{part.name}: not run: {obstacle}", flush=True)
            continue
        if options.minutes and (time.monotonic() - began) / 60 + part.minutes > options.minutes:
            print(f"{part.name}: not run: it needs about {part.minutes} minutes; call again to go on", flush=True)
            continue
        results[part.name] = result = run(part, here, options.workers, options.logs, tested)
        write(results)
        failed |= bool(result.failed)
        print("\n".join([f"{part.name}: {result.seconds} s: {result.line}", *(f"  {each}" for each in result.failed)]))
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
