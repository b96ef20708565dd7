"""Accepting: what a run generated becomes what is stored. One process, after all workers are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.run import ItemRecord
from conformance.snapshot import Counts, SnapshotError, Store, release


@dataclass
class Accepted:
    """`counts`: texts, as they are on disk now. `refused`: item → why its text was not taken."""

    counts: Counts = field(default_factory=Counts)
    refused: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        said = [f"snapshots: {self.counts.new} new, {self.counts.changed} changed, {self.counts.unchanged} unchanged"]
        said += [f"not accepted: {name}: {why}" for name, why in sorted(self.refused.items())]
        return said + self.problems


def accept(items: Iterable[ItemRecord], mode: str, targets: Sequence[str]) -> Accepted:
    """Merges the items' texts into their stores.

    `mode`: "all", or "new" for what is not stored yet. `targets`: those with stored code, in their order.
    Nothing is taken from an item whose numerics failed, nor from a target without stored code.
    """
    accepted = Accepted()
    updates: dict[Path, dict[str, dict[tuple[str, str], str]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        if not item.text or item.target not in targets:
            continue
        if item.checks.get("numerics", "").startswith("failed"):
            accepted.refused[item.name] = "its numerics fail"
            continue
        updates[Path(item.store)][item.case][release(item.torch), item.target] = item.text
    for root, cases in updates.items():
        store = Store(root, targets)
        wanted = {case: _not_stored(store, case, texts) if mode == "new" else texts for case, texts in cases.items()}
        try:
            accepted.counts += store.merge({case: texts for case, texts in wanted.items() if texts})
        except SnapshotError as error:
            accepted.counts += error.counts or Counts()
            accepted.problems.append(f"not accepted: {error}")
    return accepted


def _not_stored(store: Store, case: str, texts: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    try:
        stored = store.read(case)
    except SnapshotError:
        return texts  # storing them says what is wrong
    return {key: text for key, text in texts.items() if stored is None or stored.text(*key) is None}
