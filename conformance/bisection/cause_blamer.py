"""Blames the causes of a review: each gets the functions whose new form makes its example."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.bisection.blamer import BlameError, Blamer, Change
from conformance.bisection.observation import Question, QuestionError
from conformance.bisection.observer import Observer
from conformance.bisection.sides import Side
from conformance.review.cause_functions import CauseFunctions, compared_with
from conformance.review.causes import Cause, ChangedText, Example
from conformance.review.review import Review
from conformance.review.symptoms import text_symptoms

#: So many places of a cause's example are blamed: a cause is one change, and its places come from the same functions.
_PLACES = 3
#: So many texts of a cause are looked at for one with its edit.
_TRIED = 20
#: So many captures are made for one place at most.
_CAPTURES = 100

MakeBlamer = Callable[[Side, Side, Observer, Question, int], Blamer]


def blame_causes(
    review: Review,
    causes: Sequence[Cause],
    sides: tuple[Side, Side],
    *,
    tables: Sequence[str] = (),
    make: MakeBlamer = Blamer,
) -> Iterator[tuple[Cause, CauseFunctions]]:
    """Yields each cause as soon as its functions are found, those of one target together.

    `sides`: the torch of the old texts, and that of the new ones. `tables`: files of further targets.
    Raises ObserverError and BlameError where nothing can be observed at all.
    """
    common = Counter(target for cause in causes for target in cause.targets)
    chosen = {cause.id: example_of(review, cause, common) for cause in causes}
    groups = {cause.id: (chosen[cause.id].item.target, _question(cause).counts_work) for cause in causes}
    for target, work in dict.fromkeys(groups.values()):
        here = [cause for cause in causes if groups[cause.id] == (target, work)]
        words = {cause.id: _word(review, chosen[cause.id].item) for cause in here}
        observer = Observer(tuple(dict.fromkeys(words.values())), target, tables=tuple(tables), work=work)
        with contextlib.closing(make(*sides, observer, Question(), _CAPTURES)) as blamer:
            blamer.observe_sides()
            for cause in here:
                found = _functions(blamer, cause, chosen[cause.id], words[cause.id])
                names: dict[str, Any] = {"item": chosen[cause.id].item.name, "old": sides[0].name, "new": sides[1].name}
                yield cause, CauseFunctions(**found, **names, compared_with=compared_with(review, cause))


def example_of(review: Review, cause: Cause, common: Mapping[str, int]) -> Example:
    """The text of a cause that is compiled: on a target that many causes have, so that they share work; without other
    causes if there is one, and short.

    `common`: target → how many causes have it.
    """

    def cost(text: ChangedText) -> tuple[object, ...]:
        others = len(review.causes_of[text.name])
        return (-common[text.target], text.target, others, len(text.new), text.name)

    for text in sorted(cause.members, key=cost)[:_TRIED]:
        symptoms = text_symptoms(text.stored, text.new)
        for symptom in (*symptoms.facts, *symptoms.code):
            if symptom.key == cause.key:
                return Example(text, symptom.part, symptom.hunk)
    return cause.example


def _word(review: Review, text: ChangedText) -> str:
    """How a process of its own finds the case: by its file, or if that is not here by its id."""
    file = review.item(text.name).item.file
    return f"{file}::{text.case}" if file and Path(file).is_file() else text.case


def _question(cause: Cause) -> Question:
    return Question() if cause.kind == "code" else Question("fact", cause.key[0])


def _functions(blamer: Blamer, cause: Cause, example: Example, word: str) -> dict[str, Any]:
    """The `functions`, whether the search was cut off, and why there are none."""
    blamer.question = _question(cause)
    try:
        old, new = blamer.observations(word)
        places = blamer.changes(old, new)
    except (BlameError, QuestionError) as error:
        return {"functions": (), "stopped": str(error)}
    if cause.kind == "code":
        places = _shown(places, example.hunk)
    found = [blamer.blame_change(word, change, old) for change in places[:_PLACES]]
    functions = dict.fromkeys(each.title for blamed in found for each in blamed.functions)
    stopped = next((each.stopped for each in found if each.stopped), f"{example.item.name} does not change now")
    is_cut_off = any(each.is_cut_off for each in found)
    return {"functions": tuple(functions), "stopped": "" if functions else stopped, "is_cut_off": is_cut_off}


def _shown(places: Sequence[Change], hunk: Sequence[str]) -> list[Change]:
    """The changes that a hunk shows. Of metadata, a hunk has lines of its own: then the change with the most words."""
    gone, come = ({line[1:].strip() for line in hunk if line.startswith(sign)} for sign in "-+")
    if shown := [each for each in places if gone & set(each.removed) or come & set(each.added)]:
        return shown
    words = _different_words(gone, come)
    shared = {each: len(words & _different_words(each.removed, each.added)) for each in places}
    return [each for each in places if shared[each] and shared[each] == max(shared.values())]


def _different_words(old: Iterable[str], new: Iterable[str]) -> set[str]:
    one, other = (set(re.findall(r"\w+", " ".join(lines))) for lines in (old, new))
    return one ^ other
