"""A run: a folder with one file for each item. Workers write the files, and one process reads them at the end.

Accepting, reviewing and comparing with another run start from these files. Two workers never write the same file.
docs/formats.md describes them; schemas/run.json beside this file is their JSON Schema.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.errors import ConformanceError
from conformance.settings import Overlay, option_name
from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.installed import is_installation

#: The format of a run's files. It rises when a reader of the number before would misread a file; see docs/formats.md.
#: Runs without a number are of format 1.
FORMAT = 2
#: In the root folder of the tests; git ignores it.
FOLDER = ".conformance"
#: The name of the last run that ended.
LAST = "last"
#: How many unnamed runs are kept.
MAX_UNNAMED_RUNS = 5
#: How the numerics of an item were computed.
EVIDENCE = ("native", "emulated", "generated")
#: The detail of a check that began and did not end. Its record is replaced when the item ends.
NOT_ENDED = "did not end"
_DESCRIPTION = "run.json"
_UNUSED = "unused.json"
_SELECTED = "selected.json"
_WITHOUT_QUICK = "without_quick.json"
#: With --audit: what audit_report.py says, as data.
AUDIT = "audit.json"
_UNNAMED = "[0-9]*T[0-9]*-[0-9]*"


class RunError(ConformanceError, ValueError):
    """A run cannot be read or written, or does not exist."""


@dataclass
class ItemRecord:
    """The results of one item.

    `mode`: "native" or "deviceless". `store`, `known`: the folders of its snapshots and of its known failures, which
    belong to the case. `layers`: with an overlay, where parts came from: "target" → a further table, "code" → the
    folder with the stored text, the name of an excused check → the overlay with the known failure.
    `file`: the file of its case, as an absolute path; "" in a run of an earlier version.
    `text`: the text that a snapshot stores; "" if the item did not compile.
    `facts`: the lines of each fact. `fact_values`: the same as data, see Facts.values; empty in runs of format 1.
    `checks`: name of a check → its result; "compile" if the item did not compile.
    `drift`: if nothing is stored for this torch version, the difference from the nearest version's text.
    `missed`: optimisations that the case expects and Inductor does not make; see missed_optimisations.find.
    `confirmed`: whether real hardware gave the stored text that this one was compared with; None without comparison.
    `binaries`: the properties of the kernels' binaries, a line for each configuration.
    `evidence`: how far the item was followed: "native" (executed on the device), "emulated" (the code for the device,
    executed on the CPU), "compiled" (not executed, but every kernel was compiled to a binary) or "generated".
    `reused`: if the numerics passed before and were not run: how, and in which run. `evidence` does not count them.
    `shared_with`: the target that the capture was made for and that ran, if everything is the same for both.
    `kernels`: what the emulated kernels ran at most, a line for each kernel. `shortfalls`: a line for each of them that
    ran only one program or one iteration and could have run more, so that it is not as well tested as others.
    `seconds`: the wall time of compiling, 0 with `shared_with`. `cpu_seconds`: the CPU time of the worker and of its
    processes.
    `needs_fp64`: on a target without double precision, why the code needs it, so that the device would raise.
    `audit`: with --audit, the verdict on each opt-out; see harness/item/audit.py.
    `problems`: those of wrong numerics, as Problem.to_json gives them: all that known failures excused, and with
    --write-known-failures those that none excuses. `raised`: with that option, check → the type and message of its
    failure.
    `error_profiles`: how large the errors of eager and of compiled are by magnitude, see numerics/error_profile.py; []
    where the numerics did not run for this target.
    `same_bits`: with that check, property → `word`, `evidence`, `name`, `text`, `reason`, `bits`.
    `run`: in a merged run, the name of the run that the record is from, see merged_runs.py; "" elsewhere.
    """

    case: str
    target: str
    mode: str
    torch: str
    store: str
    known: str = ""
    text: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    fact_values: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, CheckResult] = field(default_factory=dict)
    drift: str = ""
    missed: list[dict[str, str]] = field(default_factory=list)
    confirmed: bool | None = None
    binaries: list[str] = field(default_factory=list)
    evidence: str = "generated"
    reused: str = ""
    shared_with: str = ""
    kernels: list[str] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    needs_fp64: str = ""
    audit: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    file: str = ""
    run: str = ""
    layers: dict[str, str] = field(default_factory=dict)
    raised: dict[str, str] = field(default_factory=dict)
    error_profiles: list[dict[str, Any]] = field(default_factory=list)
    same_bits: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.case}-{self.target}"

    def outcome(self, check: str) -> Outcome | None:
        """Returns how a check ended; None if the check was not made."""
        return self.checks[check].outcome if check in self.checks else None

    def to_json(self) -> dict[str, Any]:
        checks = {check: result.to_json() for check, result in self.checks.items()}
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"format": FORMAT} | data | {"checks": checks}

    @classmethod
    def from_json(cls, data: Any) -> ItemRecord:
        """Reads what to_json wrote, of this format or an older one. Raises TypeError or ValueError for anything else.

        Ignores keys that it does not know: a newer release may add some.
        """
        checks = {check: CheckResult.from_json(result) for check, result in data.get("checks", {}).items()}
        known = {each.name for each in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known} | {"checks": checks})


class Run:
    """The folder of a run: `run.json`, `selected.json`, `items/<case>-<target>.json`, `failures/<case>-<target>/`,
    `workers/<worker>.txt`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, description: dict[str, Any]) -> None:
        """Empties the folder and writes run.json. Raises RunError if the folder cannot be written to."""
        self.delete()
        self.write_description(description)

    def write_description(self, description: dict[str, Any]) -> None:
        """Writes run.json and leaves other files. Raises RunError if the folder cannot be written to.

        `description`: `conformance`, the release that writes it, `torch`, `triton`, `targets` and `machine`; in a
        merged run also `merged`. Adds the format and the time.
        """
        try:
            (self.folder / "items").mkdir(parents=True, exist_ok=True)
            time = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
            _write_json(self.folder / _DESCRIPTION, {"format": FORMAT, "conformance": "", "time": time} | description)
        except OSError as error:
            raise RunError(f"the run's folder {self.folder} cannot be written to: {error.strerror}") from error

    def description(self) -> dict[str, Any]:
        """Returns what run.json holds. In a run of format 1, `format` is 1, `conformance` and `time` are "".

        Raises RunError for a format that this release does not know, and for a file that cannot be read.
        """
        path = self.folder / _DESCRIPTION
        try:
            data = {"format": 1, "conformance": "", "time": ""} | json.loads(path.read_text(encoding="utf-8"))
            number = int(data["format"])
        except (OSError, TypeError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}; write the run again") from error
        refuse_newer_format(str(self.folder), number, data["conformance"])
        return data

    @property
    def root(self) -> Path | None:
        """The rootdir of pytest in that run, on its machine; None in a run of an earlier version.

        Raises RunError as `description` does.
        """
        root = self.description().get("root")
        return Path(root) if root else None

    @property
    def overlay(self) -> Overlay:
        """What was laid over the cases' own place, on the run's machine. Raises RunError as `description` does."""
        data = self.description().get("overlay")
        return Overlay.from_json(data) if data else Overlay()

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_item(self, item: ItemRecord) -> None:
        """Writes the results of an item. The worker that ran the item calls this.

        Raises RunError if the folder cannot be written to, such as on a full disk.
        """
        try:
            _write_json(self._item_file(item.name), item.to_json())
        except OSError as error:
            reason = f"the run's folder {self.folder} cannot be written to: {error.strerror}"
            raise RunError(f"{reason}; not recorded: {item.name}") from None

    def remove_item(self, name: str) -> None:
        """Removes the record of an item that was interrupted."""
        with contextlib.suppress(OSError):
            self._item_file(name).unlink()

    def write_selected(self, names: Mapping[str, str]) -> None:
        """Writes the tests that pytest wants to run: node id → name of the item's record, "" for other tests.

        All workers collect the same, so only the first one writes. Raises RunError if the folder cannot be written to.
        """
        path = self.folder / _SELECTED
        try:
            if not path.exists():
                _write_json(path, dict(names))
        except OSError as error:
            raise RunError(f"the run's folder {self.folder} cannot be written to: {error.strerror}") from error

    def selected(self) -> dict[str, str]:
        """Returns what `write_selected` wrote, in the order of the run; empty if it wrote nothing."""
        path = self.folder / _SELECTED
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def write_items_without_quick(self, count: int) -> None:
        """Writes how many items a run with --quick would have had without it. All workers write the same."""
        _write_json(self.folder / _WITHOUT_QUICK, count)

    def items_without_quick(self) -> int:
        """Returns what `write_items_without_quick` wrote; 0 if it wrote nothing."""
        path = self.folder / _WITHOUT_QUICK
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else 0

    def items(self) -> Iterator[ItemRecord]:
        """Yields the items, sorted by name. Raises RunError if this version of the suite did not write them."""
        for path in sorted((self.folder / "items").rglob("*.json")):
            yield self._read(path)

    def item(self, case: str, target: str) -> ItemRecord | None:
        """Returns an item; None if the run has no such item. Raises RunError as `items` does."""
        return self.item_named(f"{case}-{target}")

    def item_named(self, name: str) -> ItemRecord | None:
        """Returns the item with that name; None if the run has no such item. Raises RunError as `items` does."""
        path = self._item_file(name)
        return self._read(path) if path.exists() else None

    def has_ended(self, name: str) -> bool:
        """Whether the item with that name has a record, and the item has ended. Raises RunError as `items` does."""
        record = self.item_named(name)
        return record is not None and all(each.detail != NOT_ENDED for each in record.checks.values())

    def ended_items(self) -> set[str]:
        """The names of the items that have ended. Raises RunError as `items` does."""
        return {
            record.name for record in self.items() if all(each.detail != NOT_ENDED for each in record.checks.values())
        }

    def _item_file(self, name: str) -> Path:
        return self.folder / "items" / f"{name}.json"

    def worker_file(self, worker: str) -> Path:
        """The file that a worker writes its process id into, and after a crash its stacks."""
        return self.folder / "workers" / f"{worker}.txt"

    def _read(self, path: Path) -> ItemRecord:
        try:
            return ItemRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (AttributeError, TypeError, ValueError) as error:
            name = self.folder.resolve().name
            again = "pytest" if Path(name).match(_UNNAMED) else f"pytest {option_name('save-run')} {name}"
            reason = f"was not written by this version of the suite ({error})"
            raise RunError(f"the run {self.folder} {reason}; write it again with: {again}") from error

    def write_unused_snapshots(self, case_ids: Mapping[str, Sequence[str]], advice: Mapping[str, str]) -> None:
        """Writes the snapshots without a case: their folder → ids. All workers write the same.

        `advice`: folder → how to remove them.
        """
        entries = [{"folder": each, "cases": list(ids), "advice": advice[each]} for each, ids in case_ids.items()]
        _write_json(self.folder / _UNUSED, entries)

    def write_audit(self, data: Mapping[str, Any]) -> None:
        """Writes the verdicts on all opt-outs. Raises RunError if the folder cannot be written to."""
        try:
            _write_json(self.folder / AUDIT, {"format": FORMAT} | dict(data))
        except OSError as error:
            raise RunError(f"the run's folder {self.folder} cannot be written to: {error.strerror}") from error

    def unused_snapshots(self) -> list[tuple[list[str], str]]:
        """Returns what `write_unused_snapshots` wrote: ids and the advice, for each folder."""
        path = self.folder / _UNUSED
        entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return [(entry["cases"], entry["advice"]) for entry in entries]

    def write_explanation(self, name: str, data: Mapping[str, Any]) -> None:
        """Writes what explains the kernels of an item. Raises RunError if the folder cannot be written to."""
        try:
            _write_json(self.explanation_file(name), data)
        except OSError as error:
            raise RunError(f"the run's folder {self.folder} cannot be written to: {error.strerror}") from error

    def explanation_file(self, name: str) -> Path:
        """Of an item with --explain. A report shows it, and nothing else reads it: it has no format."""
        return self.folder / "explanations" / f"{name}.json"

    def artifacts(self, name: str) -> Path:
        """An empty folder for the artifacts of a failing item."""
        folder = self.folder / "failures" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def message_file(check: str) -> str:
    """The name of the file with the whole message of a failed check, in the folder of its artifacts."""
    return f"{check}.txt"


