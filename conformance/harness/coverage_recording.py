"""Records a coverage map, or checks one, in a process of its own.

`python -m conformance.harness.coverage_recording REQUEST`. pytest collects the items, so all its ways to select work.
They are then captured without their devices, and not run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.capture.invoke import error_text
from conformance.cases.adhoc import AdhocOptions, resolve_case
from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.coverage import map_file
from conformance.coverage.coverage_map import CoverageError, CoverageMap, MappedFile, MappedFunction
from conformance.coverage.drift import differing_lines, mapped_lines, present, sample
from conformance.coverage.recording import record, watched_lines
from conformance.devices.environment import torch_build
from conformance.devices.targets import Target
from conformance.errors import ConformanceError
from conformance.harness.accidents.guardian import end_with
from conformance.harness.collected import conformance_item, is_conformance_item
from conformance.harness.item import Item
from conformance.harness.item_exclusion import missing_dtype
from conformance.harness.session import Session
from conformance.sources.executed_lines import ExecutedLines
from conformance.sources.source_in_use import source_in_use
from conformance.sources.torch_source import blob_id
from conformance.sources.units import units_of
from conformance.storage.runs import FOLDER

#: What is compiled before the items, so that a process has done what it does only once. Without gradients: a forked
#: process could not use autograd any more. What only the first gradients execute counts for each item with gradients.
_FIRST = "lambda x, w: (x @ w).relu().sum(-1)"
_FIRST_INPUTS = ("x=8x16", "w=16x32")
_SHOWN = 3  # names of items that failed in the same way
_SECONDS = 10.0  # between two lines of progress
_SECONDS_BETWEEN_FILES = 60.0  # the file is written so often: a killed process keeps most


@dataclass(frozen=True)
class Request:
    """`arguments`: of pytest. `file`: of the map; "" for the default. `processes`: at a time.

    `missing`: record only items that the map lacks. `check`: instead of making a map, check the one of the file: so
    many items are recorded and compared. `whole_files`: whether the arguments select all items of their files.
    """

    arguments: tuple[str, ...]
    file: str = ""
    processes: int = 1
    missing: bool = False
    check: int | None = None
    whole_files: bool = False


def default_file(root: Path, torch: str) -> Path:
    """Where a project keeps the map of a torch."""
    return root / FOLDER / "coverage" / map_file.file_name(torch)


def main(request: Request) -> int:
    """Returns an exit status: 1 where items could not be captured for a reason of their own, which is printed.

    Raises CoverageError for a selection without an item, and for a file that cannot be read or written.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    end_with(os.getppid(), signal.SIGTERM)
    found: ExecutedLines = defaultdict(set)
    with watched_lines(found):  # imports torch
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
            known, items = _of_the_map(Path(request.file), items)
        session = items[0].session
        session.set_up_torch()
        _use_one_thread()
        targets = {item.target.device: item.target for item in reversed(items)}.values()
        _capture_first(session, targets)
    again: ExecutedLines = defaultdict(set)
    with watched_lines(again):
        _capture_first(session, targets)
    once = {path: found[path] - again[path] for path in found}
    if known is not None:
        return _checked(known, items, once, request)
    file = Path(request.file) if request.file else default_file(collected.root, session.torch)
    made = _MadeMap(file, session.torch, once)
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
    return not (item.session.generation_problem(item.target) or exclusion(item.case, item.target))


def _use_one_thread() -> None:
    """A forked process would wait for the other threads of OpenMP, which it does not have."""
    import torch

    torch.set_num_threads(1)


def _capture_first(session: Session, targets: Any) -> None:
    for target in targets:
        case, _ = resolve_case(_FIRST, (), AdhocOptions(inputs=_FIRST_INPUTS))
        _capture(session, case, target)


def _capture(session: Session, case: Case, target: Target) -> None:
    with session.capture(case, target, "deviceless", ir_pre_fusion=False):
        pass


