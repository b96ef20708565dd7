"""The report's own pages of runs: made when someone asks, and kept until a run changes."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import ConformanceError
from conformance.storage.runs import LAST, Run, RunError, existing_runs

if TYPE_CHECKING:
    from conformance.report.columns import Cells
    from conformance.report.comparison import Side

#: How many pages are kept; one of 20,000 items has 12 MB.
_KEPT = 6


class NoSuchRunError(ConformanceError, ValueError):
    """No run of the project has that name."""


class Reports:
    """`root`: the folder of the project, whose runs are the only ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept: OrderedDict[tuple[object, ...], Any] = OrderedDict()

    def runs(self) -> list[Run]:
        """The runs, the newest first, each once."""
        distinct = {run.folder.resolve() for run in self._by_name().values()}
        return sorted(map(Run, distinct), key=lambda run: (_began(run), run.folder.name), reverse=True)

    def last(self) -> str:
        """The name of the run that ended last; "" if it is elsewhere, or if there is none."""
        found = self._by_name().get(LAST)
        return found.folder.resolve().name if found else ""

    def run(self, name: str) -> Run:
        """Raises NoSuchRunError, and RunError for a run that cannot be read."""
        found = self._by_name().get(name)
        if found is None:
            raise NoSuchRunError(f"there is no run {name!r} in this project")
        description(found)
        return found

    def cells(self, run: Run) -> Cells:
        """Raises RunError for a run that cannot be read."""
        from conformance.report.columns import cells_of

        return self._once(("cells", _stamp(run)), lambda: cells_of([run]))

    def page(self, run: Run, links: Mapping[str, str]) -> str:
        """The report of a run. `links`: text → address of a link in its head. Raises RunError."""
        from conformance.report.changes import changes_of
        from conformance.report.further_pages import further_pages
        from conformance.report.page import page

        def made() -> str:
            cells = self.cells(run)
            title = run.folder.resolve().name
            return page([run], cells, changes_of(cells, [run]), further_pages(cells), title, links=links)

        return self._once(("page", _stamp(run)), made)

    def comparison(self, sides: Sequence[Side], links: Mapping[str, str]) -> str:
        """The report of what differs between two sides. Raises RunError."""
        from conformance.report.comparison import compare
        from conformance.report.further_pages import further_pages
        from conformance.report.page import page

        def made() -> str:
            found, runs = compare(sides), [side.run for side in sides]
            title = " ↔ ".join(run.folder.resolve().name for run in runs)
            return page(runs, found.cells, found.changes, further_pages(found.cells), title, found, links=links)

        key = tuple((_stamp(side.run), side.target) for side in sides)
        return self._once(("comparison", *key), made)

    def _by_name(self) -> dict[str, Run]:
        """The runs, without links that lead out of their folder."""
        known = existing_runs(self.root).items()
        return {name: run for name, run in known if run.folder.resolve().parent == run.folder.parent.resolve()}

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


def description(run: Run) -> dict[str, Any]:
    """What run.json holds. Raises RunError for one that is incomplete."""
    found = run.description()
    if missing := [key for key in ("torch", "targets") if key not in found]:
        raise RunError(f"{run.folder / 'run.json'} has no {' and no '.join(missing)}: write the run again")
    return found


def _began(run: Run) -> int:
    return (run.folder / "run.json").stat().st_mtime_ns


def _stamp(run: Run) -> tuple[str, int, int]:
    """Differs after each change of a run: each of its files replaces another one in its folder."""
    folder = run.folder.resolve()
    folders = [folder, *(Path(path) for path, _, _ in os.walk(folder / "items"))]
    return str(folder), _began(run), max(path.stat().st_mtime_ns for path in folders)
