"""The fuzzers: how each is run for a budget of CPU time, and its findings as folders of one form.

A finding is a folder with `script.py`, which calls torch.compile and needs torch alone, and `about.json`: what the
fuzzer itself says. All run with new caches, one program at a time.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzzers import budget

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: Seconds of the clock after which torchfuzz itself gives a program up.
_PROGRAM = 300.0
_EVER = 10**7
_SIMD = re.compile(r"avx2|avx512")


@dataclass
class Result:
    """`cpu`, `wall`: seconds. `setup`: CPU seconds before the budget. `restarts`: of a fuzzer that ended early."""

    programs: int = 0
    cpu: float = 0.0
    wall: float = 0.0
    setup: float = 0.0
    restarts: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Race:
    """What all fuzzers get. `folder`: of this fuzzer's files. `cpu`: seconds. `python`: with the torch to test."""

    folder: Path
    cpu: float
    seed: int
    target: str
    python: Path
    nnsmith: Path | None
    torchfuzz: Path | None
    template: str

    @property
    def findings(self) -> Path:
        return self.folder / "findings"

    def variables(self) -> dict[str, str]:
        """Environment variables of all fuzzers but explore, which sets its own."""
        simd = _SIMD.search(self.target)
        return {
            "CUDA_VISIBLE_DEVICES": "",
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "XDG_CACHE_HOME": str(self.folder.parent / "cache"),
            **({"ATEN_CPU_CAPABILITY": simd[0]} if simd else {}),
        }

    def run(
        self, command: list[str | Path], *, cpu: float, wall: float = _EVER, variables: Mapping[str, str] | None = None
    ) -> budget.Ran:
        given = self.variables() if variables is None else variables
        return budget.run(command, self.folder / "log.txt", cpu=cpu, wall=wall, variables=given, folder=self.folder)

    def keep(self, name: str, about: Mapping[str, str], script: Path | None = None) -> Path:
        """The new folder of a finding, with its script."""
        folder = self.findings / name
        folder.mkdir(parents=True, exist_ok=True)
        if script is not None and script.exists():
            shutil.copy(script, folder / "script.py")
        (folder / "about.json").write_text(json.dumps(dict(about), indent=1) + "\n", encoding="utf-8")
        return folder


