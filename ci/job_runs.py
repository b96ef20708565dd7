"""The runs among the artifacts of CI's jobs: which there are, and which are missing or cannot be read."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "ci")]

import matrix  # noqa: E402
import relocated_runs  # noqa: E402

from conformance.storage.runs import Run, RunError  # noqa: E402 # from this checkout, which needs no installation


@dataclass
class JobRuns:
    """`runs`: job → the folder of its last run, sorted. `problems`: a line for each job whose run is not among them."""

    runs: dict[str, Path] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def find(places: list[Path], *, all_rows: bool = False) -> JobRuns:
    """Finds runs: a place is the folder of a run, or a folder with what each job left below .conformance/.

    `all_rows`: whether each row of the device matrix that runs the suite has to be among the jobs. Rows for machines
    that a repository may not have need not.
    """
    folders: dict[str, Path] = {}
    for place in places:
        if (place / "run.json").exists():
            folders[place.resolve().name] = place
        else:
            folders |= _last_runs(place)
    found = JobRuns(problems=[line for place in places for line in _without_run(place, folders, all_rows)])
    for job in sorted(folders):
        if problem := _problem(folders[job]):
            found.problems.append(f"{job}: {problem}")
        else:
            found.runs[job] = folders[job]
    return found


def placed_here(runs: dict[str, Path], root: Path, folder: Path) -> list[Path]:
    """The folders of the runs; a copy in `folder` of each that was made at another place, see relocated_runs.py."""
    return [relocated_runs.relocated(run, root, folder / job) for job, run in runs.items()]


def _last_runs(artifacts: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in sorted(artifacts.glob("*/runs/*/run.json"), key=lambda path: (path.stat().st_mtime, path)):
        if file.parent.name != "last":  # a link to one of the others
            found[file.relative_to(artifacts).parts[0]] = file.parent
    return found


def _without_run(artifacts: Path, folders: dict[str, Path], all_rows: bool) -> list[str]:
    """The rows of the device matrix that run the suite and left no run."""
    left = {path.name for path in artifacts.iterdir() if path.is_dir()} if artifacts.is_dir() else set()
    rows = {row.name: row for row in matrix.load() if "--save-run" in row.command()}
    if not left & set(rows):
        return []  # no artifacts of this matrix
    wanted = (name for name, row in rows.items() if name in left or (all_rows and row.runner.hosted))
    return [f"{name}: the job left no run" for name in wanted if name not in folders]


def _problem(run: Path) -> str:
    """Why a run cannot be read; "" if it can."""
    try:
        Run(run).description()
        Run(run).selected()
        any_item = [item.name for item in Run(run).items()]
    except (RunError, OSError, ValueError) as error:
        return str(error)
    return "" if any_item else f"the run {run} has no item: it ended before the first one did"
