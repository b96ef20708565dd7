"""Groups of changes as a terminal shows them: the largest first, one example each."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from conformance.review.groups import Group, count
from conformance.review.review import Review

LONGEST = 110  # characters of a title or of a line of code
#: Groups that a run's summary shows, of these as many of facts where there are others, and lines of an example.
GROUPS, FACTS, LINES = 10, 5, 6


def summary_lines(review: Review) -> list[str]:
    """For the end of a run: nothing where nothing differs."""
    if not review.groups:
        return []
    lines = [headline(review)]
    outer = [(number, each) for number, each in enumerate(review.groups, 1) if not each.within]
    facts = [number for number, each in outer if each.kind == "fact"]
    room = max(FACTS, GROUPS - (len(outer) - len(facts)))
    shown = [(number, each) for number, each in outer if number not in facts[room:]][:GROUPS]
    for number, each in shown:
        lines += [f"{number:>3}  {line_of(each)}", *(f"       {line}" for line in example(each))]
        if inner := review.inner(number):
            lines.append(f"       with it, in the same texts: {groups_said(inner)}")
    if len(outer) > len(shown):
        lines.append(f"     … {len(outer) - len(shown)} more: python -m conformance review --list")
    return lines


def headline(review: Review) -> str:
    """`406 texts of 83 cases differ, by 3 edits; facts of 7 changed:`."""
    cases = len({each.item.case for each in review.differing.values()})
    facts = [each for each in review.groups if each.kind == "fact"]
    changed = len({member.name for each in facts for member in each.members})
    edits = len(review.groups) - len(facts)
    said = f"{count(len(review.differing), 'text')} of {count(cases, 'case')} {_differ(len(review.differing))}"
    since = sorted({each.since for each in review.differing.values() if each.since})
    said += f" from {' and '.join(since)}" if since else ""
    return f"{said}, by {count(edits, 'edit')}; {f'facts of {changed} changed' if changed else 'no fact changed'}:"


def line_of(each: Group) -> str:
    """Title and reach on a line."""
    kind = "fact: " if each.kind == "fact" else ""
    return f"{kind}{short(each.title)}  ({each.reach})"


def example(each: Group, lines: int = LINES) -> list[str]:
    """Where, and the lines of diff that hold the change."""
    where = f"{each.example.item.name}{f', {each.example.where}' if each.example.where else ''}"
    return [where, *cut(each.example.hunk, lines)]


def cut(hunk: Sequence[str], lines: int) -> list[str]:
    """The hunk from its first change on, without the indentation that all its lines have."""
    if not any(line[:1] in "+-" for line in hunk if line):
        return [short(line) for line in hunk[:lines]]
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
    return [short(f"{line[:1] or ' '} {text}") for line, text in zip(kept, bare, strict=True)]


def named(review: Review, item: str) -> list[str]:
    """For a single failure: `group 2 of 5: …`, a line each; the first three."""
    numbers = review.groups_of.get(item, [])
    total = len(review.groups)
    lines = [f"group {number} of {total}: {line_of(review.groups[number - 1])}" for number in numbers[:3]]
    more = [str(number) for number in numbers[3:]]
    return [*lines, f"and group{'s' * (len(more) > 1)} {', '.join(more)}"] if more else lines


def short(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def groups_said(numbers: Sequence[int]) -> str:
    """`group 2`, `groups 2 to 5`, `groups 2, 4`."""
    if len(numbers) == 1:
        return f"group {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"groups {numbers[0]} to {numbers[-1]}"
    some = ", ".join(map(str, numbers[:8]))
    return f"groups {some}{f' and {len(numbers) - 8} more' if len(numbers) > 8 else ''}"


def _differ(number: int) -> str:
    return "differs" if number == 1 else "differ"
