"""What a run generated against what is stored now, or against another run: item by item, and grouped by edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from conformance.review.diff import Difference, difference
from conformance.review.groups import Changed, Group, fact_edits, group
from conformance.storage.accept import Accepted, accept
from conformance.storage.check_results import Outcome
from conformance.storage.runs import ItemRecord, Run
from conformance.storage.snapshots import Snapshot, SnapshotError, Store, canonical, release

#: From an item to the text that it is compared with and where that is from; None for nothing.
Before = Callable[[ItemRecord], "tuple[str, str] | None"]


@dataclass(frozen=True)
class Differing:
    """An item whose text is not the one before. `since`: what that is of: "" for what is stored, "torch 2.13" for the
    nearest stored version, or a run's name.
    """

    item: ItemRecord
    changed: Changed
    since: str = ""

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def fails(self) -> bool:
        """Whether its numerics do: nothing of it is ever accepted."""
        return self.item.outcome("numerics") is Outcome.FAILED

    @property
    def difference(self) -> Difference | None:
        return difference(self.changed.stored, self.changed.new)


@dataclass
class Review:
    """`differing`: by name. `new`: items with nothing to be compared with. `equal`: how many others there are.

    `problems`: snapshots that cannot be read.
    """

    differing: dict[str, Differing] = field(default_factory=dict)
    new: list[ItemRecord] = field(default_factory=list)
    equal: int = 0
    problems: list[str] = field(default_factory=list)

    @cached_property
    def groups(self) -> list[Group]:
        return group(each.changed for each in self.differing.values())

    @cached_property
    def groups_of(self) -> dict[str, list[int]]:
        """Item → the numbers of its groups, from 1."""
        found: dict[str, list[int]] = {name: [] for name in self.differing}
        for number, each in enumerate(self.groups, 1):
            for member in each.members:
                found[member.name].append(number)
        return found

    def members(self, number: int) -> list[Differing]:
        return [self.differing[member.name] for member in self.groups[number - 1].members]

    def inner(self, number: int) -> list[int]:
        """The groups that stand within one: their texts are all in it, and it is the larger change."""
        leader = self.groups[number - 1].id
        return [other for other, each in enumerate(self.groups, 1) if each.within == leader]

    def accepting(self, numbers: Iterable[int]) -> tuple[list[Differing], dict[str, list[int]]]:
        """The items that differ by groups of these numbers alone; of others in them, the groups that remain."""
        taken = set(numbers)
        whole, waiting = [], {}
        for name, mine in self.groups_of.items():
            if not taken.isdisjoint(mine):
                if left := [number for number in mine if number not in taken]:
                    waiting[name] = left
                else:
                    whole.append(self.differing[name])
        return whole, waiting


def compared(items: Iterable[ItemRecord], before: Before) -> Review:
    """Items without a text, which did not compile, are left out."""
    review = Review()
    for item in items:
        if not item.text:
            continue
        try:
            found = before(item)
        except SnapshotError as error:
            if str(error) not in review.problems:
                review.problems.append(str(error))
            continue
        if found is None:
            review.new.append(item)
            continue
        text, since = found
        if canonical(text) == canonical(item.text):
            review.equal += 1
        else:
            changed = Changed(item.case, item.target, canonical(text), canonical(item.text))
            review.differing[item.name] = Differing(item, changed, since)
    return review


def stored(order: Sequence[str] = ()) -> Before:
    """What is stored for an item, for its own torch; for the nearest where nothing at all is stored for that."""
    snapshots: dict[tuple[str, str], Snapshot | None] = {}
    versions: dict[str, set[str]] = {}

    def before(item: ItemRecord) -> tuple[str, str] | None:
        store = Store(Path(item.store), order)
        key = (item.store, item.case)
        if key not in snapshots:
            snapshots[key] = store.read(item.case)
        snapshot = snapshots[key]
        if snapshot is None:
            return None
        if text := snapshot.text(item.torch, item.target):
            return text, ""
        if item.store not in versions:
            versions[item.store] = set(store.versions())
        if release(item.torch) in versions[item.store]:
            return None
        return nearest(snapshot, item)

    return before


def nearest(snapshot: Snapshot, item: ItemRecord) -> tuple[str, str] | None:
    """The text of the stored version nearest to the item's, and that version's name."""
    wanted = [int(part) for part in release(item.torch).split(".")]
    known = [version for version in snapshot.versions() if snapshot.text(version, item.target)]
    if not known:
        return None
    version = min(known, key=lambda v: [abs(int(a) - b) for a, b in zip(v.split("."), wanted, strict=True)])
    return snapshot.text(version, item.target) or "", f"torch {version}"


def of_run(baseline: Run, name: str) -> Before:
    """What another run gave."""

    def before(item: ItemRecord) -> tuple[str, str] | None:
        other = baseline.item(item.case, item.target)
        return (other.text, f"run {name}") if other is not None and other.text else None

    return before


def take(differing: Iterable[Differing], targets: Sequence[str]) -> Accepted:
    """Stores their texts, but nothing of an item whose numerics fail."""
    return accept([each.item for each in differing], "all", targets)


def facts_that_changed(differing: Differing) -> list[str]:
    return [fact.title for fact in fact_edits(differing.changed.stored, differing.changed.new)]


def by_case(review: Review) -> Mapping[str, list[Differing]]:
    """The differing items of each case, in the order of the cases."""
    found: dict[str, list[Differing]] = {}
    for each in review.differing.values():
        found.setdefault(each.item.case, []).append(each)
    return dict(sorted(found.items()))
