"""Releases of torch that captures support, and what goes with each. The table is torch_releases.toml."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class TorchRelease:
    """A row of the table. `name`: "2.13". The other fields: see there."""

    name: str
    triton: str = ""
    strict: bool = False
    xpu_compiler: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """The name as environment.TorchBuild.release has it: (2, 13)."""
        major, minor = self.name.split(".")
        return int(major), int(minor)


def _read() -> tuple[TorchRelease, ...]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(TorchRelease(name, **row) for name, row in rows.items())


RELEASES = _read()
OLDEST, NEWEST = RELEASES[0].number, RELEASES[-1].number
[STRICT] = (each.name for each in RELEASES if each.strict)
#: The releases that are tested.
TESTED = tuple(each for each in RELEASES if each.triton)
#: The page about changes from one tested release to the next → the names of both.
CHANGES = {f"changes-{old.name}-{new.name}": (old.name, new.name) for old, new in itertools.pairwise(TESTED)}


def release_of(number: tuple[int, int]) -> TorchRelease | None:
    """The release of this number; None if the table has none."""
    return next((each for each in RELEASES if each.number == number), None)
