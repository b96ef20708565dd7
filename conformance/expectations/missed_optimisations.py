"""Missed optimisations: what Inductor should do and does not do, as the case's author judges; with Inductor's reason.

    missed={"cpu contiguous": {"vectorised": "yes", "judgement": "a row can be loaded as a vector and reversed"}}

Selectors and values are those of requirements.py. A missed optimisation fails nothing.
`python -m conformance list --missed` lists it, and the run's summary says when Inductor no longer misses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from conformance.cases.selectors import DeclarationError, values_for
from conformance.expectations.requirements import JUDGEMENT, is_met
from conformance.words import UNKNOWN, pluralise

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.devices.targets import Target

#: Facts whose reason is in another fact's line. There is a second kernel because two were not fused, for example.
_EXPLAINED_BY = {"kernels": "unfused", "kinds": "kernels"}


class Facts(Protocol):
    def value(self, name: str) -> Any: ...
    def instead(self, name: str) -> str: ...
    def lines(self) -> Mapping[str, str]: ...


class RecordedItem(Protocol):
    """A case on a target, as a run records it: storage.runs.ItemRecord."""

    case: str
    target: str
    missed: list[dict[str, str]]


def find(case: Case, target: Target, facts: Facts) -> tuple[list[dict[str, str]], list[str]]:
    """The case's missed optimisations, and a sentence for each that Inductor no longer misses.

    A missed optimisation is a dict: `fact`, `wanted`, `got`, `reason` (the fact's line, with Inductor's reason where
    there is one) and `judgement`. Raises DeclarationError for a fact that does not exist.
    """
    missed: list[dict[str, str]] = []
    notices: list[str] = []
    declared = values_for(case.missed, case, target)
    judgement = declared.pop(JUDGEMENT, "")
    for fact, wanted in declared.items():
        try:
            got = facts.value(fact)
        except LookupError as error:
            raise DeclarationError(f"{case.id} on {target.name}: missed {fact!r}: {error}") from error
        if got != UNKNOWN and is_met(got, wanted, f"{case.id}: {fact}"):
            notices.append(
                f"no longer missed: {case.id} on {target.name}: {fact} is {got!r}; move it from missed= to require= in "
                f"{case.file.name}"
            )
            continue
        whole = fact.partition(".")[0]
        lines = facts.lines()
        explained = lines.get(_EXPLAINED_BY.get(whole, whole), "")
        line = lines.get(whole, "") if explained in ("", "none") else explained
        missed.append(
            {
                "fact": fact,
                "wanted": _text(wanted),
                "got": _text(got),
                "reason": line or facts.instead(fact),
                "judgement": judgement,
            }
        )
    return missed, notices


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


# The page -------------------------------------------------------------------------------------------------------------


@dataclass
class Reason:
    """Items with one reason; numbers in it may differ. `example`: the reason of the first item."""

    example: str
    items: list[tuple[str, str]] = field(default_factory=list)  # (case, target)
    judgements: list[str] = field(default_factory=list)

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for case, _ in self.items))

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(target for _, target in self.items))


@dataclass
class Section:
    """Missed optimisations of one fact on one device type."""

    fact: str
    wanted: str
    device: str
    reasons: list[Reason] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return len({case for reason in self.reasons for case in reason.cases})

    @property
    def title(self) -> str:
        """`vectorised on cpu: 17 cases, wanted yes`."""
        return f"{self.fact} on {self.device}: {pluralise(self.cases, 'case')}, wanted {self.wanted}"


def sections(items: Iterable[RecordedItem]) -> list[Section]:
    """A run's missed optimisations by fact, wanted value and device type, then by reason; the most cases first."""
    by_fact: dict[tuple[str, str, str], dict[str, Reason]] = {}
    for item in items:
        for missed in item.missed:
            reasons = by_fact.setdefault((missed["fact"], missed["wanted"], item.target.partition("_")[0]), {})
            text = missed["reason"] or missed["got"]
            reason = reasons.setdefault(_without_numbers(text), Reason(text))
            reason.items.append((item.case, item.target))
            if missed["judgement"] and missed["judgement"] not in reason.judgements:
                reason.judgements.append(missed["judgement"])
    ordered = [
        Section(*key, sorted(reasons.values(), key=lambda reason: (-len(reason.cases), reason.example)))
        for key, reasons in by_fact.items()
    ]
    return sorted(ordered, key=lambda section: (-section.cases, section.fact, section.device, section.wanted))


def _without_numbers(text: str) -> str:
    """A reason without the case's sizes, strides and positions, so that equal reasons of different cases are one."""
    terms = re.sub(r"(load|store|index_expr|value_expr) index .*? is not", r"\1 index is not", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", terms)


def markdown(sections: Sequence[Section], about: str) -> list[str]:
    """The lines of docs/missed-optimisations.md. `about`: the run's torch, cases and targets."""
    lines = [
        "# Missed optimisations",
        "",
        "What Inductor should do and does not do. The author of a case judges what it should do;",
        "Inductor gives the reason why it does not.",
        about,
        "",
    ]
    if not sections:
        return [*lines, "None."]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for reason in section.reasons:
            count = len(reason.cases)
            first, *more = reason.example.split("\n")
            lines.append(f"- **{pluralise(count, 'case')}** on {', '.join(reason.targets)}: `{first.strip()}`")
            lines += [f"  - `{line.strip()}`" for line in more]
            lines += [f"  - wanted because {judgement}" for judgement in reason.judgements]
            lines.append(f"  - {', '.join(reason.cases)}")
        lines.append("")
    return lines[:-1]
