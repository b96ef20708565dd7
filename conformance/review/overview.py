"""Describes groups of changes in lines of text: the largest first, each with one example."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from conformance.review.groups import Group, pluralise
from conformance.review.review import Review

MAX_LINE_LENGTH = 110  # characters of a title, or of a line of code
#: The summary of a run shows at most so many groups, and at least so many groups of facts among them.
MAX_GROUPS, MIN_FACT_GROUPS = 10, 5
MAX_EXAMPLE_LINES = 6


def summary_lines(review: Review) -> list[str]:
    """Returns the lines for the end of a run; none if nothing changed."""
    if not review.groups:
        return []
    lines = [headline(review)]
    outer = [(number, each) for number, each in enumerate(review.groups, 1) if not each.within]
    facts = [number for number, each in outer if each.kind == "fact"]
    room = max(MIN_FACT_GROUPS, MAX_GROUPS - (len(outer) - len(facts)))
    shown = [(number, each) for number, each in outer if number not in facts[room:]][:MAX_GROUPS]
    for number, each in shown:
        lines += [f"{number:>3}  {group_line(each)}", *(f"       {line}" for line in example_lines(each))]
        if inner := review.inner_groups(number):
            lines.append(f"       includes {group_numbers(inner)} (same texts)")
    if len(outer) > len(shown):
        lines.append(f"     … {len(outer) - len(shown)} more groups: python -m conformance review --list")
    return lines


def headline(review: Review) -> str:
    """Returns "406 texts of 83 cases differ by 3 edits; the facts of 7 texts changed:"."""
    changes = review.changed_items.values()
    cases = len({each.item.case for each in changes})
    facts = [each for each in review.groups if each.kind == "fact"]
    with_facts = len({member.name for each in facts for member in each.members})
    edits = len(review.groups) - len(facts)
    verb = "differs" if len(changes) == 1 else "differ"
    line = f"{pluralise(len(changes), 'text')} of {pluralise(cases, 'case')} {verb}"
    sources = sorted({each.compared_with for each in changes if each.compared_with})
    line += f" from {' and '.join(sources)}" if sources else ""
    changed_facts = f"the facts of {pluralise(with_facts, 'text')} changed" if with_facts else "no fact changed"
    return f"{line} by {pluralise(edits, 'edit')}; {changed_facts}:"


def group_line(group: Group) -> str:
    """Returns the title of a group and what it changes."""
    kind = "fact: " if group.kind == "fact" else ""
    return f"{kind}{shorten(group.title)}  ({group.reach})"


def example_lines(group: Group, lines: int = MAX_EXAMPLE_LINES) -> list[str]:
    """Returns the place of a group's example, and the lines of diff that contain the change."""
    where = f", {group.example.where}" if group.example.where else ""
    return [f"{group.example.item.name}{where}", *cut_hunk(group.example.hunk, lines)]


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


def group_lines_of_item(review: Review, item: str) -> list[str]:
    """Returns a line for each group of an item, "group 2 of 5: …"; at most three, and the numbers of the others."""
    numbers = review.groups_of.get(item, [])
    total = len(review.groups)
    lines = [f"group {number} of {total}: {group_line(review.groups[number - 1])}" for number in numbers[:3]]
    more = [str(number) for number in numbers[3:]]
    return [*lines, f"and group{'s' * (len(more) > 1)} {', '.join(more)}"] if more else lines


def shorten(text: str, length: int = MAX_LINE_LENGTH) -> str:
    """Returns the text with at most `length` characters; "…" ends a text that was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def group_numbers(numbers: Sequence[int]) -> str:
    """Returns "group 2", "groups 2 to 5" or "groups 2, 4"."""
    if len(numbers) == 1:
        return f"group {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"groups {numbers[0]} to {numbers[-1]}"
    some = ", ".join(map(str, numbers[:8]))
    return f"groups {some}{f' and {len(numbers) - 8} more' if len(numbers) > 8 else ''}"
