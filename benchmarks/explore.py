"""Races `explore` against other fuzzers of torch.compile: the same CPU time, and the same judge.

    python benchmarks/explore.py --cpu-minutes 60 --output race                       # explore alone
    python benchmarks/explore.py --cpu-minutes 60 --output race --nnsmith PYTHON --torchfuzz FOLDER
    python benchmarks/explore.py --report race-2.13 race-2.15                         # one table of several races

The torch is that of the Python that runs this. NNSmith is fuzzed with a Python of its own, with the same torch.
PyTorch's torchfuzz is `tools/experimental/torchfuzz` of a checkout of PyTorch. The fuzzers run one after the other:

    explore             this project's; it leaves out cases with a known failure, the others may find known bugs again
    torchfuzz           with the check of its template; the one of "default" compares no numbers
    torchfuzz-numerics  the same, with its check that compares the sums of the outputs
    nnsmith             its loop for torch.compile (`backend.type=pt2`)

CPU time is user and system time of all processes. The fuzzers get no cache. What explore takes to minimise is part of
its time; what NNSmith takes to try its operators once is not, and is `setup` in the JSON.

Each finding becomes a script, which fuzzers/judge.py judges with torch alone. What it cannot decide is unclear, until
a person writes a verdict into OUTPUT/verdicts.toml. Findings that are not false alarms are minimised: those with the
same error, or the same part of the compiler to blame, or the same operators, are one bug. A second call with the same
--output runs what has not run, judges what is not judged, and reads the verdicts again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzzers import verdicts
from fuzzers.tools import TOOLS, Race

COLUMNS = {
    "fuzzer": "fuzzer",
    "torch": "torch",
    "programs": "programs",
    "minutes": "CPU minutes",
    "findings": "findings",
    "confirmed": "confirmed",
    "distinct": "distinct",
    "unclear": "unclear",
    "false alarms": "false alarms",
    "distinct per hour": "distinct per CPU hour",
    "false alarms per hour": "false alarms per CPU hour",
}


def torch_of(python: Path) -> str:
    """The version of torch that a Python has. Raises RuntimeError if it has none."""
    code = "import torch; print(torch.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{python} has no torch: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def run(name: str, race: Race) -> None:
    """Runs a fuzzer, unless it has run."""
    place = race.folder / "run.json"
    if place.exists():
        return
    if race.folder.exists():
        raise FileExistsError(f"{race.folder} has a run that did not end: delete it first")
    race.folder.mkdir(parents=True)
    print(f"{name}: {race.cpu / 60:.3g} CPU minutes", flush=True)
    result = TOOLS[name](race)
    place.write_text(json.dumps(dataclasses.asdict(result), indent=1) + "\n", encoding="utf-8")
    for note in result.notes[:5]:
        print(f"{name}: {note}", flush=True)


def judge_all(name: str, race: Race, *, minimise: bool) -> None:
    folders = sorted(race.findings.glob("*"))
    for number, folder in enumerate(folders, 1):
        verdicts.judge(folder, race.python, race.target, race.variables(), minimise=minimise)
        found = json.loads((folder / "judged.json").read_text(encoding="utf-8"))
        print(f"{name} {number}/{len(folders)} {folder.name}: {found['verdict']}: {found['reason'][:150]}", flush=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    """A row for each fuzzer that ran, in the order of TOOLS."""
    torch = json.loads((folder / "race.json").read_text(encoding="utf-8"))["torch"]
    found = list(verdicts.findings(folder))
    out = []
    for name in TOOLS:
        place = folder / name / "run.json"
        if not place.exists():
            continue
        ran = json.loads(place.read_text(encoding="utf-8"))
        own = [each for each in found if each.identity.startswith(f"{name}/")]
        chosen = {verdict: [each for each in own if each.verdict == verdict] for verdict in verdicts.VERDICTS}
        hours = ran["cpu"] / 3600
        bugs = sorted({each.key for each in chosen["confirmed"]})
        counts: dict[str, Any] = {"fuzzer": name, "torch": torch, **ran, "minutes": ran["cpu"] / 60}
        counts |= {verdict.replace("alarm", "alarms"): len(each) for verdict, each in chosen.items()}
        counts |= {"findings": len(own), "distinct": len(bugs), "bugs": bugs}
        for what in ("distinct", "false alarms"):
            counts[f"{what} per hour"] = counts[what] / hours if hours else 0.0
        out.append(counts)
    return out


def table(found: Sequence[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(COLUMNS.values())} |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    for row in found:
        values = [f"{row[each]:.1f}" if isinstance(row[each], float) else str(row[each]) for each in COLUMNS]
        lines.append(f"| {' | '.join(values)} |")
    return "\n".join(lines)


def race_all(options: argparse.Namespace) -> None:
    python, output = Path(sys.executable), options.output.resolve()
    torch = torch_of(python)
    if options.nnsmith is not None and (other := torch_of(options.nnsmith)) != torch:
        raise RuntimeError(f"this Python has torch {torch}, and {options.nnsmith} has {other}: a race needs one torch")
    output.mkdir(parents=True, exist_ok=True)
    about = {"torch": torch, "target": options.target, "seed": options.seed, "cpu_minutes": options.cpu_minutes}
    place = output / "race.json"
    if place.exists() and (before := json.loads(place.read_text(encoding="utf-8"))) != about:
        raise RuntimeError(f"{output} has another race: {before}")
    place.write_text(json.dumps(about) + "\n", encoding="utf-8")
    for name in options.only or TOOLS:
        missing = (name == "nnsmith" and options.nnsmith is None) or (
            name.startswith("torchfuzz") and options.torchfuzz is None
        )
        if missing and not (output / name / "run.json").exists():
            print(f"{name}: left out, name it with --{name.partition('-')[0]}", flush=True)
            continue
        race = Race(
            output / name,
            60 * options.cpu_minutes,
            options.seed,
            options.target,
            python,
            options.nnsmith and options.nnsmith.absolute(),
            options.torchfuzz and options.torchfuzz.resolve(),
            options.torchfuzz_template,
        )
        run(name, race)
        judge_all(name, race, minimise=not options.no_minimise)
    unclear = [each for each in verdicts.findings(output) if each.verdict == "unclear"]
    verdicts.offer(output, unclear)
    if unclear:
        print(f"{len(unclear)} findings are unclear: write verdicts into {output / verdicts.FILE}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-minutes", type=float, default=60, metavar="N", help="of each fuzzer (default 60)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="of this race")
    parser.add_argument("--only", action="append", choices=TOOLS, help="only this fuzzer; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of all fuzzers (default 0)")
    parser.add_argument("--target", default="cpu_avx2", help="a CPU target of this machine (default cpu_avx2)")
    parser.add_argument("--nnsmith", type=Path, metavar="PYTHON", help="a Python that has NNSmith and the same torch")
    parser.add_argument("--torchfuzz", type=Path, metavar="FOLDER", help="tools/experimental/torchfuzz of PyTorch")
    parser.add_argument("--torchfuzz-template", default="default", metavar="NAME", help="default: default")
    parser.add_argument("--no-minimise", action="store_true", help="do not minimise findings: bugs are counted apart")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FOLDER", help="only print tables of these races")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows (default OUTPUT/results.json)")
    options = parser.parse_args(arguments)
    if options.output is None and not options.report:
        parser.error("name a folder with --output")
    if not options.report:
        race_all(options)
    found = [row for folder in options.report or [options.output] for row in rows(folder)]
    print(table(found))
    target = options.json or (options.output / "results.json" if options.output else None)
    if target is not None:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
