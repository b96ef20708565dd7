"""Gaps: what Inductor should do and does not, by the judgement written at the case; each with Inductor's reason.

    missed={"cpu contiguous": {"vectorised": "yes", "judgement": "a row can be loaded as a vector and reversed"}}

Selectors and values are those of requirements.py. A gap fails nothing: it is listed, and announced when it closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from conformance.cases.selectors import DeclarationError, values_for
from conformance.expectations.requirements import JUDGEMENT, meets

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.devices.targets import Target


#: Facts whose reason stands in the line of another one: why there is a second kernel is why two were not fused.
_EXPLAINED_BY = {"kernels": "unfused", "kinds": "kernels"}


class Facts(Protocol):
    def value(self, name: str) -> Any: ...
    def lines(self) -> Mapping[str, str]: ...


class Item(Protocol):
    """What a run records of a case on a target: storage.runs.ItemRecord."""

    case: str
    target: str
    missed: list[dict[str, str]]


def find(case: Case, target: Target, facts: Facts) -> tuple[list[dict[str, str]], list[str]]:
    """The gaps that are open, and a sentence for each that has closed.

    An open one is plain data: `fact`, `wanted`, `got`, `reason` (the fact's line: Inductor's own reason where it has
    one) and `judgement`. Raises DeclarationError for a fact that does not exist.
    """
    found, closed = [], []
    declared = values_for(case.missed, case, target)
    judgement = declared.pop(JUDGEMENT, "")
    for fact, wanted in declared.items():
        try:
            got = facts.value(fact)
        except LookupError as error:
            raise DeclarationError(f"{case.id} on {target.name}: the gap {fact!r}: {error}") from error
        if meets(got, wanted, f"{case.id}: {fact}"):
            closed.append(
                f"gap closed: {case.id} on {target.name}: {fact} is {got!r}; move it from missed= to require= in "
                f"{case.file.name}"
            )
            continue
        whole = fact.partition(".")[0]
        lines = facts.lines()
        explained = lines.get(_EXPLAINED_BY.get(whole, whole), "")
        line = lines.get(whole, "") if explained in ("", "none") else explained
        found.append(
            {
                "fact": fact,
                "wanted": _plain(wanted),
                "got": _plain(got),
                "reason": line,
                "judgement": judgement,
            }
        )
    return found, closed


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


# The page -------------------------------------------------------------------------------------------------------------


@dataclass
class Reason:
    """Items whose gap has one reason, numbers left out."""

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
    """Gaps of one fact on one device."""

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
        return f"{self.fact} on {self.device}: {self.cases} case{'s' * (self.cases != 1)}, wanted {self.wanted}"


def sections(items: Iterable[Item]) -> list[Section]:
    """The gaps of a run: by fact, wanted value and device, then by reason; the largest first."""
    found: dict[tuple[str, str, str], dict[str, Reason]] = {}
    for item in items:
        for gap in item.missed:
            reasons = found.setdefault((gap["fact"], gap["wanted"], item.target.partition("_")[0]), {})
            said = gap["reason"] or gap["got"]
            reason = reasons.setdefault(_without_numbers(said), Reason(said))
            reason.items.append((item.case, item.target))
            if gap["judgement"] and gap["judgement"] not in reason.judgements:
                reason.judgements.append(gap["judgement"])
    ordered = [
        Section(*key, sorted(reasons.values(), key=lambda reason: (-len(reason.cases), reason.example)))
        for key, reasons in found.items()
    ]
    return sorted(ordered, key=lambda section: (-section.cases, section.fact, section.device, section.wanted))


def _without_numbers(text: str) -> str:
    """What reasons have in common: sizes, strides and positions are those of a case."""
    terms = re.sub(r"(load|store|index_expr|value_expr) index .*? is not", r"\1 index is not", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", terms)


def markdown(found: Iterable[Section], about: str) -> list[str]:
    """The page, a line an entry. `about`: which torch and which run."""
    found = list(found)
    lines = [
        "# Gaps",
        "",
        "What Inductor should do and does not, by the judgement written at the case, and the reason that it gives.",
        about,
        "",
    ]
    if not found:
        return [*lines, "None."]
    for section in found:
        lines += [f"## {section.title}", ""]
        for reason in section.reasons:
            count = len(reason.cases)
            first, *more = reason.example.split("\n")
            lines.append(f"- **{count} case{'s' * (count != 1)}** on {', '.join(reason.targets)}: `{first.strip()}`")
            lines += [f"  - `{line.strip()}`" for line in more]
            lines += [f"  - wanted, since: {judgement}" for judgement in reason.judgements]
            lines.append(f"  - {', '.join(reason.cases)}")
        lines.append("")
    return lines[:-1]
