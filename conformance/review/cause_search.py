"""Finds which symptoms are causes and which ones only come with them, from the texts that they occur in together.

The search takes facts first, in the order in which Inductor decides them, and the most frequent one first. Then it
takes the edits of code that no fact explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.review.symptoms import BUFFERS, CODE, LAST, NAMES, STAGES, Symptom, SymptomKey, Symptoms
from conformance.review.title_words import vagueness

#: A symptom of a fact is a consequence if at least this share of its texts has the cause.
WITHIN = 0.8
#: Of symptoms that nearly as many texts have, the cause is the one that Inductor decides first. An edit is a
#: consequence only if nearly all of its texts have the cause.
NEARLY = 0.9
#: An edit is a consequence of another edit if at least this share of its places are places of the other one.
TOGETHER = 0.6
#: And if it is at so many of the other one's places in the same kernels. A name that changes on every line says nothing
#: of an edit on some of these lines.
COVERED = 0.3
#: An edit in the kernels of another edit, but on other lines, is a consequence only in this share of its texts.
OFTEN_TOGETHER = 0.1
#: A kernel with at least so many different edits was rewritten: none of them is a cause by itself.
REWRITTEN = 5
#: An edit in fewer texts than this may occur together with a fact by accident.
OFTEN = 3

_ALONE = Symptom(("code", "names"), "only names, blanks or headings", CODE)
#: Of the symptoms of one fact, the most general one comes first.
_GENERALITY = {"more": 0, "fewer": 0, "head": 0, "gained": 1, "lost": 2}


@dataclass
class SearchedText:
    """One text: its symptoms, and the causes that the search found for it."""

    symptoms: Symptoms
    causes: list[FoundCause] = field(default_factory=list)


@dataclass(eq=False)
class FoundCause:
    """`texts`: the numbers of its texts. `consequences`: symptom → how many of the texts have it, and its title.

    `hidden`: the numbers of texts whose kernels are other kernels, so that no edit shows whether they have the cause.
    The words of the edit are in the old text alone, or in the new text alone.
    """

    symptom: Symptom
    texts: list[int]
    hidden: list[int] = field(default_factory=list)
    consequences: Counter[SymptomKey] = field(default_factory=Counter)
    titles: dict[SymptomKey, str] = field(default_factory=dict)


class CauseSearch:
    def __init__(self, texts: Sequence[SearchedText]) -> None:
        self.texts = texts
        self.found: list[FoundCause] = []

    def run(self) -> list[FoundCause]:
        """Returns the causes. Each text has at least one cause afterwards."""
        self._search_facts()
        self._search_code()
        self._search_names()
        self._search_rest()
        return self.found

    def _search_facts(self) -> None:
        pool = _Pool()
        for number, text in enumerate(self.texts):
            for symptom in text.symptoms.facts:
                if symptom.stage < LAST:
                    pool.add(number, symptom)
        while best := pool.most_frequent():
            rivals = [key for key in pool.counts if pool.counts[key] >= NEARLY * pool.counts[best]]
            key = min(rivals, key=lambda each: (pool.stage(each), _generality(each), -pool.counts[each], each))
            mine = pool.texts[key]
            consequences = [
                each
                for each in pool.open_beside(key)
                if pool.stage(each) >= pool.stage(key)
                and len(pool.texts[each] & mine) >= WITHIN * len(pool.texts[each])
            ]
            self._add_cause(pool, key, consequences)

    def _search_code(self) -> None:
        pool = _Pool()
        for number, text in enumerate(self.texts):
            others = {(each.part, each.site) for each in text.symptoms.code if each.key != BUFFERS}
            for symptom in text.symptoms.code:
                absorbed = text.causes and text.symptoms.is_absorbed(symptom)
                is_part = symptom.key == BUFFERS and (symptom.part, symptom.site) in others  # of another edit's lines
                if not absorbed and not is_part and not text.symptoms.is_of_names(symptom):
                    pool.add(number, symptom)
        for cause in self.found:
            self._add_edits_of_fact(pool, cause)
        for number, text in enumerate(self.texts):
            if text.causes and BUFFERS in pool.open[number]:
                text.causes[0].consequences[BUFFERS] += 1
                text.causes[0].titles[BUFFERS] = pool.sample[BUFFERS].title
                pool.close(BUFFERS, {number})
        while best := pool.most_frequent():
            rivals = [key for key in pool.counts if pool.counts[key] >= NEARLY * pool.counts[best]]
            key = min(
                rivals,
                key=pool.rank_as_cause,
            )
            self._add_cause(pool, key, [each for each in pool.open_beside(key) if _follows(pool, each, key)])

    @staticmethod
    def _add_edits_of_fact(pool: _Pool, cause: FoundCause) -> None:
        """Edits that occur nearly only in texts with a changed fact are its consequences.

        A rare edit could be an independent change. It is a consequence only of other patterns or fallbacks, which
        rewrite calls and graphs, and only if it is in a call or a graph.
        """
        mine = set(cause.texts)
        rewrites_calls = cause.symptom.stage < STAGES["kernels"]
        for key in pool.open_in(mine):
            inside = pool.texts[key] & mine
            is_frequent = len(pool.texts[key]) >= OFTEN or len(mine) <= OFTEN
            in_calls = all(part.split(" ")[-1] in ("call", "graph", "") for _, part, _ in pool.sites[key])
            if len(inside) >= NEARLY * len(pool.texts[key]) and (is_frequent or (rewrites_calls and in_calls)):
                cause.consequences[key] += len(inside)
                cause.titles[key] = pool.sample[key].title
                pool.close(key, inside)

    def _search_names(self) -> None:
        """Facts of which only numbers, names or the order changed. They follow from another fact, or a shared cause."""
        pool = _Pool()
        for number, text in enumerate(self.texts):
            for symptom in text.symptoms.facts:
                if symptom.stage == NAMES:
                    pool.add(number, symptom)
        for key in sorted(pool.texts):
            numbers = pool.texts[key]
            for cause in self.found:
                inside = pool.open_texts(key) & set(cause.texts)
                if inside and (cause.symptom.stage < LAST or len(inside) >= WITHIN * len(numbers)):
                    cause.consequences[key] += len(inside)
                    cause.titles[key] = pool.sample[key].title
                    pool.close(key, inside)
        while best := pool.most_frequent():
            self._add_cause(pool, best, ())

    def _search_rest(self) -> None:
        """Texts that differ only in bytes, buffers, names or blanks."""
        pool = _Pool()
        for number, text in enumerate(self.texts):
            if not text.causes:
                for symptom in text.symptoms.facts or text.symptoms.code or (_ALONE,):
                    pool.add(number, symptom)
        while best := pool.most_frequent():
            self._add_cause(pool, best, pool.open_beside(best))

    def _add_cause(self, pool: _Pool, key: SymptomKey, consequences: Iterable[SymptomKey]) -> None:
        numbers = sorted(pool.open_texts(key))
        cause = FoundCause(pool.sample[key], numbers)
        for each in consequences:
            if inside := pool.texts[each] & set(numbers):
                cause.consequences[each] = len(inside)
                cause.titles[each] = pool.sample[each].title
                pool.close(each, inside)
        pool.close(key, numbers)
        for number in numbers:
            self.texts[number].causes.append(cause)
        self.found.append(cause)


class _Pool:
    """The symptoms that no cause explains yet.

    `open`: text → its symptoms; `counts`: symptom → the number of texts where it is open. `texts`, `sites`: symptom →
    all its texts, and all its places as (text, part, site). `parts`: (text, part) → the symptoms in it.
    """

    def __init__(self) -> None:
        self.open: dict[int, set[SymptomKey]] = defaultdict(set)
        self.counts: Counter[SymptomKey] = Counter()
        self.texts: dict[SymptomKey, set[int]] = defaultdict(set)
        self.sites: dict[SymptomKey, set[tuple[int, str, int]]] = defaultdict(set)
        self.parts: dict[tuple[int, str], set[SymptomKey]] = defaultdict(set)
        self.sample: dict[SymptomKey, Symptom] = {}

    def add(self, number: int, symptom: Symptom) -> None:
        key = symptom.key
        self.sample.setdefault(key, symptom)
        self.sites[key].add((number, symptom.part, symptom.site))
        self.parts[number, symptom.part].add(key)
        if key not in self.open[number]:
            self.open[number].add(key)
            self.texts[key].add(number)
            self.counts[key] += 1

    def stage(self, key: SymptomKey) -> int:
        return self.sample[key].stage

    def most_frequent(self) -> SymptomKey | None:
        return min(self.counts, key=lambda key: (-self.counts[key], key), default=None)

    def rank_as_cause(self, key: SymptomKey) -> tuple[object, ...]:
        """Sorts edits in nearly as many texts: the one with the most telling title first."""
        return (vagueness(self.sample[key].title), -self.counts[key], -len(self.sites[key]), key)

    def open_texts(self, key: SymptomKey) -> set[int]:
        return {number for number in self.texts[key] if key in self.open[number]}

    def open_in(self, numbers: Iterable[int]) -> list[SymptomKey]:
        """The symptoms that are open in one of the texts, sorted."""
        return sorted({key for number in numbers for key in self.open[number]})

    def open_beside(self, key: SymptomKey) -> list[SymptomKey]:
        """The other symptoms that are open in the texts where this one is open, sorted."""
        return [each for each in self.open_in(self.open_texts(key)) if each != key]

    def close(self, key: SymptomKey, numbers: Iterable[int]) -> None:
        for number in numbers:
            if key in self.open[number]:
                self.open[number].discard(key)
                self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]


def _generality(key: SymptomKey) -> int:
    return _GENERALITY.get(key[1], 3) if len(key) > 1 else 3


def _follows(pool: _Pool, other: SymptomKey, key: SymptomKey) -> bool:
    """Whether an edit occurs only where another edit occurs: in its texts, and on its lines or often in its kernels."""
    texts, sites, mine = pool.texts[other], pool.sites[other], pool.sites[key]
    if len(texts & pool.texts[key]) < NEARLY * len(texts):
        return False
    if len(sites & mine) >= TOGETHER * len(sites):
        kernels = {site[:2] for site in sites}
        return len(sites & mine) >= COVERED * sum(site[:2] in kernels for site in mine)
    parts = {site[:2] for site in mine}
    if sum(site[:2] in parts for site in sites) < NEARLY * len(sites):
        return False
    is_frequent = len(texts) >= max(OFTEN, OFTEN_TOGETHER * len(pool.texts[key]))
    return is_frequent or all(len(pool.parts[site[:2]]) >= REWRITTEN for site in sites)
