"""Requirements: facts that a case's author demands by hand. They gate on every torch; accepting never changes them.

    require={"all": {"kernels": 1, "fallbacks": []},
             "cpu u8": {"vectorised": "yes"},
             "gpu": {"kernels": "<=2", "same_code_as": "smooth_l1_loss_shortcut"}}

A selector is "all", or words that must all be among: the target's name, its device, "gpu" (cuda or xpu), the case's
labels, and torch versions ("torch>=2.13", "torch<2.12"): since when Inductor can do what is wanted. A later selector
overrides an earlier one, fact by fact. What may be wanted of a fact: a value that it equals;
"<=2", ">=1", "<3", ">0" of a number; the leading word of a text ("no" of "no: index is not contiguous").
`same_code_as` and `different_code_from` name another case function of the file, with the same labels.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from conformance.cases.selectors import DeclarationError, parse_torch_range, values_for
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.devices.targets import Target

PARTNERS = ("same_code_as", "different_code_from")
#: Beside the facts of a gap: a sentence that says what Inductor should do.
JUDGEMENT = "judgement"

_BOUND = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
_HOLDS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class RequirementError(ConformanceError, AssertionError):
    """A capture that does not do what its case demands."""


class Values(Protocol):
    def value(self, name: str) -> Any: ...


def check(
    case: Case, target: Target, facts: Values, *, code: str = "", code_of: Callable[[str], str] | None = None
) -> list[str]:
    """Raises RequirementError with every requirement that is not met; returns those that are, readable.

    `code`: the capture's normalised code; `code_of`: that of another case function with the same labels and target, by
    its name without `test_`. Raises DeclarationError for a fact that does not exist.
    """
    met, failed = [], []
    for fact, wanted in wanted_of(case, target).items():
        line = f"{fact}: wanted {_show(fact, wanted)}"
        if fact in PARTNERS:
            if code_of is None:
                raise DeclarationError(f"{case.id}: {fact} needs the code of {wanted!r}, which nobody gave")
            same = code == code_of(partner(wanted))
            got, holds = ("the same code" if same else "other code"), same == (fact == "same_code_as")
        else:
            try:
                got = facts.value(fact)
            except LookupError as error:
                raise DeclarationError(f"{case.id} on {target.name}: requires {fact!r}: {error}") from error
            holds = meets(got, wanted, f"{case.id}: {fact}")
        (met if holds else failed).append(f"{line}, got {got if fact in PARTNERS else repr(got)}")
    if failed:
        raise RequirementError(
            "\n".join(
                [
                    f"{case.id} on {target.name}: {len(failed)} of {len(met) + len(failed)} requirements not met",
                    *(f"  {line}" for line in failed),
                    f"they are written by hand in {case.file.name}; accepting snapshots never changes a requirement",
                ]
            )
        )
    return met


def wanted_of(case: Case, target: Target) -> dict[str, Any]:
    """Fact → what is wanted of it, for this case and target."""
    return values_for(case.require, case, target)


def partner(name: str) -> str:
    """The name of a partner's function without `test_`."""
    return name.removeprefix("test_")


