"""`list --bugs`: the known bugs as a page, and whether their scripts still show them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.cases.lookup import project_here, suite_folder
from conformance.cases.roots import STORAGE_ROOTS
from conformance.devices.environment import torch_build
from conformance.devices.machine import Machine
from conformance.errors import SuiteMissingError
from conformance.expectations import known_bugs, known_failures
from conformance.expectations.known_failure_entry import KnownFailureError
from conformance.storage.locations import KNOWN_FAILURES, storage_folder
from conformance.terminal import progress

#: How many folders a title names.
_NAMED = 3


def list_bugs(arguments: argparse.Namespace) -> int:
    """Prints the bugs as Markdown; with --check, runs their scripts. Returns 1 if one no longer shows its bug.

    Raises KnownFailureError and SuiteMissingError.
    """
    status, pages = 0, []
    for title, folders in _places(arguments).items():
        bugs = known_bugs.bugs(failure for folder in folders for failure in known_failures.load(folder).failures)
        if arguments.check:
            status = max(status, _check(bugs))
        else:
            pages.append("\n".join(known_bugs.markdown(bugs, title)))
    print("\n\n".join(pages), end="\n" if pages else "")
    return status


def _places(arguments: argparse.Namespace) -> dict[str, list[Path]]:
    """The title of each page → the folders of its known failures."""
    package = [root / KNOWN_FAILURES for root in STORAGE_ROOTS]
    if folders := [Path(word) for word in arguments.what]:
        if arguments.package:
            raise KnownFailureError(f"--package lists those of conformance: leave out {folders[0]}, or --package")
        for folder in folders:
            if not folder.is_dir():
                raise KnownFailureError(f"there is no folder {folder}: name a folder known_failures/ with *.toml files")
        return {known_bugs.TITLE: folders}
    own = [] if arguments.package else [folder for folder in _own_folders(arguments) if folder not in package]
    places = {f"{known_bugs.TITLE} of {_named(own)}": own} if own else {}
    try:
        suite_folder()
    except SuiteMissingError as error:
        if not own:
            raise
        print(f"those of conformance are not listed: {error}", file=sys.stderr)
        return places
    return places | {known_bugs.TITLE: package}


def _named(folders: Sequence[Path]) -> str:
    names = [os.path.relpath(folder) for folder in folders]
    more = [f"{len(names) - _NAMED} more folders"] if len(names) > _NAMED + 1 else []
    return " and ".join([*(names[:_NAMED] if more else names), *more])


def _own_folders(arguments: argparse.Namespace) -> list[Path]:
    """The folders of known failures beside the cases of this project, and those that are laid over them."""
    beside = (storage_folder(file.resolve(), KNOWN_FAILURES) for file in project_here().case_files().files)
    laid_over = map(Path, arguments.overlay.known_failures)
    return list(dict.fromkeys(folder for folder in (*beside, *laid_over) if folder.is_dir()))


def _check(bugs: Sequence[known_bugs.Bug]) -> int:
    version = torch_build().version
    asked = [bug for bug in bugs if bug.reproduction and bug.applies_to(version)]
    here = {"cpu", *Machine.detect().gpus}
    checked = [bug for bug in asked if bug.devices & here]
    for bug in asked:
        if bug not in checked:
            print(f"not run  {bug.reason}: it needs a real GPU ({' or '.join(sorted(bug.devices))})")
    for bug in [each for each in checked if each.missing_package]:
        checked.remove(bug)
        print(f"not run  {bug.reason}: install {bug.missing_package}")
    gone = 0
    with progress(len(checked)) as show:
        for bug in checked:
            show(bug.reason)
            shows, last_line = known_bugs.run_reproduction(bug)
            gone += not shows
            print(f"{'shows' if shows else 'does NOT show'}  {bug.reason}: {last_line}", flush=True)
    return int(gone > 0)
