"""Describes causes of changes in lines of text: the largest first, each with its consequences and one example."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from conformance.review.causes import Cause
from conformance.review.review import Review
from conformance.words import pluralise

MAX_LINE_LENGTH = 110  # characters of a title, or of a line of code
#: The summary of a run shows at most so many causes, the first ones with an example and their consequences. All of it
#: fits on a screen.
MAX_CAUSES, MAX_EXAMPLES, MAX_CONSEQUENCES = 10, 3, 3
MAX_EXAMPLE_LINES = 6


def summary_lines(review: Review) -> list[str]:
    """Returns the lines for the end of a run; none if nothing changed."""
    if not review.causes:
        return []
    lines = [headline(review)]
    for number, cause in enumerate(review.causes[:MAX_CAUSES], 1):
        lines.append(f"{number:>3}  {cause_line(cause)}")
        if number <= MAX_EXAMPLES:
            below = [*example_lines(cause), *consequence_lines(cause, MAX_CONSEQUENCES)]
            lines += [f"       {line}" for line in below]
    if len(review.causes) > MAX_CAUSES:
        more = pluralise(len(review.causes) - MAX_CAUSES, "more cause")
        lines.append(f"     … {more}: python -m conformance review --list")
    return lines


def headline(review: Review) -> str:
    """Returns "406 texts of 83 cases differ by 3 causes; the facts of 7 texts changed:".

    What the compile costs comes last: "…; the costs of 9 items changed:".
    """
    of_texts = [each for each in review.causes if each.kind != "cost"]
    costly = {member.name for each in review.causes if each.kind == "cost" for member in each.members}
    parts = [_headline_of_texts(review, of_texts)] if of_texts else []
    parts += [f"the costs of {pluralise(len(costly), 'item')} changed"] if costly else []
    return f"{'; '.join(parts)}:"


def _headline_of_texts(review: Review, causes: Sequence[Cause]) -> str:
    changes = review.changed_items.values()
    cases = len({each.item.case for each in changes})
    with_facts = len({member.name for each in causes if each.kind == "fact" for member in each.members})
    verb = "differs" if len(changes) == 1 else "differ"
    line = f"{pluralise(len(changes), 'text')} of {pluralise(cases, 'case')} {verb}"
    sources = sorted({each.compared_with for each in changes if each.compared_with})
    line += f" from {' and '.join(sources)}" if sources else ""
    changed_facts = f"the facts of {pluralise(with_facts, 'text')} changed" if with_facts else "no fact changed"
    return f"{line} by {pluralise(len(causes), 'cause')}; {changed_facts}"


def consequence_lines(cause: Cause, most: int) -> list[str]:
    """Returns a line for each consequence of a cause, the most frequent ones first; at most `most`."""
    lines = [
        f"with it, in {pluralise(each.texts, cause.unit)}: {shorten(each.title)}" for each in cause.consequences[:most]
    ]
    rest = len(cause.consequences) - most
    return [*lines, f"with it, {pluralise(rest, 'more change')}"] if rest > 0 else lines


def cause_line(cause: Cause) -> str:
    """Returns the title of a cause and what it changes."""
    return f"{shorten(cause.title)}  ({pluralise(len(cause.members), cause.unit)}: {cause.reach})"


def example_lines(cause: Cause) -> list[str]:
    """Returns the place of a cause's example, and the lines of diff that contain the change."""
    return [*place_lines(cause), *cut_hunk(cause.example.hunk, MAX_EXAMPLE_LINES)]


def place_lines(cause: Cause) -> list[str]:
    """Returns the item and the part of an example. The lines of a cost name their items themselves."""
    where = f", {cause.example.where}" if cause.example.where else ""
    return [] if cause.kind == "cost" else [f"{cause.example.item.name}{where}"]


def cut_hunk(hunk: Sequence[str], lines: int) -> list[str]:
    """Returns at most `lines` lines of a hunk, from its first change on, without their common indentation."""
    if not any(line[:1] in "+-" for line in hunk if line):
        return [shorten(line) for line in hunk[:lines]]
    first = next(number for number, line in enumerate(hunk) if line[:1] in ("+", "-"))
    last = max(number for number, line in enumerate(hunk) if line[:1] in ("+", "-"))
    if last - first < lines:
        kept = list(hunk[first : last + 1])
    else:
        kept = [line for line in hunk[first : last + 1] if line[:1] in ("+", "-")]
        minus, plus = ([line for line in kept if line[0] == sign] for sign in "-+")
        half = lines // 2
        kept = [*minus[: max(half, lines - len(plus))], *plus[: max(half, lines - len(minus))]]
    bare = textwrap.dedent("\n".join(line[1:] for line in kept)).split("\n")
    return [shorten(f"{line[:1] or ' '} {text}") for line, text in zip(kept, bare, strict=True)]


def cause_lines_of_item(review: Review, item: str) -> list[str]:
    """Returns a line for each cause of an item, "cause 2 of 5: …"; at most three, and the numbers of the others."""
    numbers = review.causes_of.get(item, [])
    total = len(review.causes)
    lines = [f"cause {number} of {total}: {cause_line(review.causes[number - 1])}" for number in numbers[:3]]
    more = [str(number) for number in numbers[3:]]
    return [*lines, f"and cause{'s' * (len(more) > 1)} {', '.join(more)}"] if more else lines


def shorten(text: str, length: int = MAX_LINE_LENGTH) -> str:
    """Returns the text with at most `length` characters; "…" ends a text that was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def cause_numbers(numbers: Sequence[int]) -> str:
    """Returns "cause 2", "causes 2 to 5" or "causes 2, 4"."""
    if len(numbers) == 1:
        return f"cause {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"causes {numbers[0]} to {numbers[-1]}"
    some = ", ".join(map(str, numbers[:8]))
    return f"causes {some}{f' and {len(numbers) - 8} more' if len(numbers) > 8 else ''}"