def refuse_newer_format(name: str, number: int, release: str = "") -> None:
    """Raises RunError for the number of a format that this release does not know. `release`: the one that wrote it."""
    if number > FORMAT:
        raise RunError(
            f"{name} has format {number}, and this release of conformance reads formats up to {FORMAT}: open it with "
            f"{f'conformance {release} or newer' if release else 'the release that wrote it, or a newer one'}"
        )


def _write_json(path: Path, data: Any) -> None:
    """Writes a file of a run. A run has thousands of files, and after a power loss it is simply run again."""
    atomic_files.write_atomically(path, json.dumps(data, indent=1), survives_power_loss=False)


def runs_folder(root: Path) -> Path:
    """Returns the folder of a project's runs; a temporary folder if the root cannot be written to."""
    folder = _usual_folder(root)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _hide_from_git(folder.parent)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    return _temporary_folder()


def _hide_from_git(folder: Path) -> None:
    """Writes a .gitignore for everything in the folder, so that a project does not see runs as untracked files."""
    file = folder / ".gitignore"
    if not file.exists():
        file.write_text("# Results of runs. What is expected is stored elsewhere.\n*\n", encoding="utf-8")


def _usual_folder(root: Path) -> Path:
    return private_folder(root) / "runs"


def private_folder(root: Path) -> Path:
    """Returns .conformance/ of a project. `root`: pytest's rootdir.

    pytest may take the folder of an installed package for its rootdir, where a path of the package is its only
    argument. Nothing is written there: then the folder is below the one that the command was called from.
    """
    return (Path.cwd() if is_installation(root) else root) / FOLDER


