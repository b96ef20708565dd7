"""Records a coverage map, or checks one, in a process of its own.

`python -m conformance.cli.map_recording.recording REQUEST`. pytest collects the items, so all its ways to select
work. They are then captured without their devices, and not run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.capture.forked_call import use_one_thread
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.selectors import exclusion
from conformance.cli.map_recording.checked_map import Check, checked, of_the_map
from conformance.cli.map_recording.item_captures import capture_case
from conformance.cli.map_recording.made_map import MadeMap
from conformance.coverage import map_file
from conformance.coverage.coverage_map import CoverageError
from conformance.coverage.recording import Executed
from conformance.errors import ConformanceError
from conformance.harness.accidents.guardian import end_with
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.item.checks import Item
from conformance.harness.session import Session
from conformance.storage.runs import FOLDER

#: What is compiled before the items, so that a process has done what it does only once. Without gradients: a forked
#: process could not use autograd any more. What only the first gradients execute counts for each item with gradients.
_FIRST = "lambda x, w: (x @ w).relu().sum(-1)"
_FIRST_INPUTS = ("x=8x16", "w=16x32")


@dataclass(frozen=True)
class Request:
    """`arguments`: of pytest. `file`: of the map; "" for the default. `processes`: at a time.

    `missing`: record only items that the map lacks. `check`: instead of making a map, check the one of the file: so
    many items are recorded and compared. `whole_files`: whether the arguments select all items of their files.
    `whole_suite`: whether they select all files.
    """

    arguments: tuple[str, ...]
    file: str = ""
    processes: int = 1
    missing: bool = False
    check: int | None = None
    whole_files: bool = False
    whole_suite: bool = False


def default_file(root: Path, torch: str) -> Path:
    """Where a project keeps the map of a torch."""
    return root / FOLDER / "coverage" / map_file.file_name(torch)


def main(request: Request) -> int:
    """Returns an exit status: 1 where items could not be captured for a reason of their own, which is printed.

    Raises CoverageError for a selection without an item, and for a file that cannot be read or written.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    end_with(os.getppid(), signal.SIGTERM)
    found = Executed()
    with found.recorded():  # imports torch
        collected = _Collected()
        words = ["--collect-only", "-p", "no:terminal", "-p", "no:cacheprovider", *request.arguments]
        status = pytest.main(words, plugins=[collected])
        if status == pytest.ExitCode.INTERRUPTED and not collected.problems:
            raise KeyboardInterrupt
        if collected.problems or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise CoverageError("\n".join(collected.problems) or "pytest refused the selection; see above")
        items = [item for item in collected.items if _can_be_captured(item)]
        if not items:
            raise CoverageError(
                "this machine can generate code for none of the selected cases; see -k, --target and files"
            )
        known = None
        if request.check is not None:
            known, items = of_the_map(Path(request.file), items)
        session = items[0].session
        session.set_up_torch()
        use_one_thread()
        targets = {item.target.device: item.target for item in reversed(items)}.values()
        _capture_first(session, targets)
    again = Executed()
    with again.recorded():
        _capture_first(session, targets)
    once = found.without(again)
    if known is not None:
        return checked(
            known, items, once, Check(request.file, request.check or 0, request.whole_files, request.processes)
        )
    file = Path(request.file) if request.file else default_file(collected.root, session.torch)
    made = MadeMap(file, session.torch, once)
    if request.missing and request.whole_files:
        there = [item for item in collected.items if not exclusion(item.case, item.target)]
        made.drop_gone(there, whole_suite=request.whole_suite)
    return made.make(made.missing(items) if request.missing else items, request.processes)


def _interrupt(*_: object) -> None:
    """SIGTERM is as Ctrl-C: what was captured is kept. A second one must not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


class _Collected:
    """A plugin of pytest that keeps what is collected."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.problems: list[str] = []
        self.root = Path()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problems.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.root = session.config.rootpath
        self.items = [conformance_item(item) for item in session.items if is_conformance_item(item)]


def _can_be_captured(item: Item) -> bool:
    return not (item.session.compiler.generation_problem(item.target) or exclusion(item.case, item.target))


def _capture_first(session: Session, targets: Any) -> None:
    for target in targets:
        case, _ = resolve_case(_FIRST, (), AdhocOptions(inputs=_FIRST_INPUTS))
        capture_case(session, case, target)


if __name__ == "__main__":
    try:
        data = json.loads(sys.argv[1])
        status = main(Request(**{**data, "arguments": tuple(data["arguments"])}))
    except ConformanceError as error:
        print(f"error: {error}", file=sys.stderr)
        status = error.status
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
