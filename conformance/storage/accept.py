"""Accepting: what a run generated becomes what is stored. One process, after all workers are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError, Store, TextKey, canonical_text, torch_release


@dataclass
class Accepted:
    """`counts`: texts, as they are on disk now. `confirmed`: those marked as given by the real device.
    `refused`: item → why its text was not taken.
    """

    counts: Counts = field(default_factory=Counts)
    confirmed: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        said = [f"snapshots: {self.counts.new} new, {self.counts.changed} changed, {self.counts.unchanged} unchanged"]
        said += [f"confirmed on the device: {self.confirmed}"] if self.confirmed else []
        said += [f"not accepted: {name}: {why}" for name, why in sorted(self.refused.items())]
        return said + self.problems


def accept(items: Iterable[ItemRecord], mode: str, targets: Sequence[str]) -> Accepted:
    """Merges the items' texts into their stores, and marks those confirmed that a real gpu gave and that were generated
    alike without it (--verify-deviceless).

    `mode`: "all", "new" for what is not stored yet, or "confirm" to mark what is stored and equal, and change no text.
    `targets`: those with stored code, in their order. Nothing is taken from an item whose numerics failed, nor from a
    target without stored code.
    """
    accepted = Accepted()
    updates: dict[Path, dict[str, dict[TextKey, ItemRecord]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        if not item.text or item.target not in targets:
            continue
        if item.outcome("numerics") is Outcome.FAILED:
            accepted.refused[item.name] = "its numerics fail"
        elif mode == "confirm" and not is_confirmed(item):
            accepted.refused[item.name] = "not checked on the device (--verify-deviceless)"
        else:
            updates[Path(item.store)][item.case][torch_release(item.torch), item.target] = item
    for root, cases in updates.items():
        store = Store(root, targets)
        texts: dict[str, dict[TextKey, str]] = {}
        sure: dict[str, set[TextKey]] = {}
        for case, found in cases.items():
            wanted = _wanted(store, case, found, mode, accepted)
            if wanted:
                texts[case] = {key: item.text for key, item in wanted.items()}
                sure[case] = {key for key, item in wanted.items() if is_confirmed(item)}
        try:
            accepted.counts += store.merge(texts, sure)
        except SnapshotError as error:
            accepted.counts += error.counts or Counts()
            accepted.problems.append(f"not accepted: {error}")
        else:
            accepted.confirmed += sum(map(len, sure.values()))
    return accepted


def is_confirmed(item: ItemRecord) -> bool:
    """Whether a real gpu gave the text, and it is the one generated without it."""
    return item.mode == "native" and item.outcome("deviceless") is Outcome.PASSED


def _wanted(
    store: Store, case: str, found: dict[TextKey, ItemRecord], mode: str, accepted: Accepted
) -> dict[TextKey, ItemRecord]:
    """The items whose texts are to be merged. Storing a case that cannot be read says what is wrong with it."""
    if mode == "all":
        return found
    try:
        stored = store.read(case) or Snapshot()
    except SnapshotError:
        return found
    wanted = {}
    for key, item in found.items():
        before = stored.text(*key)
        if before == canonical_text(item.text):
            if is_confirmed(item):
                wanted[key] = item
        elif mode == "new" and before is None:
            wanted[key] = item
        elif mode == "confirm":
            accepted.refused[item.name] = "it differs from what is stored" if before else "nothing is stored"
    return wanted