def explore(race: Race) -> Result:
    """`python -m conformance explore`. Its own minimisation is part of its time."""
    search = race.folder / "search"
    variables = {
        "CUDA_VISIBLE_DEVICES": "",
        "CONFORMANCE_CACHE": str(race.folder.parent / "cache" / "conformance"),
        "PYTHONPATH": str(ROOT),
    }
    command: list[str | Path] = [race.python, "-m", "conformance", "explore", "--target", race.target, "--jobs", "1"]
    command += ["--seed", str(race.seed), "--minutes", str(_EVER), "--output", search]
    ran = race.run(command, cpu=race.cpu, variables=variables)
    text = _log(race)
    compared = re.findall(r"^(\d+) programs? compared", text, re.MULTILINE)
    result = Result(int(compared[-1]) if compared else 0, ran.cpu, ran.wall)
    if not ran.stopped:
        result.notes.append(f"it ended by itself with status {ran.status}: see log.txt")
    for file in sorted(search.glob("*/finding.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        about = {"said": found["title"], "blamed": found["blamed"], "minimised": "yes"}
        folder = race.keep(found["name"], about, file.parent / "script.py")
        if (saved := file.parent / "script.pt").exists():
            shutil.copy(saved, folder)
    return result


def torchfuzz(race: Race) -> Result:
    """PyTorch's torchfuzz with its own check, one process for each seed, as its multi-process fuzzer does."""
    return _torchfuzz(race, "own")


def torchfuzz_numerics(race: Race) -> Result:
    """The same programs, with torchfuzz's check that compares numbers."""
    return _torchfuzz(race, "numerics")


def _torchfuzz(race: Race, check: str) -> Result:
    result = Result()
    log = race.folder / "log.txt"
    seed = race.seed * 1_000_000
    while result.cpu < race.cpu and race.torchfuzz is not None:
        log.unlink(missing_ok=True)
        command: list[str | Path] = [race.python, HERE / "torchfuzz_program.py", race.torchfuzz, str(seed)]
        ran = race.run([*command, race.template, check], cpu=max(race.cpu - result.cpu, 1), wall=_PROGRAM)
        result.cpu, result.wall = result.cpu + ran.cpu, result.wall + ran.wall
        if ran.stopped and ran.wall < _PROGRAM:
            break
        text = _log(race)
        running = re.search(r"^Running: (.+)$", text, re.MULTILINE)
        program = Path(running[1]) if running else None
        result.programs += program is not None
        if ran.status or ran.stopped:
            errors = [line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception|exc\.\w+)\b", line)]
            said = "it takes more than 300 s" if ran.stopped else next(iter(errors), f"status {ran.status}")
            if program is None:
                result.notes.append(f"seed {seed}: no program: {said[:200]}")
                if seed - race.seed * 1_000_000 >= 4 and not result.programs:
                    break  # it does not work here
            else:
                folder = race.keep(f"seed-{seed}", {"said": said[:2000]}, program)
                (folder / "log.txt").write_text(text, encoding="utf-8")
        if program is not None:
            program.unlink(missing_ok=True)
        for left in Path("/tmp").glob(f"fuzzing_seed_{seed}_*"):  # noqa: S108 - where torchfuzz writes a summary
            shutil.rmtree(left, ignore_errors=True)
        seed += 1
    return result


def nnsmith(race: Race) -> Result:
    """NNSmith's fuzzing loop with its backend for torch.compile, started again where it ends early.

    It tries all operators once, and leaves out those that fail. They are tried with Dynamo's backend "eager" here, so
    that an operator that Inductor gets wrong by itself is not left out. This is no part of the budget.
    """
    result = Result()
    model: list[str | Path] = ["model.type=torch", "backend.target=cpu", f"hydra.run.dir={race.folder / 'hydra'}"]
    start: list[str | Path] = [race.nnsmith or "", "-m"]
    for _ in range(5):  # an assertion of NNSmith fails for some of the solver's answers, which differ from run to run
        tried = race.run([*start, "nnsmith.cli.dtype_test", *model, "backend.type=pt2 backend@eager"], cpu=_EVER)
        result.setup += tried.cpu
        if not tried.status:
            break
    else:
        result.notes.append(f"the test of its operators ended with status {tried.status}: see log.txt")
        return result
    while result.cpu < race.cpu:
        reports = race.folder / f"reports-{result.restarts}"
        fuzz = ["backend.type=pt2", f"fuzz.time={_EVER}", f"fuzz.root={reports}"]
        seed = f"fuzz.seed={1 + race.seed * 1000 + result.restarts}"
        ran = race.run([*start, "nnsmith.cli.fuzz", *model, *fuzz, seed], cpu=race.cpu - result.cpu)
        result.cpu, result.wall = result.cpu + ran.cpu, result.wall + ran.wall
        if ran.stopped:
            break
        result.restarts += 1
        result.notes.append(f"it ended by itself with status {ran.status} after {ran.cpu:.0f} CPU s")
        if ran.cpu < 30:  # it does not work here
            break
    result.programs = len(re.findall(r"\[?Timing: ", _log(race)))
    for report in sorted(race.folder.glob("reports-*/bug-*")):
        said = (report / "err.log").read_text(encoding="utf-8", errors="replace")
        symptom = json.loads((report / "meta.json").read_text(encoding="utf-8"))["symptom"]
        lines = [line for line in said.strip().splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)?: ", line)), "")
        number = report.name.rpartition("-")[2]
        name = f"{symptom}-{report.parent.name.rpartition('-')[2]}-{number}"
        folder = race.keep(name, {"said": f"{symptom}: {(last or ' '.join(lines[:3]))[:2000]}"})
        (folder / "log.txt").write_text(said, encoding="utf-8")
        race.run([race.nnsmith or "", HERE / "nnsmith_script.py", report, folder], cpu=120)
    return result


def _log(race: Race) -> str:
    place = race.folder / "log.txt"
    return place.read_text(encoding="utf-8", errors="replace") if place.exists() else ""


TOOLS: dict[str, Callable[[Race], Result]] = {
    "explore": explore,
    "torchfuzz": torchfuzz,
    "torchfuzz-numerics": torchfuzz_numerics,
    "nnsmith": nnsmith,
}
