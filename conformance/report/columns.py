"""The columns of a report: one for each pair of a torch release and a target; and the cells of several runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from conformance.devices.targets import targets
from conformance.harness import accounting
from conformance.report.states import state_of
from conformance.storage.precedence import Precedence, evidence, precedence, time_of
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshot_format import version_number
from conformance.storage.snapshots import torch_release


@dataclass(frozen=True)
class Column:
    """A column of the matrix. `torch`: a release, such as "2.13". `side`: of a comparison, "A" or "B"; else ""."""

    torch: str
    target: str
    side: str = ""


@dataclass(frozen=True)
class Cell:
    """One case in one column. `record`: None if the item was selected and no run recorded it. `run`: its number.

    `precedence`: whether it counts before the same cell of another run. `node`: pytest's node id; "" if the run does
    not say it. `artifacts`: the folder that a failed item left; None without one. `explanation`: the file that an item
    of a run with --explain left.
    """

    case: str
    column: Column
    run: int
    precedence: Precedence
    record: ItemRecord | None = None
    node: str = ""
    artifacts: Path | None = None
    explanation: Path | None = None

    @property
    def script(self) -> str:
        """The reproduction of a failed item; "" without one."""
        return self.artifact("reproduce.py")

    def artifact(self, name: str) -> str:
        """The text of a file that a failed item left; "" if it left none of that name."""
        path = self.artifacts / name if self.artifacts else None
        return path.read_text(encoding="utf-8", errors="replace") if path and path.is_file() else ""

    @cached_property
    def state(self) -> str:
        """One of STATES."""
        return state_of(self.record)

    @property
    def evidence(self) -> str:
        """One of storage.precedence.EVIDENCE: "none" if no code was generated."""
        return evidence(self.record) if self.record else "none"


@dataclass
class Cells:
    """The cells of several runs. `replaced`: how many cells two runs have, so that one of the two is not shown."""

    cells: dict[tuple[str, Column], Cell] = field(default_factory=dict)
    replaced: int = 0

    @property
    def columns(self) -> list[Column]:
        """In the order of the table of targets; those of one target by side and torch release."""
        order = {name: number for number, name in enumerate(targets())}
        used = {column for _, column in self.cells}
        return sorted(
            used, key=lambda each: (order.get(each.target, 999), each.target, each.side, version_number(each.torch))
        )

    @property
    def cases(self) -> list[str]:
        return sorted({case for case, _ in self.cells})

    def add(self, cell: Cell) -> None:
        """Adds a cell. If two runs have the same one, precedence.py says which one stays."""
        key = (cell.case, cell.column)
        other = self.cells.get(key)
        if other is not None:
            self.replaced += 1
            if cell.precedence < other.precedence:
                return
        self.cells[key] = cell


def cells_of(runs: Sequence[Run]) -> Cells:
    """Reads the items of all runs. Raises RunError if one cannot be read."""
    found = Cells()
    for number, run in enumerate(runs):
        items, time = list(run.items()), time_of(run)
        nodes = {name: node for node, name in run.selected().items()}
        for item in items:
            column = Column(torch_release(item.torch), item.target)
            counts = precedence(item, time, number)
            found.add(Cell(item.case, column, number, counts, item, nodes.get(item.name, ""), *_left_by(run, item)))
        release = torch_release(str(run.description()["torch"]))
        recorded = {item.name for item in items}
        for name in accounting.not_run(run, items):
            if name in recorded:
                continue
            case, target = _split(name, run.description()["targets"])
            found.add(Cell(case, Column(release, target), number, precedence(None, time, number)))
    return found


def _left_by(run: Run, item: ItemRecord) -> tuple[Path | None, Path | None]:
    """The artifacts and the explanation of an item."""
    folder, explanation = run.folder / "failures" / item.name, run.explanation_file(item.name)
    return folder if folder.is_dir() else None, explanation if explanation.is_file() else None


def _split(name: str, known: Iterable[str]) -> tuple[str, str]:
    """The case and the target of an item's name. Raises ValueError for a target that the run did not select."""
    for target in known:
        if name.endswith(f"-{target}"):
            return name.removesuffix(f"-{target}"), target
    raise ValueError(f"the item {name} ends with no target of its run")