def hidden_folder(root: Path) -> Path:
    """Makes .conformance/ of a project, which git ignores, and returns it."""
    folder = private_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    _hide_from_git(folder)
    return folder


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"conformance-runs-{os.getuid()}"


def temporary_folder_notice(root: Path, run: Run) -> list[str]:
    """Returns a line that names the folder of a run in the temporary folder; no line for other runs."""
    if run.folder.parent != _temporary_folder():
        return []
    return [f"{_usual_folder(root)} cannot be written to: this run is in {run.folder}"]


def new_run(root: Path, name: str | None, process: int | None = None) -> Run:
    """Returns a run for a name. Without a name, returns an unnamed run and deletes the oldest unnamed runs.

    Keeps the newest unnamed runs, and those whose process still exists. `process`: the process id of this run, if that
    is not this process.
    """
    if name:
        return Run(run_folder(root, name))
    runs = runs_folder(root)
    for old in sorted(runs.glob(_UNNAMED))[: -MAX_UNNAMED_RUNS + 1]:
        if not is_running(int(old.name.rpartition("-")[2])):  # the id of its process ends the name of a run
            shutil.rmtree(old, ignore_errors=True)
    return Run(runs / unique_run_name(process))


def is_running(process: int) -> bool:
    """Returns whether a process with that id runs. A zombie does not: it ended, and its parent has not asked."""
    with contextlib.suppress(OSError):  # other systems than Linux have no such file
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def unique_run_name(process: int | None = None) -> str:
    """Returns the name of an unnamed run: the time and a process id, by default that of this process."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{process or os.getpid()}"


def begun_run(root: Path, name: str) -> Run | None:
    """Returns the run of that name if a worker has begun to write it. Creates no folder."""
    for folder in (_usual_folder(root), _temporary_folder()):
        if (folder / name).is_dir():
            return Run(folder / name)
    return None


def link_last_run(root: Path, run: Run) -> None:
    """Makes the link `last` point to a run. It stays right where the project moves with its runs."""
    folder = runs_folder(root)
    with atomic_files.replaced_atomically(folder / LAST) as temporary:
        temporary.unlink(missing_ok=True)
        beside = run.folder.resolve().parent == folder.resolve()
        temporary.symlink_to(run.folder.name if beside else run.folder.resolve())


def run_folder(root: Path, name: str) -> Path:
    """Returns the folder of a run. `name`: a name below the project's runs, or a path if it has a separator."""
    return Path(name) if os.sep in name else runs_folder(root) / name


