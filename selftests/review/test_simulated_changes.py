"""Causes of simulated changes of the compiler in all stored texts: exact membership, and no edit is hidden."""

from __future__ import annotations

import itertools
import random

import pytest
from simulated_changes import SIMULATED, changed_kernels, helper, helper_of_many, keyword, mutated, stored_texts

from conformance.normalize.text import canonical_text
from conformance.review.causes import Cause, ChangedText, find_causes

CHOSEN = [chosen for count in (1, 3) for chosen in itertools.combinations(SIMULATED, count)]
#: Each selection of changes is made in every ninth text, and no text has two.
EVERY = 9


@pytest.mark.long("it simulates changes in every ninth of all stored texts")
@pytest.mark.parametrize("chosen", CHOSEN, ids="+".join)
def test_compiler_wide_changes_are_exactly_their_causes(chosen):
    expected = {title: change for name in chosen for title, change in SIMULATED[name].items()}
    texts = stored_texts()[CHOSEN.index(chosen) :: EVERY]
    changed = []
    for case, target, text in texts:
        new = text
        for change in expected.values():
            new = change(new)
        changed.append(ChangedText(case, target, text, new))
    causes = find_causes(changed)
    assert sorted(each.title for each in causes) == sorted(expected)
    for title, change in expected.items():
        (cause,) = [each for each in causes if each.title == title]
        items = {(case, target) for case, target, text in texts if change(text) != text}
        assert {(member.case, member.target) for member in cause.members} == items
        assert len(items) > 50
        assert cause.kernels == sum(changed_kernels(text, change) for *_, text in texts)
        assert (cause.kind, cause.consequences) == ("code", [])
    sizes = [len(each.members) for each in causes]
    assert sizes == sorted(sizes, reverse=True)


def test_the_same_texts_have_no_cause():
    assert find_causes(ChangedText(case, target, text, text) for case, target, text in stored_texts()) == []


def explanations(causes: list[Cause], member: ChangedText) -> set[tuple[str, str]]:
    """The causes of a text and their consequences, by id and title."""
    found = [each for each in causes if member in each.members]
    return {(each.id, title) for each in found for title in ("", *(one.title for one in each.consequences))}


def test_no_edit_hides_behind_another():
    """A small edit in one text, while the whole compiler changes, has a cause that the wide changes do not have.

    Few edits are on the same line as a wide change: those may be a consequence of it, which the review names.
    """
    rng = random.Random(0)
    # Without a kernel, a text is a few calls, and the wide changes are in most of its lines.
    texts = sorted({text for *_, text in stored_texts() if "# kernel" in text})
    change = lambda text: keyword(helper(helper_of_many(text)))  # noqa: E731 - one expression, used three times
    others = [ChangedText(f"other{n}", "t", text, change(text)) for n, text in enumerate(texts[:: len(texts) // 6])]
    wide = {(each.id, "") for each in find_causes(others)}
    edits = consequences = 0
    while edits < 240:
        text = rng.choice(texts)
        new = mutated(text, rng)
        if canonical_text(new) == canonical_text(text):
            continue
        edits += 1
        small = ChangedText("small", "t", text, change(new))
        found = explanations(find_causes([*others, small]), small) - wide
        assert found, new
        consequences += all(title for _, title in found)
        alone = find_causes([ChangedText("small", "t", text, new)])
        assert alone
        assert all(len(each.members) == 1 for each in alone)
    assert consequences <= 12
