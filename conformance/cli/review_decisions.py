"""What a review decides, in the terminal and in `view`: accepted items are stored, rejected causes are remembered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.atomic_files import write_atomically
from conformance.cli.overlay_options import refuse_source_run
from conformance.cli.run_items import LocatedItems, locate_items
from conformance.devices.targets import targets
from conformance.review import overview, review
from conformance.review.causes import ChangedText
from conformance.review.review import ChangedItem, Review
from conformance.storage.accept import note_source, refuse_installed_stores
from conformance.storage.runs import ItemRecord, Run

_REJECTED = "review.json"


def compared_with_stored(reviewed: Run, store: str, paths: Sequence[Path] = ()) -> tuple[Review, LocatedItems]:
    """Returns the run compared with what is stored, and where its items are stored here.

    `store`: the folder that is laid over what is stored; "" for none. `paths`: as for locate_items.
    """
    order = list(targets())
    located = locate_items(reviewed, paths)
    items = [item for item in located.items if item.target in order]
    return review.review_items(items, review.stored_text_finder(order, store)), located


def store_items(
    reviewed: Run,
    accepted: Sequence[ChangedItem],
    waiting: Mapping[str, Sequence[int]],
    store: str,
    new: Sequence[ItemRecord] = (),
) -> tuple[list[str], bool]:
    """Stores items. Returns lines on what was stored, refused, and waits for another cause; and whether all went well.

    `waiting`: item name → its other causes. Raises RunError and InstalledError.
    """
    changes = [*accepted, *(ChangedItem(item, ChangedText(item.case, item.target, "", item.text)) for item in new)]
    refuse_source_run(reviewed, store)
    refuse_installed_stores((change.item for change in changes), store)
    result = review.accept_changes(changes, list(targets()), store)
    note_source(reviewed, store)
    lines = result.lines()
    for name, causes in sorted(waiting.items())[:5]:
        lines.append(f"not accepted yet: {name} also has {overview.cause_numbers(causes)}")
    if len(waiting) > 5:
        lines.append(f"not accepted yet: {len(waiting) - 5} more")
    return lines, not (result.refused or result.problems)


def read_rejected(reviewed: Run) -> dict[str, str]:
    """Returns id → title of the causes that an earlier review of the run rejected."""
    try:
        return json.loads((reviewed.folder / _REJECTED).read_text(encoding="utf-8"))["rejected"]
    except (OSError, ValueError, KeyError):
        return {}


def write_rejected(reviewed: Run, rejected: Mapping[str, str]) -> None:
    """Remembers the rejected causes beside the run. Raises OSError where the folder is read-only."""
    file = reviewed.folder / _REJECTED
    if rejected or file.exists():
        write_atomically(file, json.dumps({"rejected": rejected}, indent=1), survives_power_loss=False)
