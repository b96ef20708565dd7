"""How often a pattern of Inductor's pattern matcher must match: a wanted value of the fact `matches`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.cases.case import Case, CaseError

#: How the name begins of a pattern that a case requires by the fact `patterns`.
OF_INDUCTOR = "patterns."


@dataclass(frozen=True, eq=False)
class WantedMatches:
    """`name`: the part of the fact `matches`. `count`: a number, or a bound such as "<=2".

    `pattern`: the name of a pattern of Inductor, as the fact `patterns` has it; a function that is searched for, or
    that handles matches; an expression of patterns; or a pass, or an object that has passes. `inputs`: example inputs
    of a searched function.
    """

    name: str
    pattern: Any
    count: int | str
    inputs: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return repr(self.count)


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
