"""Merges runs of several machines, shards or targets into one run that `review`, `accept` and `--baseline` read.

Each record says by `run` where it is from, and run.json describes these runs with their machines. If several runs have
an item, one record is kept whole: precedence.py says which. Runs of different torch releases are refused: they have the
same items, and each release has its own results.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.settings import config_text
from conformance.storage.check_results import Outcome
from conformance.storage.precedence import Precedence, precedence, time_of
from conformance.storage.runs import ItemRecord, Run, RunError
from conformance.storage.snapshots import torch_release


@dataclass(frozen=True)
class Replaced:
    """An item that several runs have: `kept` and `dropped` are its records."""

    kept: ItemRecord
    dropped: ItemRecord

    @property
    def hides_failure(self) -> bool:
        """Whether the dropped record has a check that failed, and the kept one has not."""
        return bool(_failed(self.dropped) - _failed(self.kept))

    def __str__(self) -> str:
        kept, dropped = (f"{each.evidence} of {each.run}" for each in (self.kept, self.dropped))
        hidden = sorted(_failed(self.dropped) - _failed(self.kept))
        failed = f"; {', '.join(hidden)} failed there" if hidden else ""
        return f"{self.kept.name}: kept {kept} instead of {dropped}{failed}"


@dataclass
class MergeResult:
    """`items`: run → how many records were kept of it. `replaced`: one entry for each record that was not kept."""

    items: dict[str, int] = field(default_factory=dict)
    replaced: list[Replaced] = field(default_factory=list)


def merge_runs(runs: Sequence[Run], folder: Path, release: str = "") -> MergeResult:
    """Writes a run with the items of all runs into a new folder, with the artifacts of failing items.

    `release`: of this package, for run.json.

    Raises RunError, before anything is written, for a run that cannot be read, for runs of several torch releases, for
    two runs with one name, and for a folder that has files.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists already: name a new folder")
    sources = _sources(runs)
    kept, result = _kept_records(runs, list(sources))
    releases = sorted({torch_release(record.torch) for record in kept.values()})
    if len(releases) > 1:
        raise RunError(f"the runs are of torch {' and '.join(releases)}: merge runs of one torch release")
    of_sources = {json.dumps(each.get("torch_source"), sort_keys=True) for each in sources.values()}
    if len(of_sources) > 1:
        raise RunError("the runs are of different --torch-source, or some of none: merge runs of one torch")
    refuse_several_configurations(list(sources.values()))
    origins = dict(zip(sources, runs, strict=True))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".merge-", dir=folder.parent) as temporary:
        merged = Run(Path(temporary, folder.name))  # the folder appears when it is complete
        merged.begin({"conformance": release} | _description(sources))
        merged.write_selected({node: name for run in runs for node, name in run.selected().items()})
        for name, record in kept.items():
            merged.write_item(record)
            origin = origins[record.run.partition("/")[0]]
            artifacts, explanation = origin.folder / "failures" / name, origin.explanation_file(name)
            with contextlib.suppress(OSError):  # the records are the result; what follows only helps to read it
                if artifacts.is_dir():
                    shutil.copytree(artifacts, merged.folder / "failures" / name)
                if explanation.is_file():
                    merged.explanation_file(name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(explanation, merged.explanation_file(name))
        merged.folder.replace(folder)
    return result


def _sources(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """The name of each run → its description. A merged run keeps its parts in it, and its records name these."""
    sources: dict[str, dict[str, Any]] = {}
    for run in runs:
        name = run.folder.resolve().name
        if name in sources:
            raise RunError(f"two runs have the name {name}: rename the folder of one")
        sources[name] = run.description()
    return sources


def refuse_several_configurations(descriptions: Sequence[dict[str, Any]]) -> None:
    """Raises RunError for runs with different --inductor-config: their results of one item say different things."""
    chosen = {config_text(each.get("inductor_config", {})) for each in descriptions}
    if len(chosen) > 1:
        listed = ", ".join(sorted(text or "none" for text in chosen))
        raise RunError(f"the runs had different --inductor-config ({listed}): name runs of one configuration")


def _kept_records(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, ItemRecord], MergeResult]:
    result = MergeResult()
    kept: dict[str, tuple[Precedence, ItemRecord]] = {}
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        time = time_of(run)
        for record in run.items():
            record.run = f"{name}/{record.run}" if record.run else name
            strength = precedence(record, time, number)
            before = kept.get(record.name)
            if before is None:
                kept[record.name] = strength, record
                continue
            stronger, weaker = sorted([before, (strength, record)], key=lambda each: each[0], reverse=True)
            kept[record.name] = stronger
            result.replaced.append(Replaced(stronger[1], weaker[1]))
    records = {name: record for name, (_, record) in kept.items()}
    for name in names:
        result.items[name] = sum(record.run.partition("/")[0] == name for record in records.values())
    return records, result


def _description(sources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What run.json of the merged run says. A part that is itself merged is listed with its own parts."""

    def values(key: str) -> list[str]:
        return list(dict.fromkeys(each[key] for each in sources.values() if each.get(key)))

    def common(key: str) -> dict[str, Any]:
        return next(({key: each[key]} for each in sources.values() if key in each), {})

    targets = dict.fromkeys(target for each in sources.values() for target in each.get("targets", ()))
    return {
        "torch": ", ".join(values("torch")),
        "triton": ", ".join(values("triton")),
        "targets": list(targets),
        "machine": {},
        **common("torch_source"),
        **common("inductor_config"),
        "merged": sources,
    }


def _failed(record: ItemRecord) -> set[str]:
    return {check for check, result in record.checks.items() if result.outcome in (Outcome.FAILED, Outcome.STALE)}
