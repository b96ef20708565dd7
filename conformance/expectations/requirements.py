"""Requirements: facts that a case's author demands by hand. They apply on every torch; accepting never changes them.

Each case is required to have no graph break, unless it declares the fact: what runs beside the graph is not compared.

    require={"all": {"kernels": 1, "fallbacks": []},
             "cpu u8": {"vectorised": "yes"},
             "gpu": {"kernels": "<=2", "same_code_as": "smooth_l1_loss_shortcut"}}

A selector is "all", or words that must all apply (selectors.py): the target's name, its device, "gpu" (cuda or xpu),
the case's labels, and torch versions ("torch>=2.13": Inductor can do it since then). A later selector overrides an
earlier one, fact by fact. What may be wanted of a fact: the value that it must equal; "<=2", ">=1", "<3" or ">0" for a
number; the first word of a text ("no" for "no: index is not contiguous").
`same_code_as` and `different_code_from` name another case function of the file, with the same labels. `same_bits` lists
properties of docs/same-bits.md.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from conformance.cases import sample_selection
from conformance.cases.bit_variants import PROPERTIES, SAME
from conformance.cases.case import CaseError
from conformance.cases.selectors import DeclarationError, applying, parse_torch_range, values_for
from conformance.cases.tolerance_policy import KEYS
from conformance.cases.wanted_matches import WantedMatches, wanted_matches_of
from conformance.documentation import reference
from conformance.errors import ConformanceError
from conformance.words import NOT_SAID, UNKNOWN, did_you_mean

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.compiler.same_bits import Verdict
    from conformance.devices.targets import Target

#: Requirements that compare code with that of another case function.
PARTNER_FACTS = ("same_code_as", "different_code_from")
#: Requires that these properties keep the bits.
SAME_BITS = "same_bits"
#: Requirements that are no facts of the capture.
_BESIDE_FACTS = (*PARTNER_FACTS, SAME_BITS)
#: A key beside the facts of `missed`: a sentence that says what Inductor should do.
JUDGEMENT = "judgement"

_BOUND = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
_COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


class RequirementError(ConformanceError, AssertionError):
    """A capture that does not meet its case's requirements."""


#: The fact that counts graph breaks.
BREAKS = "graph_breaks"
#: Facts of which the first line of the message names the one that is lost: causes before their effects.
_CAUSES = ("graph_breaks", "matches", "patterns", "operators", "fallbacks", "extern", "layout_changes", "kernels")
#: So many characters of a fact's value, or of what is there instead, are in the first line.
_SHORT = 160


class FactValues(Protocol):
    """What `check` needs of facts; see facts.Facts, which raises LookupError for an unknown name."""

    def value(self, name: str) -> Any: ...
    def instead(self, name: str) -> str: ...
    def text(self, name: str) -> str: ...


def check(
    case: Case,
    target: Target,
    facts: FactValues,
    *,
    code: str = "",
    code_of: Callable[[str], str] | None = None,
    bits_of: Callable[[Collection[str]], Iterable[Verdict]] | None = None,
) -> list[str]:
    """Returns a line for each requirement, all of them met. Raises RequirementError with every one that is not met.

    Its first line names the one that is lost, what was wanted and what is there instead.
    `code`: the capture's normalised code; `code_of`: returns the code of another case function with the same labels and
    target, by its name without `test_`. `bits_of`: returns the verdicts on properties, which it compiles for.
    Raises DeclarationError for a fact that does not exist.
    """
    judged = []
    wanted_here, advice = wanted_facts(case, target), _advice(case, target)
    if breaks := undeclared_breaks(case, _value(facts, BREAKS)):
        wanted_here, advice = {BREAKS: 0} | wanted_here, advice_on_breaks(case, breaks)
    for fact, wanted in wanted_here.items():
        if fact in PARTNER_FACTS:
            if code_of is None:
                raise DeclarationError(f"{case.id}: {fact} needs the code of {wanted!r}: pass code_of")
            same = code == code_of(partner_name(wanted))
            line = f"{fact}: wanted {_wanted_text(fact, wanted)}, got {'the same code' if same else 'other code'}"
            judged.append(_Judged(fact, line, same == (fact == "same_code_as"), line))
        elif fact == SAME_BITS:
            if bits_of is None:
                raise DeclarationError(f"{case.id}: {fact} needs compiles of their own: pass bits_of")
            judged.append(_judge_bits(wanted, bits_of(wanted)))
        else:
            judged.append(_judge(f"{case.id} on {target.name}", fact, wanted, facts))
    return _lines_or_error(f"{case.id} on {target.name}", judged, facts, advice)


