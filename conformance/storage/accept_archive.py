"""Merges an archive of `confirm`: marks what a device confirms, stores what is new, and lists what differs.

What happens with the text of an item:

- It is the stored text, and code generated without the device is the same: the stored text is marked as confirmed.
- Nothing is stored for the target (for a variant: nothing of its own), and code generated without the device is the
  same: the text is stored and marked.
- It differs from the stored text, or from code generated without the device: nothing is stored, because every machine
  without the device would generate other code. The difference is listed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.settings import ALL_CHECKS
from conformance.storage.accept import AcceptResult, accept_snapshots, is_confirmed
from conformance.storage.check_results import Outcome
from conformance.storage.confirm_archive import ArchivedItem, ArchiveError, ConfirmArchive, sha256
from conformance.storage.locations import store_at
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Snapshot, Store, torch_release

#: `code` repeats the comparison that is made here.
_REPORTED = tuple(each.name for each in ALL_CHECKS if each.confirmed)


@dataclass
class MergeResult:
    """What merging an archive did.

    `accepted`: what was stored and marked. `inherited`: how many texts of a variant are those of the row that it is a
    variant of: they need no mark. `same_on_cpu`: how many texts for a CPU are the stored ones: they get no mark.
    `known`: items that are not marked because a known failure excuses the comparison with deviceless code.
    `known`, `differences`, `failures`, `unknown`: name of an item → why it is listed. `items`: all items with their
    texts, for a run that `review` shows.
    """

    accepted: AcceptResult = field(default_factory=AcceptResult)
    inherited: int = 0
    same_on_cpu: int = 0
    known: dict[str, str] = field(default_factory=dict)
    differences: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    items: list[ItemRecord] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the device gave everywhere what is stored, and nothing failed on it."""
        problems = self.accepted.refused or self.accepted.problems
        return not (problems or self.differences or self.failures or self.unknown)

    def lines(self) -> list[str]:
        """The lines that report the result."""
        lines = self.accepted.lines()
        if self.inherited:
            lines.append(f"the same as the row that the target is a variant of, so nothing to store: {self.inherited}")
        if self.same_on_cpu:
            lines.append(f"the same as the stored code, which has no marks for CPUs: {self.same_on_cpu}")
        listed = {
            "not confirmed, a known failure": self.known,
            "differs": self.differences,
            "failed": self.failures,
            "ignored": self.unknown,
        }
        for title, found in listed.items():
            lines += [f"{title}: {name}: {reason}" for name, reason in sorted(found.items())]
        return lines


def merge_archive(
    archive: ConfirmArchive,
    folders: Mapping[str, Path],
    target: str,
    order: Sequence[str],
    *,
    confirm_only: bool = False,
    overlay: str = "",
) -> MergeResult:
    """Merges an archive into the stores. Writes nothing for an archive that `stores_of` refuses.

    `folders`: case → the folder of its snapshots. `target`: the row of this checkout that the device matches. `order`:
    of the targets in the files. `confirm_only`: marks texts and stores none. `overlay`: the folder that is laid over
    the stores, and the only one that is written to. Raises ArchiveError as `stores_of` does.
    """
    stores = stores_of(archive, folders, order, overlay)
    result = MergeResult()
    merged: list[ItemRecord] = []
    for item in archive.items:
        folder = folders.get(item.record.case)
        if folder is None:
            result.unknown[item.record.name] = "this checkout has no such case"
            continue
        record = dataclasses.replace(item.record, target=target, store=str(folder))
        stored = stores[folder].read(record.case) or Snapshot()
        if problem := _failures(record):
            result.failures[record.name] = problem
        if not item.sha256:
            continue
        text = _text(item, archive, stored, target)
        if text is None:
            result.differences[record.name] = (
                "the stored code has changed since the archive was written, and the archive holds no code where the "
                "device gave the stored one"
            )
            continue
        record.text = text
        result.items.append(record)
        if _is_mergeable(record, item, stored, result):
            merged.append(record)
    result.accepted = accept_snapshots(merged, "confirm" if confirm_only else "new", order, overlay)
    return result


def stores_of(
    archive: ConfirmArchive, folders: Mapping[str, Path], order: Sequence[str], overlay: str = ""
) -> dict[Path, Store]:
    """The stores that the archive is for: folder → store. See merge_archive for the arguments.

    Raises ArchiveError where no case of the archive is here, or where nothing is stored for its torch.
    """
    found = {folders[case] for item in archive.items if (case := item.record.case) in folders}
    if not found:
        example = f", such as {archive.items[0].record.case}" if archive.items else ""
        raise ArchiveError(
            f"none of the {len(archive.items)} items of the archive is of a case that is here{example}: the archive is "
            "of another project, or `accept` needs the path of its cases"
        )
    stores = {folder: store_at(folder, tuple(order), overlay) for folder in found}
    refuse_unstored_version(archive.manifest.torch, stores.values())
    return stores


def refuse_unstored_version(torch: str, stores: Iterable[Store]) -> None:
    """Raises ArchiveError if the stores have no text for this torch."""
    versions = {version for store in stores for version in store.versions()}
    if torch_release(torch) not in versions:
        known = ", ".join(sorted(versions, key=lambda each: tuple(map(int, each.split("."))))) or "none"
        raise ArchiveError(
            f"nothing is stored for torch {torch_release(torch)}, so a device cannot confirm it; stored are: {known}"
        )


def _text(item: ArchivedItem, archive: ConfirmArchive, stored: Snapshot, target: str) -> str | None:
    """The text of the item: from the archive, or a stored one with the same hash."""
    if item.record.case in archive.code:
        text = archive.code[item.record.case]
        return text if sha256(text) == item.sha256 else None
    current = stored.text(item.record.torch, target)
    candidates = [*([current] if current else []), *stored.texts.values()]
    return next((text for text in candidates if sha256(text) == item.sha256), None)


def _is_mergeable(record: ItemRecord, item: ArchivedItem, stored: Snapshot, result: MergeResult) -> bool:
    """Whether the item is to be marked or stored. Otherwise says in `result` why not, or counts it."""
    current = stored.text(record.torch, record.target)
    is_same = current is not None and sha256(current) == item.sha256
    has_own = (torch_release(record.torch), record.target) in stored.texts
    deviceless = record.outcome("deviceless")
    reason = ""
    if record.target.startswith("cpu_"):
        result.same_on_cpu += is_same
        reason = "" if is_same else "the stored code is another one" if current else "nothing is stored"
    elif not is_same and item.compared_with not in (None, sha256(current or "")):
        reason = "the stored code has changed since the archive was written, and is not what the device gave"
    elif deviceless is Outcome.FAILED:
        reason = f"{record.checks['deviceless'].detail}"
    elif not is_same and has_own:
        reason = "the stored code is another one"
    elif deviceless is Outcome.KNOWN:
        result.known[record.name] = record.checks["deviceless"].detail
    elif not is_confirmed(record):
        reason = "it was not compared with code that is generated without the device"
    elif is_same and not has_own:
        result.inherited += 1
    elif record.outcome("numerics") is not Outcome.FAILED:  # listed with the failures
        return True
    if reason:
        result.differences[record.name] = reason
    return False


def _failures(record: ItemRecord) -> str:
    """The failed checks of an item with their details; "" for none."""
    failed = [
        f"{check}: {result.detail}"
        for check, result in record.checks.items()
        if check in _REPORTED and result.outcome in (Outcome.FAILED, Outcome.STALE)
    ]
    return "; ".join(failed)
