"""A store laid over another one: a vendor's snapshots of cases that come with their own.

Reading takes each text, one for each case, torch version and target, from the overlay if it is there, else from the
store below. Writing changes the overlay alone. The overlay holds what differs from the store below or is missing there,
and no copy of what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from conformance.storage import snapshot_format
from conformance.storage.snapshot_format import TextKey
from conformance.storage.snapshots import Counts, Snapshot, SnapshotError, Store, torch_release


class OverlaidStore(Store):
    """`root`: the folder of the overlay. `below`: the store that it is laid over. `targets`: as for Store."""

    def __init__(self, root: Path, below: Store, targets: Sequence[str] = ()) -> None:
        super().__init__(root, targets)
        self.below, self.place = below, below.place

    def cases(self) -> list[str]:
        """The ids of the cases that one of the two stores has, sorted."""
        return sorted({*super().cases(), *self.below.cases()})

    def versions(self) -> list[str]:
        """The torch versions that one of the two stores has, oldest first."""
        return sorted({*super().versions(), *self.below.versions()}, key=snapshot_format.version_number)

    def has_target(self, target: str) -> bool:
        """Whether one of the two stores has anything for a target."""
        return super().has_target(target) or self.below.has_target(target)

    def read(self, case_id: str) -> Snapshot | None:
        """Returns the texts of both stores, and in `upper` which are the overlay's."""
        upper, below = self.read_own(case_id), self.below.read(case_id)
        return _laid_over(upper, below) if upper else below

    def _merge_case(
        self, case_id: str, texts: Mapping[TextKey, str], confirmed: Collection[TextKey]
    ) -> tuple[Counts, SnapshotError | None]:
        try:
            below, before = self.below.read(case_id) or Snapshot(), self.read_own(case_id) or Snapshot()
            merged, counts = _laid_over(before, below).with_texts(texts, confirmed)
            new = {(torch_release(torch), target) for torch, target in texts}
            own = {key: merged.texts[key] for key in (*before.texts, *(key for key in new if key not in before.texts))}
            for key in new:
                others = {other: text for other, text in own.items() if other != key}
                if Snapshot(below.texts | others).text(*key) == own[key]:
                    own = others
            after = Snapshot(own, merged.confirmed & set(own))
            if after != before:
                self._write(case_id, after)
        except SnapshotError as error:
            return Counts(), error
        return counts, None


def _laid_over(upper: Snapshot, below: Snapshot | None) -> Snapshot:
    if below is None:
        below = Snapshot()
    confirmed = upper.confirmed | {key for key in below.confirmed if key not in upper.texts}
    return Snapshot(below.texts | upper.texts, confirmed, upper=set(upper.texts))
