"""Releases of torch that are supported, and what goes with each. The table is torch_releases.toml."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Mapping
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
    versions: Mapping[str, str]
    stored: bool = False
    strict: bool = False
    xpu_compiler: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """The name as environment.TorchBuild.release has it: (2, 13)."""
        return release_number(self.name)

    @property
    def newest(self) -> str:
        """The newest version: "2.13.0"."""
        return list(self.versions)[-1]

    @property
    def triton(self) -> str:
        """The Triton that the newest version requires."""
        return self.versions[self.newest]


def release_number(name: str) -> tuple[int, int]:
    """(2, 13) for "2.13"."""
    major, minor = name.split(".")
    return int(major), int(minor)


def is_between(since: str, release: tuple[int, int], until: str = "") -> bool:
    """Whether a release is within bounds, which are part of it. `since`, `until`: names of releases; "" for none."""
    return (not since or release_number(since) <= release) and (not until or release <= release_number(until))


def _read() -> tuple[TorchRelease, ...]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(TorchRelease(name, **row) for name, row in rows.items())


RELEASES = _read()
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
#: Each supported version → the Triton that its wheel requires.
VERSIONS = {version: triton for each in RELEASES for version, triton in each.versions.items()}
[STRICT] = (each.name for each in RELEASES if each.strict)
#: The releases that the whole suite runs on.
TESTED = tuple(each for each in RELEASES if each.stored)
#: The page about changes from one tested release to the next → the names of both.
CHANGES = {f"changes-{old.name}-{new.name}": (old.name, new.name) for old, new in itertools.pairwise(TESTED)}


def release_of(number: tuple[int, int]) -> TorchRelease | None:
    """The release of this number; None if the table has none."""
    return next((each for each in RELEASES if each.number == number), None)


def supported_version(version: str) -> str:
    """The supported version that `version` is a build of, such as "2.13.0" for "2.13.0+cpu"; "" if it is none."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return found[0] if found and found[0] in VERSIONS else ""


def advised_version(version: str = "") -> str:
    """The supported version to install instead of `version`, or where there is none.

    It is of the same release, or of the one that every supported Python has a wheel of.
    """
    same = [each.newest for each in RELEASES if version.startswith(f"{each.name}.")]
    return same[0] if same else next(each.newest for each in RELEASES if each.strict)


def unsupported_message(version: str) -> str:
    """Why this torch is refused, and what to install, in one sentence; "" for a supported one."""
    if supported_version(version):
        return ""
    advised = advised_version(version)
    others = ", ".join(each for each in VERSIONS if each != advised)
    return f"torch {version} is not supported: pip install torch=={advised} (supported as well: {others})"
