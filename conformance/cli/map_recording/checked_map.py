"""A map that is checked: which items it has, and whether a sample of them still executes what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.cli.map_recording.item_captures import capture_of, name_of
from conformance.cli.map_recording.progress import Progress
from conformance.coverage import map_file
from conformance.coverage.coverage_map import CoverageError, CoverageMap
from conformance.coverage.drift import differing_lines, mapped_lines, present, sample
from conformance.coverage.recording import Executed, record
from conformance.devices.environment import torch_build
from conformance.harness.item.checks import Item
from conformance.sources.source_in_use import source_in_use


@dataclass(frozen=True)
class Check:
    """`file`: of the map. `sample`: how many items are recorded and compared. `processes`: at a time.

    `whole_files`: whether the items are all items of their files.
    """

    file: str
    sample: int
    whole_files: bool
    processes: int


def of_the_map(file: Path, items: Sequence[Item]) -> tuple[CoverageMap, list[Item]]:
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


def checked(known: CoverageMap, items: Sequence[Item], once: Executed, check: Check) -> int:
    """Returns 1 where the map is no longer true."""
    names = {name_of(item): item for item in items}
    drift = present(known, list(names), whole_files=check.whole_files)
    comparable = [name for name in names if known.number(*name) is not None]
    chosen = [comparable[place] for place in sample(comparable, check.sample)]
    mapped = mapped_lines(known, chosen)
    ignored = {path: once.lines.get(path, set()) | file.once for path, file in known.files.items()}
    progress = Progress(len(chosen), "not compared")
    for each in record([capture_of(names[name]) for name in chosen], check.processes):
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
        print(f"delete it, and make it again: {make} -o {check.file}")
    elif drift.lacking:
        print(f"add them: {make} --missing -o {check.file}")
    return int(bool(drift) or progress.has_failed)
