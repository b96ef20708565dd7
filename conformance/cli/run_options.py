"""Arguments that several commands share: a run, and the files of cases."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.cases.case import Case, CaseError
from conformance.cases.lookup import cases_below, package_cases, project_cases, project_here, suite_folder
from conformance.harness.selection.baseline_run import baseline_source, run_name
from conformance.storage.locations import snapshot_store
from conformance.storage.runs import LAST, Run, RunError, existing_runs, open_run

_RUN = "the folder of a run, or its name below .conformance/runs of this project"


def add_run_argument(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    if required:
        parser.add_argument("run", metavar="RUN", help=_RUN)
    else:
        parser.add_argument("run", nargs="?", default=LAST, metavar="RUN", help=f"{_RUN}; default: the last run")


def add_paths_argument(parser: argparse.ArgumentParser, default: str = "those of this project") -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        default=[],
        type=Path,
        metavar="PATH",
        help=f"files or folders of cases; default: {default}",
    )


def find_run(word: str) -> Run:
    """Returns the run in a folder, or with a name. Raises RunError."""
    is_folder = (Path(word) / "run.json").exists()
    return open_run(project_here().root, word + os.sep if is_folder else word)


def find_baseline(word: str) -> Run:
    """The run that --baseline names, also by the PATH[@COMMIT] from which pytest made it. Raises RunError."""
    root = project_here().root
    source = baseline_source(word, root)
    if source is None:
        return find_run(word)
    name = run_name(source)
    if name not in existing_runs(root):
        raise RunError(
            f"--baseline {word} is a checkout of PyTorch that no run was compared with yet: run pytest "
            f"--baseline={word}, which makes the run {name}"
        )
    return find_run(name)


def case_paths(paths: Sequence[Path], *, or_package: bool = False) -> list[Path]:
    """Returns the paths, or else the files of cases of this project.

    Where it has none: with `or_package` the folder of this package's cases, or raises SuiteMissingError; else raises
    CaseError.
    """
    found = list(paths) or list(project_here().case_files().files) or ([suite_folder()] if or_package else [])
    if not found:
        raise CaseError(f"there is no file of cases in {project_here().root}; name the files or folders of the cases")
    return found


def snapshot_folders(paths: Sequence[Path]) -> dict[str, Path]:
    """Returns for each case id the folder of its snapshots here. `paths`: of the cases; without: this project and this
    package, the project's first. Raises CaseError for a file in `paths` that cannot be imported.
    """
    cases = cases_below(paths) if paths else [*package_cases().cases, *project_cases().cases]
    stores = stores_of(cases)
    return {case.id: stores[case.file] for case in cases}


def stores_of(cases: Iterable[Case]) -> dict[Path, Path]:
    """Returns for each file of the cases the folder of its snapshots."""
    return {file: snapshot_store(file).root for file in dict.fromkeys(case.file for case in cases)}
