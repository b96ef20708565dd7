"""declarations.toml beside a test file that makes its cases by itself: what they declare, as @case does elsewhere.

[fill_of_zeros_like]                     # a name for people
cases = ["zeros_like-f32-forward-sample0"]   # names of cases; or `entries = [...]`, names of functions, for all cases
numerics = { fill = { output = "…" } }   # see cases/numerics_policy.py
leaves_out = ["numerics"]                # optional: checks that are not made; the record of an item has the reason
only = { cpu = "…" }                     # optional: selector → reason
reason = "it returns zeros"              # why
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.cases.axes import CaseError
from conformance.settings import CHECKS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = ("cases", "entries", "numerics", "leaves_out", "only", "reason")


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

    def of(self, entry: str, case: str) -> Declared:
        """What the case with this name declares. `entry`: the name of its function."""
        tables = [*self._by_entry.get(entry, ()), *self._by_case.get(case, ())]
        numerics: dict[str, Any] = {}
        for table in tables:
            for key, value in table.get("numerics", {}).items():
                is_table = isinstance(value, dict) and isinstance(numerics.get(key), dict)
                numerics[key] = {**numerics[key], **value} if is_table else value
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
        if wrong := [each for each in table.get("leaves_out", ()) if each not in CHECKS]:
            raise CaseError(f"{where}: unknown check {wrong[0]!r}; known are {', '.join(CHECKS)}")
