"""Which line of the new code is which line of the old, under other names and small edits."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from conformance.review.edits import tokens

#: A line pair is one line edited where at least this part of the tokens is in both.
ALIKE = 0.5
_CELLS = 60_000  # of the table that is filled in; for more, lines are paired by order alone

Row = tuple[int | None, int | None]  # (line of the old, line of the new); None: there is none


def align(old: Sequence[str], new: Sequence[str], *, graph: bool = False) -> list[Row]:
    """Rows in the order of both; every line of each stands in exactly one."""
    rows: list[Row] = []
    _align(old, new, 0, len(old), 0, len(new), graph, rows)
    return rows


def align_statements(old: Sequence[str], new: Sequence[str]) -> tuple[list[Row], list[tuple[int, int]]]:
    """The same for a call, in which a statement is known by how it begins, and those that moved (in no row)."""
    begins = [[_beginning(line) for line in lines] for lines in (old, new)]
    fixed = _anchors(*begins)
    counts = [Counter(each) for each in begins]
    places = {begin: j for j, begin in enumerate(begins[1]) if begin and counts[1][begin] == 1}
    known = [(i, places[b]) for i, b in enumerate(begins[0]) if b and counts[0][b] == 1 and b in places]
    moved = [pair for pair in known if pair not in set(fixed)]
    left = [i for i in range(len(old)) if i not in {i for i, _ in moved}]
    right = [j for j in range(len(new)) if j not in {j for _, j in moved}]
    rows: list[Row] = []
    lines, others = [old[i] for i in left], [new[j] for j in right]
    a = c = 0
    for i, j in fixed:
        b, d = left.index(i), right.index(j)
        _align(lines, others, a, b, c, d, False, rows)
        rows.append((b, d))
        a, c = b + 1, d + 1
    _align(lines, others, a, len(lines), c, len(others), False, rows)
    return [(None if i is None else left[i], None if j is None else right[j]) for i, j in rows], moved


def _beginning(line: str) -> tuple[str, ...]:
    """`assert_size_stride(arg0`, `del arg0`: what tells one statement from another. Buffers are counters: the whole."""
    found = [token.text for token in tokens.tokens(line)]
    if found[:1] == ["del"] and len(found) > 1:
        return ("del", *found[1:2], "") if not found[1].startswith("buf") else ()
    if not found or found[0] in ("#", "return", "def"):
        return ()
    if found[0].startswith("buf") or found[0] == "with":
        return ("", "", line)
    place = found.index("(") if "(" in found else 0
    return tuple(found[: place + 2]) if place and not found[place + 1].startswith("buf") else ()


def _align(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool, rows: list[Row]
) -> None:
    start = 0
    while a + start < b and c + start < d and old[a + start] == new[c + start]:
        start += 1
    rows += [(a + i, c + i) for i in range(start)]
    a, c = a + start, c + start
    end = 0
    while b - end > a and d - end > c and old[b - end - 1] == new[d - end - 1]:
        end += 1
    tail = [(b - end + i, d - end + i) for i in range(end)]
    b, d = b - end, d - end
    if a == b or c == d:
        rows += [(i, None) for i in range(a, b)] + [(None, j) for j in range(c, d)]
    elif b - a == d - c and all(alike(old[a + i], new[c + i], graph) >= 0.6 for i in range(b - a)):
        rows += [(a + i, c + i) for i in range(b - a)]
    else:
        _by_anchors(old, new, a, b, c, d, graph, rows)
    rows += tail


def _by_anchors(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool, rows: list[Row]
) -> None:
    """Lines that are there once in both hold the rest in place (patience diff)."""
    anchors = _anchors([tokens.keys(line, graph) for line in old[a:b]], [tokens.keys(line, graph) for line in new[c:d]])
    if not anchors:
        rows += _table(old, new, a, b, c, d, graph)
        return
    previous_a, previous_c = a, c
    for i, j in anchors:
        _align(old, new, previous_a, a + i, previous_c, c + j, graph, rows)
        rows.append((a + i, c + j))
        previous_a, previous_c = a + i + 1, c + j + 1
    _align(old, new, previous_a, b, previous_c, d, graph, rows)


def _anchors(old: Sequence[tuple[str, ...]], new: Sequence[tuple[str, ...]]) -> list[tuple[int, int]]:
    """The longest increasing run of lines that are unique in both."""
    counts, others = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if others[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(old) if counts[line] == 1 and line in places and len(line) > 2]
    piles: list[int] = []  # the last j of the best run of each length
    best: list[int] = []
    back: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(piles, j)
        back.append(best[place - 1] if place else -1)
        if place == len(piles):
            piles.append(j)
            best.append(number)
        else:
            piles[place], best[place] = j, number
    run = []
    number = best[-1] if best else -1
    while number >= 0:
        run.append(pairs[number])
        number = back[number]
    return run[::-1]


def _table(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool) -> list[Row]:
    """The alignment of the greatest likeness."""
    m, n = b - a, d - c
    if m * n > _CELLS:
        return [(i, None) for i in range(a, b)] + [(None, j) for j in range(c, d)]
    scores = [[_score(old[a + i], new[c + j], graph) for j in range(n)] for i in range(m)]
    best = [[0.0] * (n + 1) for _ in range(m + 1)]
    for i in range(m - 1, -1, -1):
        row, below, score = best[i], best[i + 1], scores[i]
        for j in range(n - 1, -1, -1):
            row[j] = max(below[j], row[j + 1], below[j + 1] + score[j] if score[j] else 0.0)
    rows: list[Row] = []
    i = j = 0
    while i < m and j < n:
        if scores[i][j] and best[i][j] == best[i + 1][j + 1] + scores[i][j]:
            rows.append((a + i, c + j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            rows.append((a + i, None))
            i += 1
        else:
            rows.append((None, c + j))
            j += 1
    rows += [(a + k, None) for k in range(i, m)]
    return rows + [(None, c + k) for k in range(j, n)]


def _score(old: str, new: str, graph: bool) -> float:
    """What a pair is worth; 0 for lines that are no pair. Brackets alone hold nothing in place."""
    same = alike(old, new, graph)
    if same < ALIKE:
        return 0.0
    words = min(len(tokens.shape(old, graph)), len(tokens.shape(new, graph)))
    weight = 0.1 if words <= 2 else 1.0
    return weight * (same + 0.5 * (tokens.keys(old, graph) == tokens.keys(new, graph)))


@functools.lru_cache(maxsize=262144)
def alike(old: str, new: str, graph: bool = False) -> float:
    """How much of the tokens of two lines is in both, from 0 to 1; names are alike whatever they are called.

    Lines that call something else are half as much alike.
    """
    first, second = tokens.shape(old, graph), tokens.shape(new, graph)
    if first == second:
        return 1.0
    if not first or not second:
        return 0.0
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / (len(first) + len(second)) * (0.5 if _calls(old) != _calls(new) else 1.0)


def _calls(line: str) -> str:
    """Of a statement of `call`, what it calls."""
    found = re.match(
        r"\s*(?:buf\d+ = |)(extern_kernels|empty_strided|assert_size_stride|torch\.ops|triton_|cpp_fused)", line
    )
    return found[1] if found else ""
