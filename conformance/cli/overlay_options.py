"""The options that lay a user's own over what is installed: targets, snapshots, known failures, files of a checkout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.cases.case import Case
from conformance.cases.lookup import project_here
from conformance.cases.project import ini_words
from conformance.cases.subset import SubsetError, read_subset
from conformance.devices.targets import targets, use_tables
from conformance.settings import (
    INI_KNOWN_FAILURES,
    INI_STORE,
    INI_TARGET_TABLES,
    Overlay,
    parse_overlay,
    typed_inductor_config,
)
from conformance.sources.source_in_use import use_source
from conformance.storage.runs import Run, RunError

_TABLES: Mapping[str, Any] = {
    "action": "append",
    "default": [],
    "metavar": "FILE",
    "help": "add the targets of this table; may be repeated",
}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--targets": _TABLES,
    "--store": {"metavar": "DIR", "help": "lay this folder over the stored code; only this folder is written to"},
    "--known-failures": {
        "action": "append",
        "default": [],
        "metavar": "DIR",
        "help": "also take the known failures of this folder; may be repeated",
    },
    "--subset": {"metavar": "FILE", "help": "only the cases that this file names"},
}
_ALL = tuple(_OPTIONS)
#: Command → its options of these. Other commands have none.
_OF_COMMANDS = {
    "list": _ALL,
    "show": ("--targets",),
    "watch": ("--targets",),
    "compare": ("--targets", "--store"),
    "bisect": ("--targets",),
    "blame": ("--targets",),
    "minimise": ("--targets",),
    "bench": ("--targets", "--subset"),
    "estimate": ("--targets", "--subset"),
    "review": ("--targets", "--store"),
    "view": ("--targets", "--store"),
    "accept": ("--targets", "--store"),
    "confirm": _ALL,
    "prune": ("--targets", "--store"),
    "doctor": ("--targets", "--store", "--known-failures"),
}
#: Commands that write into the store, and so may create it.
_WRITING = ("review", "view", "accept")

SOURCE_OPTION = "--torch-source"
#: Names the installed torch as a side of `compare`.
INSTALLED = "installed"
#: Commands that compile cases with the Python files of a PyTorch checkout. `compare` may take two.
_OF_SOURCE = ("show", "watch", "compare", "bench", "estimate", "minimise")


def add_overlay_options(command: str, parser: argparse.ArgumentParser) -> None:
    """Adds the options that a command has."""
    options = _OF_COMMANDS.get(command, ())
    if options:
        group = parser.add_argument_group("targets, code and known failures of your own (docs/overlay.md)")
        for option in options:
            group.add_argument(option, **_OPTIONS[option])


def use_overlay(command: str, arguments: argparse.Namespace) -> None:
    """Sets `arguments.overlay`, from the options and the project's ini file, and adds its targets to the table.

    Raises SettingsError and TargetError.
    """
    options, project = _OF_COMMANDS.get(command, ()), project_here()

    def of_ini(option: str, name: str) -> list[str]:
        return [str(project.root / word) for word in ini_words(project, name)] if option in options else []

    tables = [*of_ini("--targets", INI_TARGET_TABLES), *getattr(arguments, "targets", ())]
    layers = [*of_ini("--known-failures", INI_KNOWN_FAILURES), *getattr(arguments, "known_failures", ())]
    store = getattr(arguments, "store", None) or next(iter(of_ini("--store", INI_STORE)), None)
    arguments.overlay = parse_overlay(tables, store, layers, Path.cwd(), creates=command in _WRITING)
    use_tables(arguments.overlay.targets)


def store_of_run(arguments: argparse.Namespace, run: Run) -> str:
    """The folder to lay over what is stored for a run: the command's, else the run's own if it is here; "" for none.

    Also adds the targets of the run, if the command names no table. Raises RunError and TargetError.
    """
    given, recorded = arguments.overlay, run.overlay
    if not given.targets:
        use_tables([file for file in recorded.targets if Path(file).is_file()])
    if given.store or not recorded.store:
        return str(given.store)
    if not Path(recorded.store).is_dir():
        print(f"the run had --store {recorded.store}, which is not here: give --store DIR", file=sys.stderr)
        return ""
    return recorded.store


def refuse_source_run(run: Run, store: str) -> None:
    """Raises RunError where the code of a checkout would be stored as that of a release: only --store may get it."""
    source = run.description().get("torch_source")
    if source and not store:
        raise RunError(
            f"this run is of the Python files of {source['path']} and not of a torch release, so its code is not "
            "stored beside that of releases: give it a folder of its own with --store DIR"
        )


def refuse_configured_run(run: Run) -> None:
    """Raises RunError where code of --inductor-config would be compared with that of the cases' own configuration."""
    if chosen := run.description().get("inductor_config"):
        raise RunError(
            f"this run had {typed_inductor_config(chosen)}, so its code is neither stored nor "
            "compared with stored code: compare it with another run, with `review --baseline RUN`"
        )


def of_subset(cases: Sequence[Case], file: str | None) -> list[Case]:
    """The cases that a file of --subset names; all cases without a file. Raises SubsetError for a wrong line."""
    if file is None:
        return list(cases)
    subset = read_subset(Path(file))
    subset.validate(cases, list(targets()))
    chosen = [case for case in cases if subset.has(case) or any(subset.has(case, target) for target in targets())]
    if not chosen:
        raise SubsetError(f"--subset: {os.path.relpath(file)} names none of these cases")
    return chosen


def pytest_words(overlay: Overlay, subset: str | None, name: Any) -> list[str]:
    """The options for a pytest that a command starts. `name`: gives the name of an option."""
    return [*overlay.options(name), *((name("subset"), str(Path(subset).absolute())) if subset else ())]


def add_source_option(command: str, parser: argparse.ArgumentParser) -> None:
    if command not in _OF_SOURCE:
        return
    twice: dict[str, Any] = {"action": "append", "default": []} if command == "compare" else {}
    also = f"; given twice, compare what the two generate; `{INSTALLED}` is the installed torch" if twice else ""
    parser.add_argument(
        SOURCE_OPTION,
        dest="torch_source",
        metavar="PATH[@COMMIT]",
        help=f"use the Python files of this PyTorch checkout, or of a commit of it, with the installed binaries{also}",
        **twice,
    )


def use_source_option(command: str, arguments: argparse.Namespace) -> None:
    """Call it before torch is imported, and before the installed torch is read.

    Raises SourceError, GitError, LayError and MisfitError.
    """
    given = getattr(arguments, "torch_source", None) if command in _OF_SOURCE else None
    words = given if isinstance(given, list) else [given] if given else []
    if len(words) == 1 and words[0] != INSTALLED:
        use_source(words[0], SOURCE_OPTION)
