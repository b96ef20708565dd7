"""The patterns of Inductor's pattern matcher whose matches a case demands."""

from __future__ import annotations

from typing import Any

from conformance.capture.program import OF_INDUCTOR, WantedMatches
from conformance.cases.case import Case, CaseError


def wanted_matches_of(case: Case) -> list[WantedMatches]:
    """The patterns whose matches a case demands, on any target; each name once.

    Also the names of Inductor's patterns that a case requires by the fact `patterns`, with that fact as their name: so
    the message says why one does not match. Raises CaseError if two different patterns have one name.
    """
    found: dict[str, WantedMatches] = {}
    for declared in (*case.require.values(), *case.missed.values()):
        for each in filter(None, (_wanted_of(fact, wanted) for fact, wanted in declared.items())):
            other = found.setdefault(each.name, each)
            if other.pattern is not each.pattern and other.pattern != each.pattern:
                raise CaseError(
                    f"{case.id}: two patterns are named {each.name!r}; give one of them another name: "
                    "contract(pattern=…, name='…')"
                )
    return list(found.values())


def _wanted_of(fact: str, wanted: Any) -> WantedMatches | None:
    if isinstance(wanted, WantedMatches):
        return wanted
    if fact.startswith(OF_INDUCTOR) and wanted and not str(wanted).startswith("<"):
        return WantedMatches(fact, fact.removeprefix(OF_INDUCTOR), wanted)
    return None
