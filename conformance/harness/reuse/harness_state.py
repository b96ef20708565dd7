"""The text of the suite itself: how inputs are made, how code is generated and emulated, how results are compared."""

from __future__ import annotations

import functools
from pathlib import Path

import conformance
from conformance.cases.roots import CASE_ROOTS
from conformance.harness.reuse.file_states import digest_of, folder_states

#: Folders that no result depends on, and those of cases: the digest of an item has the text of its own case.
_LEFT_OUT = (
    *("bench", "cli", "expected_binary", "expected_code", "known_failures", "review"),
    *(root.name for root in CASE_ROOTS),
)
_SUFFIXES = (".py", ".cpp", ".toml")


@functools.cache
def harness_state(folder: Path = Path(conformance.__file__).parent) -> str:
    """The digest of the texts of all modules of the suite that numerics may depend on. 10 ms."""
    paths = [path for path, _ in folder_states(folder, without=_LEFT_OUT) if path.endswith(_SUFFIXES)]
    return digest_of(part for path in paths for part in (path, (folder / path).read_text(encoding="utf-8")))