def undeclared_breaks(case: Case, count: Any) -> int:
    """How many graph breaks there are of a case that declares nothing about them; 0 for a sample of an operator.

    `count`: the value of the fact; None where nothing was compiled.
    """
    declared = (fact for _, _, wanted in _declarations(case) for fact in wanted)
    if BREAKS in (fact.partition(".")[0] for fact in declared) or sample_selection.of_case(case.id):
        return 0
    return count if isinstance(count, int) else 0


def advice_on_breaks(case: Case, count: int) -> str:
    """What to do about graph breaks that a case does not declare."""
    return (
        "what is between the parts runs in eager, and is compared with itself: remove what breaks the graph, or "
        f"declare require={{'all': {{'{BREAKS}': {count}}}}} in test_{case.name} of {case.file.name}"
    )


def _value(facts: FactValues, name: str) -> Any:
    with contextlib.suppress(LookupError):
        return facts.value(name)
    return None


def _advice(case: Case, target: Target) -> str:
    selectors = ", ".join(repr(each) for each in applying(case.require, case, target))
    return (
        f"fix the cause, or edit `require` of test_{case.name} in {case.file.name}, at {selectors}: "
        f"{reference('public-names', 'keywords-of-case')}; accepting snapshots never changes a requirement"
    )


def _judge_bits(wanted: Sequence[str], verdicts: Iterable[Verdict]) -> _Judged:
    """With the case's own options. A property that is not defined is not met: it says nothing about the code."""
    lost = [each for each in verdicts if not each.mode and each.word != SAME]
    got = "; ".join(" ".join(str(each).split()) for each in lost) or "the same"
    line = f"{SAME_BITS}: wanted {', '.join(wanted)}, got {got}"
    return _Judged(SAME_BITS, line, not lost, _shortened(line))


def check_facts(
    where: str,
    wanted: Mapping[str, Any],
    facts: FactValues,
    advice: str,
    bits_of: Callable[[Collection[str]], Iterable[Verdict]],
) -> list[str]:
    """The same for facts of what is no case. `where`: what is checked. `advice`: the last line of the message."""
    judged = []
    for fact, each in wanted.items():
        if fact == SAME_BITS:
            _validate_bits(where, each)
            judged.append(_judge_bits(each, bits_of(each)))
        else:
            judged.append(_judge(where, fact, each, facts))
    return _lines_or_error(where, judged, facts, advice)


@dataclass(frozen=True)
class _Judged:
    """A requirement. `line`: what was wanted and got. `first`: the same, shortened, and what is there instead."""

    fact: str
    line: str
    is_met: bool
    first: str


def _judge(where: str, fact: str, wanted: Any, facts: FactValues) -> _Judged:
    try:
        value = facts.value(fact)
    except LookupError as error:
        raise DeclarationError(f"{where}: requires {fact!r}: {error}") from error
    name, _, part = fact.partition(".")
    if name == "operators" and part and not value and (problem := _problem_of_operator(part)):
        raise DeclarationError(f"{where}: requires {fact!r}: {problem}")
    ok = value == NOT_SAID or (value != UNKNOWN and is_met(value, wanted, f"{where}: {fact}"))
    start = f"{fact}: wanted {_wanted_text(fact, wanted)}, got "
    if isinstance(wanted, WantedMatches):
        start = f"pattern {wanted.name}: wanted {wanted}, matched "
    # What a pattern lacks explains too few matches, and not too many
    explained = not ok and (name not in ("matches", "patterns") or _is_too_few(value, wanted))
    instead = facts.instead(fact) if explained else ""
    first = start + _shortened(repr(value)) + (f": {_shortened(instead)}" if instead else "")
    return _Judged(fact, f"{start}{value!r}", ok, first)


