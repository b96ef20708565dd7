"""Accepts what a run generated: stores its texts. One process does this, after all workers are done."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.atomic_files import write_atomically
from conformance.devices.targets import code_base_of
from conformance.normalize.text import canonical_text
from conformance.settings import option_name
from conformance.storage.check_results import Outcome
from conformance.storage.digest_store import DigestStore
from conformance.storage.digests import digest_text
from conformance.storage.installed import refuse_installed
from conformance.storage.locations import store_at
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError, Store, TextKey, torch_release
from conformance.words import UNKNOWN

#: In a folder of --store: `path` and `commit` of the PyTorch checkout whose code was accepted last.
SOURCE = "torch_source.json"


@dataclass
class AcceptResult:
    """What was accepted.

    `counts`: of the stored texts. `confirmed`: the number of texts marked as given by real hardware. `refused`: name of
    an item → why its text was not stored. `problems`: why files could not be written.
    """

    counts: Counts = field(default_factory=Counts)
    confirmed: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns the lines that report the result."""
        lines = [f"snapshots: {self.counts.new} new, {self.counts.changed} changed, {self.counts.unchanged} unchanged"]
        lines += [f"confirmed on the device: {self.confirmed}"] if self.confirmed else []
        lines += [f"not accepted: {name}: {reason}" for name, reason in sorted(self.refused.items())]
        return lines + self.problems


def unknown_fact(text: str) -> str:
    """The line of the first fact of a snapshot's text that is unknown, which nothing may store; else ""."""
    found = re.search(rf"^\w+ +{UNKNOWN}: .*", text, re.MULTILINE)
    return " ".join(found[0].split()) if found else ""


def accept_snapshots(items: Iterable[ItemRecord], mode: str, targets: Sequence[str], overlay: str = "") -> AcceptResult:
    """Merges the texts of items into their stores, and marks the confirmed ones; see is_confirmed.

    `mode`: "all"; "new" stores only texts that are not stored yet; "confirm" only marks stored texts that are equal.
    `targets`: the targets with stored code, in the order of the files. `overlay`: the folder that is laid over the
    stores, and the only one that is written to. Refuses items whose numerics failed, or that have a fact that is
    unknown. Ignores items of other targets.
    Raises InstalledError for a store of an installed package.
    """
    result = AcceptResult()
    updates: dict[Path, dict[str, dict[TextKey, ItemRecord]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        if not item.text or item.target not in targets:
            continue
        if item.outcome("numerics") is Outcome.FAILED:
            result.refused[item.name] = "its numerics fail"
        elif unknown := unknown_fact(item.text):
            result.refused[item.name] = unknown
        elif mode == "confirm" and not is_confirmed(item):
            result.refused[item.name] = f"not confirmed; run pytest {option_name('verify-deviceless')} on the device"
        else:
            updates[Path(item.store)][item.case][torch_release(item.torch), item.target] = item
    for root, cases in updates.items():
        store = store_at(root, tuple(targets), overlay)
        texts: dict[str, dict[TextKey, str]] = {}
        confirmed: dict[str, set[TextKey]] = {}
        for case, items_of_case in cases.items():
            selected = _select(store, case, _without_inherited(store, case, items_of_case, mode), mode, result)
            if selected:
                texts[case] = {key: stored_form(store, item) for key, item in selected.items()}
                confirmed[case] = {key for key, item in selected.items() if is_confirmed(item)}
        try:
            result.counts += store.merge(texts, confirmed)
        except SnapshotError as error:
            result.counts += error.counts or Counts()
            result.problems.append(f"not accepted: {error}")
        else:
            result.confirmed += sum(map(len, confirmed.values()))
    return result


def note_source(run: Run, overlay: str) -> None:
    """Writes into the folder of --store of which PyTorch checkout and commit its code is; nothing for a release."""
    source = run.description().get("torch_source")
    if source and overlay:
        write_atomically(Path(overlay) / SOURCE, json.dumps(source, indent=1) + "\n")


def refuse_installed_stores(items: Iterable[ItemRecord], overlay: str) -> None:
    """Raises InstalledError where accepting the items would write into an installed package."""
    for place in dict.fromkeys(item.store for item in items if not overlay):
        refuse_installed(Path(place))


def stored_form(store: Store, item: ItemRecord) -> str:
    """Returns what the store stores of an item: its text, or a digest of it."""
    return digest_text(item) if isinstance(store, DigestStore) else canonical_text(item.text)


def is_confirmed(item: ItemRecord) -> bool:
    """Returns whether real hardware gave the text, and generating it without the hardware gave the same text."""
    return item.mode == "native" and item.outcome("deviceless") is Outcome.PASSED


def _without_inherited(
    store: Store, case: str, items: dict[TextKey, ItemRecord], mode: str
) -> dict[TextKey, ItemRecord]:
    """Returns the items without the variants whose text will be stored for the target that they are variants of."""
    try:
        stored = store.read(case) or Snapshot()
    except SnapshotError:
        return items  # merging them raises the same error, which is then reported
    new = {key: stored_form(store, item) for key, item in items.items()}
    after = {"all": stored.texts | new, "new": new | stored.texts, "confirm": stored.texts}[mode]

    def is_inherited(key: TextKey) -> bool:
        torch, target = key
        return key not in stored.texts and after.get((torch, code_base_of(target))) == new[key]

    return {key: item for key, item in items.items() if not is_inherited(key)}


def _select(
    store: Store, case: str, items: dict[TextKey, ItemRecord], mode: str, result: AcceptResult
) -> dict[TextKey, ItemRecord]:
    """Returns the items whose texts are to be merged, and adds reasons for others to `result.refused`."""
    if mode == "all":
        return items
    try:
        stored = store.read(case) or Snapshot()
    except SnapshotError:
        return items  # merging them raises the same error, which is then reported
    selected = {}
    for key, item in items.items():
        before = stored.text(*key)
        if before == stored_form(store, item):
            if is_confirmed(item):
                selected[key] = item
        elif mode == "new" and (before is None or stored.is_inherited(*key)):
            selected[key] = item
        elif mode == "confirm":
            result.refused[item.name] = "its text differs from the stored text" if before else "nothing is stored"
    return selected
