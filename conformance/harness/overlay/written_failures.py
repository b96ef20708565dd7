"""--write-known-failures: writes the failures of a run that no known failure excuses, and reports the entries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.expectations.known_failure_writer import Failure, Written, write_known_failures
from conformance.numerics.problem import Problem
from conformance.settings import Settings, SettingsError, option_name
from conformance.storage.check_results import Outcome
from conformance.storage.installed import refuse_installed
from conformance.storage.runs import ItemRecord
from conformance.words import pluralise

#: How many failures without an entry a line names.
_NAMED = 3


def refuse_folder(folder: Path) -> None:
    """Raises SettingsError or InstalledError, before anything runs, for a folder that cannot be written to."""
    option = option_name("write-known-failures")
    refuse_installed(folder, f"{option} a folder of your own")
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir():
        raise SettingsError(
            f"{option_name('write-known-failures')}: {existing} is no folder; name a folder for *.toml files"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SettingsError(
            f"{option_name('write-known-failures')}: {existing} cannot be written to; name another folder"
        )


def write(items: Sequence[ItemRecord], settings: Settings) -> tuple[list[str], bool]:
    """Writes the entries. Returns the lines that report it, and whether it went wrong."""
    folder = Path(settings.write_known_failures or "")
    failures = [failure for item in items for failure in _failures(item)]
    try:
        torch = items[0].torch
        option = next(iter(settings.inductor_config_options), settings.backend_option)
        written = write_known_failures(folder, failures, torch, option)
        folder.mkdir(parents=True, exist_ok=True)  # also without entries: the next command names the folder
    except (ConformanceError, OSError) as error:
        return [f"known failures: nothing was written: {error}"], True
    own = {Path(item.known).resolve() for item in items}
    return _lines(folder, written, is_own=own == {folder.resolve()}), False


def _failures(item: ItemRecord) -> list[Failure]:
    problems = [Problem.from_json(each) for each in item.problems]
    return [
        Failure(
            item.case,
            check,
            item.target,
            item.mode,
            item.raised.get(check, ""),
            problems if check == "numerics" else (),
        )
        for check, result in item.checks.items()
        if result.outcome is Outcome.FAILED
    ]


def _lines(folder: Path, written: Written, *, is_own: bool) -> list[str]:
    """`is_own`: the folder lies beside the cases, so every run reads it."""
    lines = []
    if written.entries:
        entries = f"{written.entries} entr{'y' if written.entries == 1 else 'ies'}"
        files = ", ".join(file.name for file in written.files[:_NAMED])
        more = f" and {len(written.files) - _NAMED} more" if len(written.files) > _NAMED else ""
        lines.append(
            f"known failures: {entries} for {pluralise(written.failures, 'failure')} written to {folder}: "
            f"{files}{more}; write into each why it fails"
        )
        option = f"with {option_name('known-failures')} {folder}"
        how = "from there: the folder belongs to the cases" if is_own else option
        lines.append(f"known failures: the next run takes them {how}")
    elif not written.left_out:
        lines.append(f"known failures: nothing to write to {folder}: no failure without an entry")
    for reason, failures in written.left_out.items():
        names = ", ".join(f"{failure.case}-{failure.target}" for failure in failures[:_NAMED])
        more = f" and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
        checks = " and ".join(dict.fromkeys(failure.check for failure in failures))
        lines.append(f"no known failure written for {checks} of {names}{more}: {reason}")
    return lines