def _is_too_few(value: Any, wanted: Any) -> bool:
    count = wanted.count if isinstance(wanted, WantedMatches) else wanted
    if isinstance(count, str):
        return count.strip().startswith(">")
    return isinstance(count, int) and isinstance(value, int) and value < count


def _problem_of_operator(name: str) -> str:
    """A name of no operator, of which there are always 0."""
    from conformance.capture.observers.operators import problem_of_operator

    return problem_of_operator(name)


def _lines_or_error(where: str, judged: Sequence[_Judged], facts: FactValues, advice: str) -> list[str]:
    failed = [each for each in judged if not each.is_met]
    if not failed:
        return [each.line for each in judged]
    lost = min(failed, key=lambda each: _rank(each.fact))
    others = ", ".join(each.fact for each in failed if each is not lost)
    title = f"{where}: {lost.first}{f' (also {others})' if others else ''}"
    texts = {each.fact.partition(".")[0]: "" for each in failed if each.fact not in _BESIDE_FACTS}
    texts = {name: text for name in texts if (text := facts.text(name))}
    lines = [f"{title}; {len(failed)} of {len(judged)} requirements not met", *(f"  {each.line}" for each in failed)]
    # The lines above stay together, because known failures match several of them.
    if texts:
        lines.append("the code has:")
        lines += [f"    {name}  {text}".replace("\n", "\n    ") for name, text in texts.items()]
    raise RequirementError("\n".join([*lines, advice]))


def _rank(fact: str) -> int:
    name = fact.partition(".")[0]
    return _CAUSES.index(name) if name in _CAUSES else len(_CAUSES)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def wanted_facts(case: Case, target: Target) -> dict[str, Any]:
    """What is required of the case on this target: fact → wanted value."""
    return values_for(case.require, case, target)


def partner_name(function: str) -> str:
    """The name of a partner's function without `test_`."""
    return function.removeprefix("test_")


def validate(cases: Iterable[Case], targets: Iterable[Target], facts: Iterable[str] | None = None) -> None:
    """Refuses requirements that are declared wrongly. Needs no capture; meant for all cases, at collection.

    `facts`: the names of all facts, to refuse others. Raises DeclarationError for the first mistake.
    """
    cases = list(cases)
    known = {word for target in targets for word in (target.name, target.device, target.family)} | {"gpu"}
    functions: dict[tuple[Path, str], list[Case]] = {}
    for case in cases:
        functions.setdefault((case.file, case.name), []).append(case)
    for (file, name), members in functions.items():
        labels = {label for case in members for label in case.labels}
        for problem in without_selectors(members[0]):
            raise DeclarationError(f"{file.name}: test_{name}: {problem}")
        numerics = members[0].numerics.get("for", {})
        for selector in numerics if isinstance(numerics, Mapping) else ():
            _validate_selector(f"{file.name}: test_{name}: numerics['for']", selector, known, labels)
        for selector, reason in members[0].only.items():
            where = f"{file.name}: test_{name}: only[{selector!r}]"
            _validate_selector(where, selector, known, labels)
            if not isinstance(reason, str) or not reason.strip():
                raise DeclarationError(f"{where} is {reason!r}; write a sentence that says why only there")
        for keyword, selector, wanted in _declarations(members[0]):
            where = f"{file.name}: test_{name}: {keyword}[{selector!r}]"
            _validate_selector(where, selector, known, labels)
            for fact, value in wanted.items():
                if keyword == "require" and fact in PARTNER_FACTS:
                    _validate_partner(where, selector, fact, value, file, members, functions, known)
                else:
                    _validate_fact(where, keyword, fact, value, facts)
        try:
            wanted_matches_of(members[0])
        except CaseError as error:
            raise DeclarationError(f"{file.name}: test_{name}: {error}") from error


def _validate_fact(where: str, keyword: str, fact: str, value: Any, facts: Iterable[str] | None) -> None:
    """Refuses an unknown name, and a wrong value of a name that is no fact."""
    if keyword == "require" and fact == SAME_BITS:
        _validate_bits(where, value)
    elif keyword == "missed" and fact == JUDGEMENT:
        _validate_judgement(where, value)
    elif facts is not None and fact.partition(".")[0] not in set(facts):
        names = [*facts, *(_BESIDE_FACTS if keyword == "require" else (JUDGEMENT,))]
        raise DeclarationError(f"{where}: no fact {fact!r}: known are {', '.join(names)}{did_you_mean(fact, names)}")