def validate(cases: Iterable[Case], targets: Iterable[Target], facts: Iterable[str] | None = None) -> None:
    """Refuses requirements that are declared wrongly. Needs no capture; meant for all cases, at collection.

    `facts`: the names of all facts, to refuse others. Raises DeclarationError for the first mistake.
    """
    cases = list(cases)
    known = {word for target in targets for word in (target.name, target.device)} | {"gpu"}
    functions: dict[tuple[Any, str], list[Case]] = {}
    for case in cases:
        functions.setdefault((case.file, case.name), []).append(case)
    for (file, name), members in functions.items():
        labels = {label for case in members for label in case.labels}
        numerics = members[0].numerics.get("for", {})
        for selector, wanted in numerics.items() if isinstance(numerics, Mapping) else ():
            _validate_selector(f"{file.name}: test_{name}: numerics['for']", selector, wanted, known, labels)
        for selector, why in members[0].only.items():
            where = f"{file.name}: test_{name}: only[{selector!r}]"
            _validate_selector(where, selector, {}, known, labels)
            if not isinstance(why, str) or not why.strip():
                raise DeclarationError(f"{where} is {why!r}; it is a sentence: why nowhere else")
        for keyword, selector, wanted in _declared(members[0]):
            where = f"{file.name}: test_{name}: {keyword}[{selector!r}]"
            _validate_selector(where, selector, wanted, known, labels)
            for fact, value in wanted.items():
                if keyword == "require" and fact in PARTNERS:
                    _validate_partner(where, selector, fact, value, file, members, functions, known)
                elif keyword == "missed" and fact == JUDGEMENT:
                    _validate_judgement(where, value)
                elif facts is not None and fact.partition(".")[0] not in set(facts):
                    others = PARTNERS if keyword == "require" else (JUDGEMENT,)
                    raise DeclarationError(f"{where}: no fact {fact!r}: known are {', '.join([*facts, *others])}")


def _declared(case: Case) -> Iterator[tuple[str, str, Any]]:
    for keyword, declared in (("require", case.require), ("missed", case.missed)):
        for selector, wanted in declared.items():
            yield keyword, selector, wanted


def _validate_judgement(where: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise DeclarationError(f"{where}: {JUDGEMENT!r} is {value!r}; it is a sentence: what Inductor should do")


def _validate_selector(where: str, selector: str, wanted: Any, known: set[str], labels: set[str]) -> None:
    if not isinstance(wanted, Mapping):
        raise DeclarationError(f"{where} is {wanted!r}; it is a dict of fact → what is wanted")
    words = selector.split()
    if not words or ("all" in words and len(words) > 1):
        raise DeclarationError(f"{where}: a selector is 'all', or other words that must all apply")
    for word in words:
        if word.startswith("torch"):
            parse_torch_range(where, word)
        elif word != "all" and word not in known and word not in labels:
            raise DeclarationError(
                f"{where}: {word!r} is no target, no device and no label of these cases; "
                f"known are {', '.join(['all', *sorted(known), *sorted(labels)])}"
            )


def _validate_partner(where, selector, fact, value, file, members, functions, known) -> None:
    others = functions.get((file, partner(value)) if isinstance(value, str) else None)
    if others is None:
        names = ", ".join(sorted(name for other, name in functions if other == file))
        raise DeclarationError(f"{where}: {fact} names {value!r}; the functions of the file are {names}")
    words = set(selector.split()) - known  # what is left are labels
    selected = {case.labels for case in members if words <= {"all", *case.labels}}
    missing = selected - {case.labels for case in others}
    if missing:
        raise DeclarationError(
            f"{where}: {fact} = {value!r} has no case with the labels {'-'.join(min(missing)) or '(none)'}"
        )


def meets(got: Any, wanted: Any, where: str) -> bool:
    """Whether a fact's value is what is wanted; `where`, of a declaration that cannot be compared with it."""
    if isinstance(wanted, str):
        bound = _BOUND.fullmatch(wanted.strip())
        if bound:
            if isinstance(got, bool) or not isinstance(got, (int, float)):
                raise DeclarationError(f"{where}: wanted {wanted!r}, and its value is no number but {got!r}")
            return _HOLDS[bound[1]](got, float(bound[2]))
        return isinstance(got, str) and (got == wanted or re.split(r"[\s:,]", got, maxsplit=1)[0] == wanted)
    if isinstance(wanted, tuple):
        wanted = list(wanted)
    # True is 1 to Python, and a count that is True would be a mistake.
    return (
        isinstance(got, bool) == isinstance(wanted, bool) and (list(got) if isinstance(got, tuple) else got) == wanted
    )


def _show(fact: str, wanted: Any) -> str:
    if fact in PARTNERS:
        return f"{'the same code as' if fact == 'same_code_as' else 'other code than'} {partner(wanted)}"
    return repr(wanted)
