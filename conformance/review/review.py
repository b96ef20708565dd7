"""Compares the texts of a run with the stored ones or with another run, and finds the causes of the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from conformance.normalize.text import canonical_text
from conformance.review.causes import Cause, ChangedText, find_causes
from conformance.review.cost_causes import Costs, find_cost_causes
from conformance.review.diff import Difference, compare_texts
from conformance.review.symptoms import text_symptoms
from conformance.storage.accept import AcceptResult, accept_snapshots
from conformance.storage.check_results import Outcome
from conformance.storage.digests import in_form_of
from conformance.storage.locations import store_at
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Snapshot, SnapshotError, torch_release


class Previous(NamedTuple):
    """What an item is compared with: the text, its source (see ChangedItem), and the facts that another run counted."""

    text: str
    source: str
    facts: Mapping[str, Any] = {}


#: Returns what an item is compared with; None for nothing.
FindText = Callable[[ItemRecord], Previous | None]


@dataclass(frozen=True)
class ChangedItem:
    """An item whose text changed, or whose costs another run has too.

    `compared_with`: the source of the old text: "" for the stored text of the same torch version, "torch 2.13" for the
    nearest stored version, "run NAME" for another run. `facts`: those of the other run.
    """

    item: ItemRecord
    texts: ChangedText
    compared_with: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def numerics_fail(self) -> bool:
        """Whether the numerics of the item fail. The text of such an item is never accepted."""
        return self.item.outcome("numerics") is Outcome.FAILED

    @property
    def difference(self) -> Difference | None:
        return compare_texts(self.texts.stored, self.texts.new)


@dataclass
class Review:
    """The result of a comparison.

    `changed_items`: those whose text changed, by name. `counted_items`: those that another run has. `new`: items
    without a text to compare with. `equal`: the number of unchanged texts. `problems`: why snapshots cannot be read.
    """

    changed_items: dict[str, ChangedItem] = field(default_factory=dict)
    counted_items: dict[str, ChangedItem] = field(default_factory=dict)
    new: list[ItemRecord] = field(default_factory=list)
    equal: int = 0
    problems: list[str] = field(default_factory=list)

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes of texts and of costs, the one with the most members first."""
        of_texts = find_causes(each.texts for each in self.changed_items.values())
        return sorted([*of_texts, *self.cost_causes], key=lambda cause: -len(cause.members))

    @cached_property
    def cost_causes(self) -> list[Cause]:
        counted = self.counted_items.values()
        return find_cost_causes([Costs(each.texts, each.facts, each.item.fact_values) for each in counted])

    @cached_property
    def causes_of(self) -> dict[str, list[int]]:
        """Item name → the numbers of its causes, from 1."""
        numbers: dict[str, list[int]] = {name: [] for name in self.changed_items}
        for number, each in enumerate(self.causes, 1):
            for member in each.members:
                numbers.setdefault(member.name, []).append(number)
        return numbers

    def item(self, name: str) -> ChangedItem:
        """An item that a cause has."""
        return self.changed_items.get(name) or self.counted_items[name]

    def members(self, number: int) -> list[ChangedItem]:
        """Returns the items of a cause."""
        return [self.item(member.name) for member in self.causes[number - 1].members]

    def items_of_causes(self, numbers: Iterable[int]) -> tuple[list[ChangedItem], dict[str, list[int]]]:
        """Returns the items that these causes explain completely, and: item name → its other causes, for the rest."""
        chosen = set(numbers)
        complete, incomplete = [], {}
        for name, causes in self.causes_of.items():
            if not chosen.isdisjoint(causes):
                if others := [number for number in causes if number not in chosen]:
                    incomplete[name] = others
                else:
                    complete.append(self.item(name))
        return complete, incomplete


def review_items(items: Iterable[ItemRecord], find_text: FindText) -> Review:
    """Compares items with the texts that `find_text` returns. Leaves out items that did not compile."""
    review = Review()
    for item in items:
        if not item.text:
            continue
        try:
            previous = find_text(item)
        except SnapshotError as error:
            if str(error) not in review.problems:
                review.problems.append(str(error))
            continue
        if previous is None:
            review.new.append(item)
            continue
        texts = ChangedText(item.case, item.target, canonical_text(previous.text), in_form_of(previous.text, item))
        compared = ChangedItem(item, texts, previous.source, previous.facts)
        if previous.facts:
            review.counted_items[item.name] = compared
        if texts.stored == texts.new:
            review.equal += 1
        else:
            review.changed_items[item.name] = compared
    return review


def stored_text_finder(order: Sequence[str] = (), overlay: str = "") -> FindText:
    """Returns a function that finds the stored text of an item.

    It is the text of the item's torch version; if the store has no text at all for that version, the nearest version's.
    `order`: of the targets in a store. `overlay`: the folder that is laid over the stores.
    """
    snapshots: dict[tuple[str, str], Snapshot | None] = {}
    versions: dict[str, set[str]] = {}

    def find_text(item: ItemRecord) -> Previous | None:
        store = store_at(Path(item.store), tuple(order), overlay)
        key = (item.store, item.case)
        if key not in snapshots:
            snapshots[key] = store.read(item.case)
        snapshot = snapshots[key]
        if snapshot is None:
            return None
        if text := snapshot.text(item.torch, item.target):
            return Previous(text, "")
        if item.store not in versions:
            versions[item.store] = set(store.versions())
        if torch_release(item.torch) in versions[item.store]:
            return None
        return nearest_text(snapshot, item)

    return find_text


def nearest_text(snapshot: Snapshot, item: ItemRecord) -> Previous | None:
    """Returns the text of the stored version nearest to the item's, of "torch VERSION"; None for no such text."""
    wanted = [int(part) for part in torch_release(item.torch).split(".")]
    known = [version for version in snapshot.versions() if snapshot.text(version, item.target)]
    if not known:
        return None
    version = min(known, key=lambda v: [abs(int(a) - b) for a, b in zip(v.split("."), wanted, strict=True)])
    return Previous(snapshot.text(version, item.target) or "", f"torch {version}")


def run_text_finder(baseline: Run, name: str) -> FindText:
    """Returns a function that finds the text of an item in another run, and its costs."""

    def find_text(item: ItemRecord) -> Previous | None:
        other = baseline.item(item.case, item.target)
        return Previous(other.text, f"run {name}", other.fact_values) if other is not None and other.text else None

    return find_text


def accept_changes(changes: Iterable[ChangedItem], targets: Sequence[str], overlay: str = "") -> AcceptResult:
    """Stores the texts of items, except those whose numerics fail. `overlay`: as for accept_snapshots."""
    return accept_snapshots([each.item for each in changes], "all", targets, overlay)


def changed_fact_titles(change: ChangedItem) -> list[str]:
    """Returns the titles of the facts that changed: "extern  none → mm"."""
    return [fact.title for fact in text_symptoms(change.texts.stored, change.texts.new).facts]


def changes_by_case(review: Review) -> Mapping[str, list[ChangedItem]]:
    """Returns the changed items of each case, sorted by case."""
    cases: dict[str, list[ChangedItem]] = {}
    for each in review.changed_items.values():
        cases.setdefault(each.item.case, []).append(each)
    return dict(sorted(cases.items()))
