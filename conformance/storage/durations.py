"""How long each test took when it last ran: one file for a project. A run is planned with it.

Each run merges its durations into the file. A lost file costs nothing but a worse plan.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from conformance import atomic_files

FILE = "durations.json"


def read(folder: Path) -> dict[str, float]:
    """Returns node id → seconds; empty if the folder has no file, or none that this version wrote."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        files = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {f"{file}::{test}": float(seconds) for file, tests in files.items() for test, seconds in tests.items()}
    return {}


def merge(folder: Path, root: Path, seconds: Mapping[str, float]) -> None:
    """Adds durations to the file, and drops those of test files that no longer exist below `root`.

    Does nothing if the folder cannot be written to.
    """
    files: dict[str, dict[str, float]] = {}
    for node_id, value in (read(folder) | dict(seconds)).items():
        file, _, test = node_id.partition("::")
        files.setdefault(file, {})[test] = round(value, 3)
    kept = {file: tests for file, tests in sorted(files.items()) if (root / file).exists()}
    write(folder, kept)


def copy(source: Path, folder: Path) -> None:
    """Copies the file to a run's folder, so that all processes of the run plan alike. Does nothing without a file."""
    with contextlib.suppress(OSError):
        text = (source / FILE).read_text(encoding="utf-8")
        atomic_files.write_atomically(folder / FILE, text, survives_power_loss=False)


def write(folder: Path, files: Mapping[str, Mapping[str, float]]) -> None:
    with contextlib.suppress(OSError):
        text = json.dumps(files, indent=0, separators=(",", ":"))
        atomic_files.write_atomically(folder / FILE, text, survives_power_loss=False)
