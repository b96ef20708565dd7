"""Where the code of a run's items is stored here: in the run's own project, where that has moved to, or in this one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.cases.lookup import project_cases, project_here
from conformance.cases.roots import CASE_ROOTS, SWEEP
from conformance.cli.run_options import snapshot_folders, stores_of
from conformance.storage.check_results import Outcome
from conformance.storage.runs import FOLDER, ItemRecord, Run

_NAMED = 3  # items that a line names


@dataclass
class LocatedItems:
    """`items`: with the folders of their snapshots here. `missing`: a line for each reason why items have none here.
    `notes`: where snapshots are, if that is not in this project.
    """

    items: list[ItemRecord] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def locate_items(run: Run, paths: Sequence[Path] = ()) -> LocatedItems:
    """Finds the folders of the snapshots of a run's items. `paths`: of the cases; default: where the run says.

    A project may have moved since the run, or may be on another machine. So the file of a case is looked for in this
    order:

    1. below this project, at the same place as below the run's, if it has the same test
    2. where it was in the run
    3. below the folder that the run is kept in
    4. elsewhere in this project, under the same name and with the same id; for a case of this package, here

    Raises RunError as Run.items does, and CaseError for a file in `paths` that cannot be imported.
    """
    found, missing = LocatedItems(), _Missing()
    search = _Search(run, paths)
    for item in run.items():
        store = search.store(item)
        if store is None:
            missing.add(search.reason(item), item.name)
        else:
            found.items.append(dataclasses.replace(item, store=str(store)))
    found.missing = missing.lines()
    here = project_here().root
    others = sorted({item.store for item in found.items if not Path(item.store).resolve().is_relative_to(here)})
    if others and not paths:
        found.notes = [f"what is stored for this run is in {', '.join(others)}"]
    return found


def without_code(items: Iterable[ItemRecord], targets: Iterable[str]) -> list[str]:
    """Returns lines on items that cannot be stored or compared: they did not compile, or have an unknown target."""
    known, missing = set(targets), _Missing()
    for item in items:
        compiled = item.checks.get("compile")
        if compiled is not None and compiled.outcome is Outcome.FAILED:
            missing.add(f"no code was generated: {compiled.detail}", item.name)
        elif item.text and item.target not in known:
            missing.add(f"there is no target {item.target} in the tables of targets here", item.name)
    return missing.lines()


class _Missing:
    """Reasons, and the names of items that share each."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        self._names.setdefault(reason, []).append(name)

    def lines(self) -> list[str]:
        return [f"{_listed(names)}: {reason}" for reason, names in self._names.items()]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


class _Search:
    def __init__(self, run: Run, paths: Sequence[Path]) -> None:
        self._root, self._paths = run.root, list(paths)
        self._here = project_here()
        kept = run.folder.resolve().parent  # .conformance/runs
        self._kept_in = kept.parents[1] if kept.name == "runs" and kept.parent.name == FOLDER else None

    def store(self, item: ItemRecord) -> Path | None:
        """The folder of the item's snapshots; None if its case is not here."""
        if self._paths:
            return self._stores.get(item.case)
        return self._of_file(item) or self._by_id(item)

    def reason(self, item: ItemRecord) -> str:
        """Why an item has no folder here."""
        if self._paths:
            return f"there is no such case in {', '.join(map(str, self._paths))}"
        file = f", and {item.file} does not exist" if item.file else ""
        where = f"there is no such case in {self._here.root} or in conformance{file}"
        return f"{where}; call the command in the run's project, or name the files of its cases"

    def _of_file(self, item: ItemRecord) -> Path | None:
        if not item.file:  # a run of an earlier version
            return Path(item.store) if Path(item.store).parent.is_dir() else None
        if self._root != self._here.root and (moved := self._moved(item, self._here.root)):
            return moved
        if Path(item.file).is_file():
            return Path(item.store)
        return self._moved(item, self._kept_in) if self._kept_in else None

    def _moved(self, item: ItemRecord, root: Path) -> Path | None:
        """The folder below another root, if that has the file of the case with its test."""
        file, store = Path(item.file), Path(item.store)
        if self._root is None or not (_is_below(file, self._root) and _is_below(store, self._root)):
            return None
        here = root / file.relative_to(self._root)
        return root / store.relative_to(self._root) if _has_test(here, item.case) else None

    def _by_id(self, item: ItemRecord) -> Path | None:
        """The folder of a case with the same id, if it is the same case: another project may have an equal id."""
        is_package = Path(item.file).parts[-3:-1] in [root.parts[-2:] for root in CASE_ROOTS] or not item.file
        own = self._own_stores.get((Path(item.file).name, item.case)) if item.file else None
        return own or (self._stores.get(item.case) if is_package else None)

    @functools.cached_property
    def _own_stores(self) -> dict[tuple[str, str], Path]:
        cases = project_cases().cases
        stores = stores_of(cases)
        return {(case.file.name, case.id): stores[case.file] for case in cases}

    @functools.cached_property
    def _stores(self) -> dict[str, Path]:
        """Id of a case → folder of its snapshots: of the paths, else of this project, then of this package."""
        return snapshot_folders(self._paths)


def _is_below(path: Path, folder: Path) -> bool:
    return folder in path.parents


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _has_test(file: Path, case: str) -> bool:
    """Whether a file has the test function of a case, by its text: the id begins with the function's name."""
    name = case.partition("/")[2].partition("-")[0]
    return f"def test_{name}(" in _text(file) or file.parent.resolve() == SWEEP.resolve()  # functions without text
