"""The differences of each file of two torches, kept in the cache: to parse two releases takes half a minute."""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import atomic_files
from conformance.bisection import differences
from conformance.bisection.differences import Difference
from conformance.devices.cache_folder import cache_folder

#: Below the cache folder.
FOLDER = "differences"
#: Entries that were not used for this long are deleted, in seconds.
_MAX_AGE = 14 * 86400.0
#: Changes when an entry holds something else.
_FORMAT = 3

#: First line, last line and name of each function, in order.
Places = Sequence[tuple[int, int, str]]


@dataclass(frozen=True)
class FileDifferences:
    """The differences of one file. `old`, `new`: the places of its functions in the two texts."""

    found: tuple[Difference, ...]
    old: Places
    new: Places

    def executed(self, old_lines: Sequence[int], new_lines: Sequence[int]) -> list[Difference]:
        """The constants, the fields, and the functions that hold one of these first lines of executed code."""
        names = _names_at(self.old, old_lines) | _names_at(self.new, new_lines)
        return [each for each in self.found if each.kind in ("value", "fields") or each.name in names]

    def to_json(self) -> dict[str, Any]:
        return {"found": [each.to_json() for each in self.found], "old": self.old, "new": self.new}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FileDifferences:
        old, new = ([(first, last, name) for first, last, name in data[side]] for side in ("old", "new"))
        return cls(tuple(map(Difference.from_json, data["found"])), old, new)


def file_differences(path: str, old: str, new: str) -> FileDifferences:
    """The differences of a file below torch/, from the cache if it has them. Raises SyntaxError."""
    identity = "\0".join([str(_FORMAT), path, old, new])
    file = cache_folder() / FOLDER / f"{hashlib.sha256(identity.encode()).hexdigest()[:20]}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = FileDifferences.from_json(json.loads(file.read_text(encoding="utf-8")))
        file.touch()
        return kept
    found = FileDifferences(
        tuple(differences.differences(path, old, new)), differences.places(old), differences.places(new)
    )
    with contextlib.suppress(OSError):
        atomic_files.write_atomically(file, json.dumps(found.to_json()), survives_power_loss=False)
    return found


def delete_unused(folder: Path | None = None, now: float | None = None) -> int:
    """Deletes entries that nobody used for long; returns how many. `folder`: default: the one in the cache."""
    now, count = time.time() if now is None else now, 0
    for file in (folder or cache_folder() / FOLDER).glob("*.json"):
        with contextlib.suppress(OSError):
            if now - file.stat().st_mtime > _MAX_AGE:
                file.unlink()
                count += 1
    return count


def _names_at(places: Places, lines: Sequence[int]) -> set[str]:
    starts, names = [first for first, _, _ in places], set()
    for line in lines:
        place = bisect.bisect_right(starts, line) - 1
        if place >= 0 and line <= places[place][1]:
            names.add(places[place][2])
    return names
