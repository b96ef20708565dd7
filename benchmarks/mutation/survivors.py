"""The survivors that a person has sorted: benchmarks/mutants_survivors.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Verdict → what it says. Only holes count as missed; a survivor without a verdict counts as a hole.
VERDICTS = {
    "speed": "the results stay the same, only their speed may differ",
    "equivalent": "the code is another one, but it computes the same",
    "device": "only a real device can show it",
    "unreachable": "no program reaches what is wrong",
    "hole": "results may be wrong, and no case shows it",
}


class SurvivorsError(ValueError):
    """The file of sorted survivors cannot be read; the message says what is wrong."""


@dataclass(frozen=True)
class Sorted:
    """A sorted survivor. `id`: the mutant's. `verdict`: one of VERDICTS."""

    id: str
    verdict: str
    reason: str


def read(file: Path) -> dict[str, Sorted]:
    """Mutant's id → its entry. A file that does not exist has none. Raises SurvivorsError."""
    if not file.exists():
        return {}
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")).get("survivor", [])
    except tomllib.TOMLDecodeError as error:
        raise SurvivorsError(f"{file}: {error}") from None
    result: dict[str, Sorted] = {}
    for number, entry in enumerate(entries, 1):
        where = f"{file}: survivor {number}"
        if set(entry) != {"id", "verdict", "reason"}:
            raise SurvivorsError(f"{where} has {', '.join(sorted(entry))}; it needs id, verdict and reason")
        if entry["verdict"] not in VERDICTS:
            raise SurvivorsError(f"{where}: the verdict is {entry['verdict']!r}, not one of {', '.join(VERDICTS)}")
        if not str(entry["reason"]).strip():
            raise SurvivorsError(f"{where}: the reason is empty")
        if entry["id"] in result:
            raise SurvivorsError(f"{where}: {entry['id']} is there twice")
        result[entry["id"]] = Sorted(**entry)
    return result
