"""declarations.toml beside a test file that makes its cases by itself: what they declare, as @case does elsewhere.

[made_of_constants]                      # a name for people
entries = ["zeros"]                      # names of functions, for all their cases; or, for some of them,
cases = ["eq-sample0", "add-f32-backward-sample1"]   # a sample in each dtype, or a case
dtypes = ["i64", "bool"]                 # optional: holds in these dtypes alone
torch = ">=2.13"                         # optional: holds on these versions alone
constant = ["output"]                    # optional: tensors that are the same constant in every call of numerics; a
                                         # gradient counts only in cases that have gradients
numerics = { factor = 2, reason = "…" }  # optional: see tolerance_policy.py
leaves_out = ["numerics"]                # optional: checks that are not made; the record of an item has the reason
only = { cuda = "…" }                    # optional: selector → reason
reason = "zeros() has no input"          # why
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from conformance.cases.axes import CaseError
from conformance.settings import CHECKS, SAMPLE_DTYPES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = ("cases", "entries", "dtypes", "torch", "constant", "numerics", "leaves_out", "only", "reason")


@dataclass(frozen=True)
class Declared:
    """What a case declares. Fields: as of Case."""

    numerics: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    only: dict[str, str] = field(default_factory=dict)


class Declarations:
    """The tables of a file. `where`: its name, for messages. Raises CaseError for a wrong table."""

    def __init__(self, tables: dict[str, dict[str, Any]], where: str) -> None:
        self._where = where
        self._by_case: dict[str, list[dict[str, Any]]] = {}
        self._by_entry: dict[str, list[dict[str, Any]]] = {}
        for name, table in tables.items():
            self._refuse_wrong(name, table)
            for key, found in (("cases", self._by_case), ("entries", self._by_entry)):
                for each in table.get(key, ()):
                    found.setdefault(each, []).append(table)

    @classmethod
    def read(cls, file: Path) -> Declarations:
        """Raises CaseError for a file that is malformed."""
        try:
            return cls(tomllib.loads(file.read_text(encoding="utf-8")), file.name)
        except (OSError, ValueError) as error:
            if isinstance(error, CaseError):
                raise
            raise CaseError(f"{file} cannot be read: {error}") from error

    def of(self, entry: str, labels: tuple[str, ...]) -> Declared:
        """What a case declares.

        `entry`: the name of its function. `labels`: of its dtype, `backward` or `forward`, and its sample.
        """
        dtype, grad, _sample = labels
        names = (f"{entry}-{labels[-1]}", "-".join((entry, *labels)))
        tables = [*self._by_entry.get(entry, ()), *(table for name in names for table in self._by_case.get(name, ()))]
        tables = [table for table in tables if dtype in table.get("dtypes", (dtype,)) and _is_for_this_torch(table)]
        numerics: dict[str, Any] = {key: value for table in tables for key, value in table.get("numerics", {}).items()}
        fill = {tensor: table["reason"] for table in tables for tensor in table.get("constant", ())}
        if grad == "forward":
            fill = {tensor: reason for tensor, reason in fill.items() if not tensor.startswith("gradient of ")}
        if fill:
            numerics["fill"] = numerics.get("fill", {}) | fill
        left_out = {check: table["reason"] for table in tables for check in table.get("leaves_out", ())}
        only = {key: value for table in tables for key, value in table.get("only", {}).items()}
        return Declared(numerics, left_out, only)

    def refuse_unknown_entries(self, entries: set[str]) -> None:
        """Raises CaseError for a name that no entry has."""
        named = {each.partition("-")[0] for each in self._by_case} | set(self._by_entry)
        if unknown := sorted(named - entries):
            raise CaseError(f"{self._where}: op_db has no entry {unknown[0]!r}; correct or remove it")

    def _refuse_wrong(self, name: str, table: Any) -> None:
        where = f"{self._where}, [{name}]"
        if not isinstance(table, dict):
            raise CaseError(f"{where}: write a table with the keys {', '.join(_KEYS)}")
        if unknown := [key for key in table if key not in _KEYS]:
            raise CaseError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(_KEYS)}")
        if not str(table.get("reason", "")).strip():
            raise CaseError(f"{where}: `reason` is missing: say in a sentence why")
        if not (table.get("cases") or table.get("entries")):
            raise CaseError(f"{where}: write `cases` or `entries`: the names that it is for")
        if wrong := [each for each in table.get("dtypes", ()) if each not in SAMPLE_DTYPES]:
            raise CaseError(f"{where}: unknown dtype {wrong[0]!r}; known are {', '.join(SAMPLE_DTYPES)}")
        try:
            SpecifierSet(table.get("torch", ""))
        except (InvalidSpecifier, AttributeError):
            raise CaseError(
                f"{where}: torch is {table['torch']!r}; write a range of versions, such as '>=2.13'"
            ) from None
        if wrong := [each for each in table.get("leaves_out", ()) if each not in CHECKS]:
            raise CaseError(f"{where}: unknown check {wrong[0]!r}; known are {', '.join(CHECKS)}")


def _is_for_this_torch(table: dict[str, Any]) -> bool:
    if not (given := table.get("torch")):
        return True
    import torch

    return SpecifierSet(given).contains(torch.__version__.partition("+")[0], prereleases=True)
