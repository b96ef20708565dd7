"""A map that is made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from conformance.cli.map_recording.item_captures import capture_of, name_of
from conformance.cli.map_recording.progress import Progress
from conformance.coverage import map_file
from conformance.coverage.coverage_map import CoverageError, CoverageMap, MappedFile, MappedFunction
from conformance.coverage.drift import present
from conformance.coverage.recording import Executed, record
from conformance.devices.environment import torch_build
from conformance.harness.item.checks import Item
from conformance.sources.source_in_use import source_in_use
from conformance.sources.torch_source import blob_id
from conformance.sources.units import units_of

_SECONDS_BETWEEN_FILES = 60.0  # the file is written so often: a killed process keeps most


class MadeMap:
    """The map that is made: an earlier one of the same torch, in which the recorded items replace themselves."""

    def __init__(self, file: Path, torch: str, once: Executed) -> None:
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
        for path, lines in once.lines.items():
            if lines:
                self._mapped(path).once |= lines
        for path, branches in once.branches.items():
            if branches:
                self._mapped(path).branches_once |= branches

    def missing(self, items: Sequence[Item]) -> list[Item]:
        return [item for item in items if self._map.number(*name_of(item)) is None]

    def drop_gone(self, items: Sequence[Item], *, whole_suite: bool) -> None:
        """Drops what no longer exists. `items`: all of their files, and of all files if `whole_suite`."""
        gone = present(self._map, [name_of(item) for item in items], whole_files=True, whole_suite=whole_suite).gone
        if gone:
            self._map.drop(gone)
            print(f"{len(gone):,} items no longer exist: the map drops them")

    def make(self, items: Sequence[Item], processes: int) -> int:
        progress = Progress(len(items), "not in the map")
        captures = [capture_of(item) for item in items]
        interrupted, written = False, time.monotonic()
        try:
            for each in record(captures, processes):
                item = items[each.number]
                if not each.error:
                    for path in each.lines:
                        self._mapped(path)
                    self._map.add(item.case.id, item.target.name, each.lines, each.branches)
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
