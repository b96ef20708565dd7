"""Run: a folder that workers write what they saw into, an item a file, and that one process reads.

Accepting, comparing with another run and reports all start from it. Nothing in it is shared between workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from conformance.errors import ConformanceError
from conformance.storage.check_results import CheckResult, Outcome

#: Below the root folder of the tests; ignored by version control.
FOLDER = ".conformance"
LAST = "last"
#: How many runs without a name are kept.
KEPT = 5
#: What an item's numerics may come from.
EVIDENCE = ("native", "emulated", "generated")
_UNUSED = "unused.json"
_UNNAMED = "[0-9]*T[0-9]*-[0-9]*"


class RunError(ConformanceError, ValueError):
    """A run that cannot be read, or written; the message says which and what there is."""


@dataclass
class ItemRecord:
    """What one (case, target) came to. `store`, `known`: the folders of its snapshots and known failures.

    `text`: the snapshot's text, "" where nothing was generated. `checks`: the result of each check by its name;
    "compile" where the item could not be compiled.
    `evidence`: what the numerics come from: "native" (run on the device), "emulated" (what was generated for it, run on
    the cpu), "compiled" (nothing was run, but every kernel became a binary), or "generated".
    `confirmed`: whether a real gpu gave the stored text that this one was compared with; None where none was.
    `binaries`: what the kernels' binaries say, a line for each configuration.
    `missed`: what Inductor does not do although the case says that it should; see missed_optimisations.find.
    `drift`: on a torch with nothing stored, how the text differs from the nearest one's.
    `seconds`: for compiling it, by the clock. `cpu_seconds`: for all of it, of the worker and of what it waited for.
    """

    case: str
    target: str
    mode: str
    torch: str
    store: str
    known: str = ""
    text: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    checks: dict[str, CheckResult] = field(default_factory=dict)
    drift: str = ""
    missed: list[dict[str, str]] = field(default_factory=list)
    confirmed: bool | None = None
    binaries: list[str] = field(default_factory=list)
    evidence: str = "generated"
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.case}-{self.target}"

    def outcome(self, check: str) -> Outcome | None:
        """How the check ended; None where it was not made."""
        return self.checks[check].outcome if check in self.checks else None

    def to_json(self) -> dict[str, Any]:
        checks = {check: result.to_json() for check, result in self.checks.items()}
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"checks": checks}

    @classmethod
    def from_json(cls, data: Any) -> ItemRecord:
        """Reads what to_json wrote. Raises TypeError or ValueError for anything else."""
        checks = {check: CheckResult.from_json(result) for check, result in data.get("checks", {}).items()}
        return cls(**data | {"checks": checks})


class Run:
    """One run's folder: `items/<case>-<target>.json`, `failures/<case>-<target>/`, `run.json`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, about: dict[str, Any]) -> None:
        """Empties the folder and says what the run is. Raises RunError where it cannot be written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.describe(about)

    def describe(self, about: dict[str, Any]) -> None:
        """Says what the run is, and leaves what is there. Raises RunError where it cannot be written."""
        try:
            (self.folder / "items").mkdir(parents=True, exist_ok=True)
            _write(self.folder / "run.json", about)
        except OSError as error:
            raise RunError(f"the run's folder {self.folder} cannot be written: {error.strerror}") from error

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, item: ItemRecord) -> None:
        """Called by the worker that ran the item."""
        path = self.folder / "items" / f"{item.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, item.to_json())

    def items(self) -> Iterator[ItemRecord]:
        """In the order of their names. Raises RunError for a run of another version of the suite, or a broken one."""
        for path in sorted((self.folder / "items").rglob("*.json")):
            yield self._read(path)

    def item(self, case: str, target: str) -> ItemRecord | None:
        """None where the run has no such item. Raises RunError as `items` does."""
        path = self.folder / "items" / f"{case}-{target}.json"
        return self._read(path) if path.exists() else None

    def _read(self, path: Path) -> ItemRecord:
        try:
            return ItemRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (AttributeError, TypeError, ValueError) as error:
            name = self.folder.resolve().name
            again = "pytest" if Path(name).match(_UNNAMED) else f"pytest --save-run {name}"
            raise RunError(
                f"the run {self.folder} was not written by this version of the suite ({error}); make it again: {again}"
            ) from error

    def note_unused(self, names: Sequence[str], prune: str) -> None:
        """Snapshots of no case, which each worker finds alike, and the command that removes them."""
        path = self.folder / _UNUSED
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, [list(names), prune])

    def unused(self) -> tuple[list[str], str]:
        path = self.folder / _UNUSED
        names, prune = json.loads(path.read_text(encoding="utf-8")) if path.exists() else ([], "")
        return names, prune

    def artifacts(self, name: str) -> Path:
        """An empty folder for the artifacts of a failing item."""
        folder = self.folder / "failures" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def _write(path: Path, data: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data, indent=1), encoding="utf-8")
    temporary.replace(path)


def runs_folder(root: Path) -> Path:
    """Where the runs of a project are kept; a temporary folder where the root cannot be written."""
    folder = _usual_folder(root)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    return _temporary_folder()


def _usual_folder(root: Path) -> Path:
    return root / FOLDER / "runs"


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"conformance-runs-{os.getuid()}"


def kept_elsewhere(root: Path, run: Run) -> list[str]:
    """Where a run is that could not be kept below the root."""
    if run.folder.parent != _temporary_folder():
        return []
    return [f"{_usual_folder(root)} cannot be written: this run is in {run.folder}"]


def fresh(root: Path, name: str | None) -> Run:
    """A run of that name, or of a name of its own: the time and the process.

    Of those unnamed, the newest are kept, and those whose process still runs.
    """
    if name:
        return Run(named(root, name))
    runs = runs_folder(root)
    for old in sorted(runs.glob(_UNNAMED))[: -KEPT + 1]:
        if not _runs_still(old):
            shutil.rmtree(old, ignore_errors=True)
    return Run(runs / unnamed())


def _runs_still(run: Path) -> bool:
    """Whether the process that an unnamed run is called after is there."""
    try:
        os.kill(int(run.name.rpartition("-")[2]), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def unnamed() -> str:
    """A name for a run of this process that has none."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{os.getpid()}"


def made_by_workers(root: Path, name: str) -> Run | None:
    """The run of that name, if any process has begun to write it. Makes no folder."""
    for folder in (_usual_folder(root), _temporary_folder()):
        if (folder / name).is_dir():
            return Run(folder / name)
    return None


def remember_as_last(root: Path, run: Run) -> None:
    """`last` is the newest run that ended."""
    link = runs_folder(root) / LAST
    temporary = link.with_name(f".{LAST}-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(run.folder.resolve())
    temporary.replace(link)


def named(root: Path, name: str) -> Path:
    """The folder of a run: a name below the project's runs, or a path where it holds a separator."""
    return Path(name) if os.sep in name else runs_folder(root) / name


def existing(root: Path, name: str) -> Run:
    """Raises RunError naming the runs that there are, or for a run that another version of the suite wrote."""
    folder = named(root, name)
    if not (folder / "run.json").exists():
        known = sorted(path.parent.name for path in runs_folder(root).glob("*/run.json"))
        raise RunError(f"there is no run {name!r}; there are: {', '.join(known) or 'none (make one with --save-run)'}")
    run = Run(folder)
    next(run.items(), None)  # a run of another version is refused here, and not in the middle of pytest
    return run