def _declarations(case: Case) -> Iterator[tuple[str, str, Any]]:
    """Keyword of @case, selector and what is declared for it."""
    for keyword, declared in (("require", case.require), ("missed", case.missed)):
        for selector, wanted in declared.items():
            yield keyword, selector, wanted


def _validate_judgement(where: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise DeclarationError(
            f"{where}: {JUDGEMENT!r} is {value!r}; write a sentence that says what Inductor should do"
        )


def _validate_bits(where: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not value or not set(value) <= set(PROPERTIES):
        known = ", ".join(PROPERTIES)
        raise DeclarationError(f"{where}: {SAME_BITS} is {value!r}; write a list of some of these: {known}")


def without_selectors(case: Case) -> Iterator[str]:
    """A sentence for each keyword of @case that has facts where its selectors belong, or the other way round."""
    for keyword, declared in (("require", case.require), ("missed", case.missed)):
        if facts := {key: each for key, each in declared.items() if not isinstance(each, Mapping)}:
            yield f"{keyword}={facts} has no selector: write {keyword}={{'all': {facts}}}"
    inner = case.numerics.get("for", {})
    pairs = inner.items() if isinstance(inner, Mapping) else ()
    if keys := {key: each for key, each in pairs if not isinstance(each, Mapping)}:
        yield f"numerics={{'for': {keys}}} has no selector: write numerics={keys}"
    if others := {key: each for key, each in case.numerics.items() if isinstance(each, Mapping) and key not in KEYS}:
        yield f"numerics={others} has selectors without 'for': write numerics={{'for': {others}}}"


def _validate_selector(where: str, selector: str, known: set[str], labels: set[str]) -> None:
    words = selector.split()
    if not words or ("all" in words and len(words) > 1):
        raise DeclarationError(f"{where}: a selector is 'all', or words that must all apply, such as 'cuda f32'")
    for word in words:
        if word.startswith("torch"):
            parse_torch_range(where, word)
        elif word != "all" and word not in known and word not in labels:
            names = ["all", *sorted(known), *sorted(labels)]
            raise DeclarationError(
                f"{where}: {word!r} is no target, no device and no label of these cases; "
                f"known are {', '.join(names)}{did_you_mean(word, names)}"
            )


def _validate_partner(
    where: str,
    selector: str,
    fact: str,
    value: Any,
    file: Path,
    members: list[Case],
    functions: Mapping[tuple[Path, str], list[Case]],
    known: set[str],
) -> None:
    others = functions.get((file, partner_name(value))) if isinstance(value, str) else None
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


def is_met(got: Any, wanted: Any, where: str) -> bool:
    """Whether a fact's value is the wanted one.

    Raises DeclarationError, which begins with `where`, for a wanted value that the fact cannot be compared with.
    """
    if isinstance(wanted, WantedMatches):
        wanted = wanted.count
    if isinstance(wanted, str):
        bound = _BOUND.fullmatch(wanted.strip())
        if bound:
            if isinstance(got, bool) or not isinstance(got, (int, float)):
                raise DeclarationError(f"{where}: {wanted!r} can only be wanted of a number, and the fact is {got!r}")
            return _COMPARISONS[bound[1]](got, float(bound[2]))
        return isinstance(got, str) and (got == wanted or re.split(r"[\s:,]", got, maxsplit=1)[0] == wanted)
    if isinstance(wanted, tuple):
        wanted = list(wanted)
    # True equals 1 in Python, and a count that is True would be a mistake.
    return (
        isinstance(got, bool) == isinstance(wanted, bool) and (list(got) if isinstance(got, tuple) else got) == wanted
    )


def _wanted_text(fact: str, wanted: Any) -> str:
    if fact in PARTNER_FACTS:
        return f"{'the same code as' if fact == 'same_code_as' else 'other code than'} {partner_name(wanted)}"
    return repr(wanted)