def open_run(root: Path, name: str) -> Run:
    """Returns an existing run. `name`: a name below the project's runs, or the path of a run's folder.

    Creates nothing. Raises RunError if there is no such run, or if this release cannot read it.
    """
    runs = {} if os.sep in name else existing_runs(root)
    run = runs.get(name) or Run(Path(name))
    if not (run.folder / _DESCRIPTION).exists():
        raise RunError(_unknown_run(root, name))
    run.description()
    next(run.items(), None)  # refuses a run of another version now, not in the middle of pytest
    return run


def existing_runs(root: Path) -> dict[str, Run]:
    """Returns the runs of a project by name, the names sorted. Creates no folder.

    Projects whose root cannot be written to share a temporary folder: of it, only this project's runs.
    """
    shared = [Run(path.parent) for path in sorted(_temporary_folder().glob(f"*/{_DESCRIPTION}"))]
    runs = {run.folder.name: run for run in shared if _is_of(run, root)}
    runs |= {path.parent.name: Run(path.parent) for path in sorted(_usual_folder(root).glob(f"*/{_DESCRIPTION}"))}
    return dict(sorted(runs.items()))


def _is_of(run: Run, root: Path) -> bool:
    try:
        return run.root == root.resolve()
    except RunError:
        return False


def _unknown_run(root: Path, name: str) -> str:
    """The message for a run that does not exist: which ones do."""
    folder = Path(name)
    if os.sep not in name and not folder.is_dir():
        names = ", ".join(existing_runs(root)) or f"none (write one with {option_name('save-run')})"
        return f"there is no run {name!r}; existing runs: {names}; looked in {_usual_folder(root)}"
    if not folder.is_dir():
        return f"there is no run {name!r}: the folder does not exist"
    inside = [*folder.glob("run.json"), *folder.glob(f"*/{_DESCRIPTION}"), *folder.glob(f"{FOLDER}/runs/*/run.json")]
    names = ", ".join(str(path.parent) for path in sorted(inside))
    return f"the folder {name!r} is no run: it has no run.json" + (f"; there are runs in {names}" if names else "")
