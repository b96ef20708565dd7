"""Finds what caused the changes of texts: causes, and the consequences of each.

    found = find_causes([ChangedText("flip/hflip-224-u8", "cuda_sm90", stored, new), …])

A cause is a symptom that many texts share: a fact that changed in one direction, else an edit of code. A consequence is
a symptom that occurs only together with the cause. A text with two independent changes is a member of two causes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance import facts
from conformance.cases.dtypes import DTYPES
from conformance.devices.targets import targets
from conformance.normalize.text import canonical_text
from conformance.review.cause_search import CauseSearch, FoundCause, SearchedText
from conformance.review.symptoms import CODE, SymptomKey, text_symptoms
from conformance.review.title_words import edit_words, vagueness
from conformance.words import pluralise

Kind = Literal["fact", "code", "cost"]
#: A consequence that at least this share of the members have may be part of the cause's title.
_MOST = 0.8


@dataclass(frozen=True)
class ChangedText:
    """The old text (`stored`) and the new text of an item."""

    case: str
    target: str
    stored: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.case}-{self.target}"


@dataclass(frozen=True)
class Consequence:
    """A symptom that occurs only together with a cause. `texts`: how many members of the cause have it."""

    title: str
    texts: int


@dataclass(frozen=True)
class Example:
    """One place of a cause: the item, the part of its text, and a few lines of diff."""

    item: ChangedText
    where: str
    hunk: tuple[str, ...]


@dataclass
class Cause:
    """All texts that one change of the compiler changes.

    `id`: equal for the same cause in another run, as is `key`, the symptom that makes it. `kind`: whether the cause is
    a fact, an edit of code, or what the compile costs (cost_causes.py). `members`: the changed texts, in the order of
    the input; of a cost the items, the one that changed most first. `kernels`: the number of kernels, calls and graphs
    that an edit changes; 0 for others. `example`: the shortest member, and one that has no
    other cause if there is one. `only`: the operator and the dtype that all members share, if not all changed texts
    share them.
    """

    id: str
    kind: Kind
    title: str
    members: list[ChangedText]
    kernels: int
    example: Example
    consequences: list[Consequence] = field(default_factory=list)
    only: tuple[str, ...] = ()
    key: SymptomKey = ()

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(member.case for member in self.members))

    @property
    def targets(self) -> list[str]:
        names = {member.target for member in self.members}
        return [*(name for name in targets() if name in names), *sorted(names - set(targets()))]

    @property
    def unit(self) -> str:
        """What a member is: the text of a cost may be the same."""
        return "item" if self.kind == "cost" else "text"

    @property
    def reach(self) -> str:
        """What the cause changes: "312 kernels, 40 cases, on cpu_avx2 and cuda_sm90, only bf16"."""
        kernels = [pluralise(self.kernels, "kernel")] if self.kernels else []
        only = [f"only {' '.join(self.only)}"] if self.only else []
        return ", ".join([*kernels, pluralise(len(self.cases), "case"), f"on {join_targets(self.targets)}", *only])


def find_causes(changes: Iterable[ChangedText]) -> list[Cause]:
    """Returns the causes, the one with the most members first. Leaves out texts that did not change."""
    items: list[ChangedText] = []
    texts: list[SearchedText] = []
    for item in changes:
        stored, new = canonical_text(item.stored), canonical_text(item.new)
        if stored != new:
            items.append(item)
            texts.append(SearchedText(text_symptoms(stored, new)))
    search = CauseSearch(texts).run()
    _find_hidden(search, items, texts)
    found = [_cause(each, items, texts) for each in search]
    return sorted(found, key=lambda cause: (-len(cause.members), cause.kind != "fact", cause.title, cause.id))


def _find_hidden(search: Sequence[FoundCause], items: Sequence[ChangedText], texts: Sequence[SearchedText]) -> None:
    """Finds texts that may have an edit which other texts show, inside kernels that became other kernels.

    Accepting the cause of the other kernels must not accept the edit with it.
    """
    words: dict[int, tuple[set[str], set[str]]] = {}  # number → the words of the old text alone, of the new text alone
    for number, text in enumerate(texts):
        if text.symptoms.replaced:
            old, new = (set(re.findall(r"\w+", each)) for each in (items[number].stored, items[number].new))
            words[number] = (old - new, new - old)
    for cause in search:
        key = cause.symptom.key
        if key[0] != "code" or key[1] not in ("added to", "removed from", "replaced"):
            continue
        gone, come = edit_words(key[1:])
        if gone or come:
            shown = set(cause.texts)
            cause.hidden += [
                number
                for number, (lost, gained) in words.items()
                if number not in shown and gone <= lost and come <= gained
            ]


def _cause(found: FoundCause, items: Sequence[ChangedText], texts: Sequence[SearchedText]) -> Cause:
    symptom = found.symptom
    members = [items[number] for number in sorted([*found.texts, *found.hidden])]
    alone = [number for number in found.texts if len(texts[number].causes) == 1]
    number = min(alone or found.texts, key=lambda each: (len(items[each].new), items[each].name))
    symptoms = texts[number].symptoms
    example = next((each for each in (*symptoms.facts, *symptoms.code) if each.key == symptom.key), symptom)
    places = [
        (number, each) for number in found.texts for each in texts[number].symptoms.code if each.key == symptom.key
    ]
    found.titles[symptom.key] = symptom.title
    title_key, title, others = _title(found)
    exact_titles = {
        each.exact_title for number in found.texts for each in texts[number].symptoms.code if each.key == title_key
    }
    consequences = sorted(others.items(), key=lambda entry: (-entry[1], entry[0]))
    return Cause(
        id=hashlib.sha256(repr(symptom.key).encode()).hexdigest()[:6],
        kind="fact" if symptom.key[0] in facts.NAMES else "code",
        title=exact_titles.pop() if len(exact_titles) == 1 else title,
        members=members,
        kernels=len({(number, each.part) for number, each in places}),
        example=Example(items[number], example.part, example.hunk),
        consequences=[Consequence(found.titles[key], count) for key, count in consequences],
        only=_shared_words(members, items),
        key=symptom.key,
    )


def _title(found: FoundCause) -> tuple[SymptomKey, str, dict[SymptomKey, int]]:
    """The symptom that the title names, the title, and the consequences that the title does not say."""
    if found.symptom.stage == CODE:
        return _code_title(found)
    return found.symptom.key, *_fact_title(found)


def _code_title(found: FoundCause) -> tuple[SymptomKey, str, dict[SymptomKey, int]]:
    """Of the edits that all members have, the title names the one with the most telling words."""
    key, titles = found.symptom.key, found.titles
    shared = [key, *sorted(k for k, count in found.consequences.items() if count == len(found.texts))]
    chosen = min(shared, key=lambda each: (vagueness(titles[each]), each != key))
    others = {**found.consequences, key: len(found.texts)}
    del others[chosen]
    opposite = (chosen[0], {"added": "removed", "removed": "added"}.get(chosen[1], ""), *chosen[2:])
    if opposite in shared:
        del others[opposite]
        return opposite, f"changed: `{chosen[2]}`", others
    return chosen, titles[chosen], others


def _fact_title(found: FoundCause) -> tuple[str, dict[SymptomKey, int]]:
    """The cause in words, and the consequences that these words do not say."""
    key, others = found.symptom.key, dict(found.consequences)

    def take(*start: str) -> str:
        """Removes the consequence that begins like this and that most members have; returns its last word."""
        enough = _MOST * len(found.texts)
        chosen = min((k for k in others if k[: len(start)] == start and others[k] >= enough), default=None)
        if chosen is None:
            return ""
        del others[chosen]
        return chosen[-1]

    if key == ("patterns", "fewer"):
        lost = sorted((k for k in others if k[:2] == ("patterns", "lost")), key=lambda k: (-others[k], k))
        for each in lost:
            del others[each]
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        return f"patterns  no longer match: {', '.join(each[2] for each in lost[:3])}{more}", others
    if key == ("kernels", "more"):
        reason = take("unfused", "gained")
        return f"kernels  split{f': {reason}' if reason else ''}", others
    if key == ("kernels", "fewer"):
        reason = take("unfused", "lost")
        return f"kernels  fused{f', no longer: {reason}' if reason else ''}", others
    if len(key) == 3 and key[1] == "gained" and (lost_phrase := take(key[0], "lost")):
        return f"{key[0]}  {lost_phrase} → {key[2]}", others
    if len(key) == 3 and key[1] == "lost" and (gained_phrase := take(key[0], "gained")):
        return f"{key[0]}  {key[2]} → {gained_phrase}", others
    return found.symptom.title, others


def _shared_words(members: Sequence[ChangedText], everything: Sequence[ChangedText]) -> tuple[str, ...]:
    """The operator and the dtypes that all members have and that not all texts have."""
    if len(members) < 2:
        return ()
    shared, by_all = (set.intersection(*[_words(each) for each in texts]) for texts in (members, everything))
    return tuple(sorted(shared - by_all))


def _words(item: ChangedText) -> set[str]:
    operator, _, labels = item.case.partition("/")
    return {operator, *(word for word in labels.split("-") if word in DTYPES)}


def join_targets(names: Sequence[str]) -> str:
    """Joins target names: "cpu_avx2 and cuda_sm90". Gives only the devices if there are more than three targets."""
    shown = list(names)
    if len(shown) > 3:
        shown = list(dict.fromkeys(name.partition("_")[0] for name in names))
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