class _MadeMap:
    """The map that is made: an earlier one of the same torch, in which the recorded items replace themselves."""

    def __init__(self, file: Path, torch: str, once: dict[str, set[int]]) -> None:
        self._file, self._folder = file, torch_build().folder
        source = source_in_use()
        name = source.name if source else ""
        self._map = CoverageMap(torch, name)
        if file.exists():
            before = map_file.read(file)
            if (before.torch, before.source) != (torch, name):
                raise CoverageError(
                    f"{file} is the map of {before.name}, and this is {self._map.name}: name another file with -o"
                )
            self._map = before
            for path in list(before.files):
                self._refuse_changed(path)
        for path, lines in once.items():
            if lines:
                file_ = self._mapped(path)
                file_.once |= lines

    def missing(self, items: Sequence[Item]) -> list[Item]:
        return [item for item in items if self._map.number(item.case.id, item.target.name) is None]

    def make(self, items: Sequence[Item], processes: int) -> int:
        progress = _Progress(len(items), "not in the map")
        captures = [_capture_of(item) for item in items]
        interrupted, written = False, time.monotonic()
        try:
            for each in record(captures, processes):
                item = items[each.number]
                if not each.error:
                    for path in each.lines:
                        self._mapped(path)
                    self._map.add(item.case.id, item.target.name, each.lines)
                progress.step(item.name, each.error)
                if time.monotonic() - written > _SECONDS_BETWEEN_FILES:
                    map_file.write(self._file, self._map)
                    written = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
        size = map_file.write(self._file, self._map)
        progress.end(interrupted=interrupted)
        print(
            f"{self._file}: {len(self._map.items):,} items of {len(self._map.cases):,} cases, "
            f"{self._map.name}, {size / 1e6:.2f} MB"
        )
        return 130 if interrupted else int(progress.has_failed)

    def _mapped(self, path: str) -> MappedFile:
        if path not in self._map.files:
            content = (self._folder / path).read_bytes()
            functions = units_of(content.decode()).functions.values()
            mapped = [MappedFunction(each.name, each.first, each.last) for each in functions]
            self._map.files[path] = MappedFile(blob_id(content), mapped)
        return self._map.files[path]

    def _refuse_changed(self, path: str) -> None:
        file = self._folder / path
        if not file.is_file() or blob_id(file.read_bytes()) != self._map.files[path].blob:
            raise CoverageError(
                f"{self._file} is the map of other Python files: torch/{path} differs; delete it, or name another file "
                "with -o"
            )


def _of_the_map(file: Path, items: Sequence[Item]) -> tuple[CoverageMap, list[Item]]:
    """The map, and the items on its targets. Raises CoverageError for a map of another torch."""
    known = map_file.read(file)
    source = source_in_use()
    here = CoverageMap(torch_build().version, source.name if source else "")
    if (known.torch, known.source) != (here.torch, here.source):
        raise CoverageError(f"{file} is the map of {known.name}, and this is {here.name}: check it with that torch")
    targets = set(known.targets)
    found = [item for item in items if item.target.name in targets]
    if not found:
        raise CoverageError(f"no selected case is on a target of the map: {', '.join(known.targets)}")
    return known, found


def _checked(known: CoverageMap, items: Sequence[Item], once: dict[str, set[int]], request: Request) -> int:
    """Returns 1 where the map is no longer true."""
    names = {_name(item): item for item in items}
    drift = present(known, list(names), whole_files=request.whole_files)
    comparable = [name for name in names if known.number(*name) is not None]
    chosen = [comparable[place] for place in sample(comparable, request.check or 0)]
    mapped = mapped_lines(known, chosen)
    ignored = {path: once.get(path, set()) | file.once for path, file in known.files.items()}
    progress = _Progress(len(chosen), "not compared")
    for each in record([_capture_of(names[name]) for name in chosen], request.processes):
        name = chosen[each.number]
        recorded = {path: set(lines) for path, lines in each.lines.items()}
        if not each.error and (differing := differing_lines(mapped[name], recorded, ignored)):
            drift.differing[name] = differing
        drift.sampled += not each.error
        progress.step(names[name].name, each.error)
    progress.end(interrupted=False)
    print("\n".join(drift.lines()))
    make = "python -m conformance coverage make"
    if drift.gone or drift.differing:
        print(f"delete it, and make it again: {make} -o {request.file}")
    elif drift.lacking:
        print(f"add them: {make} --missing -o {request.file}")
    return int(bool(drift) or progress.has_failed)


def _name(item: Item) -> tuple[str, str]:
    return item.case.id, item.target.name


def _capture_of(item: Item) -> Callable[[], None]:
    """A function that captures an item. It raises CoverageError where compiling fails and nothing says that it does."""

    def capture() -> None:
        session, case, target = item.session, item.case, item.target
        try:
            _capture(session, case, target)
        except Exception as error:
            known = session.known_failures_of(case).entry_for(
                case.id, "compile", target.name, session.torch, "deviceless"
            )
            if not (known or missing_dtype(target, error)):
                raise CoverageError(error_text(error).strip().splitlines()[0]) from error

    return capture


class _Progress:
    """Lines on stderr: how many items are done, the time left, and how many failed."""

    def __init__(self, total: int, failed: str) -> None:
        """`failed`: what an item that failed is not, such as "not in the map"."""
        self._text_of_failed = failed
        self._total, self._done, self._failed = total, 0, defaultdict[str, list[str]](list)
        self._begin = self._shown = time.monotonic()

    def step(self, name: str, error: str) -> None:
        self._done += 1
        if error:
            self._failed[error].append(name)
        now = time.monotonic()
        if now - self._shown >= _SECONDS:
            self._shown = now
            left = (now - self._begin) / self._done * (self._total - self._done)
            print(f"{self._done:,} of {self._total:,} items, {left / 60:.0f} min left", file=sys.stderr, flush=True)

    @property
    def has_failed(self) -> bool:
        return bool(self._failed)

    def end(self, *, interrupted: bool) -> None:
        if interrupted:
            print(f"interrupted: {self._done:,} of {self._total:,} items are kept", file=sys.stderr)
        for error, names in sorted(self._failed.items(), key=lambda each: -len(each[1])):
            shown = ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
            print(f"{self._text_of_failed}: {len(names):,} items raised {error}: {shown}", file=sys.stderr)


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
