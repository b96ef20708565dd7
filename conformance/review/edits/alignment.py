"""Pairs the lines of old and new code, although names and numbers changed."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from conformance.review.edits import tokens

#: Two lines may be a pair if they share at least this part of their tokens.
MIN_SIMILARITY = 0.5
_MAX_CELLS = 60_000  # of the alignment table; longer runs of lines are not paired

Row = tuple[int | None, int | None]  # (number of the old line, number of the new line); None: no line


def align_lines(old: Sequence[str], new: Sequence[str], *, graph: bool = False) -> list[Row]:
    """Returns pairs of lines in the order of both. Every line is in exactly one row. `graph`: lines of an FX graph."""
    rows: list[Row] = []
    _align(old, new, 0, len(old), 0, len(new), graph, rows)
    return rows


def align_statements(old: Sequence[str], new: Sequence[str]) -> tuple[list[Row], list[tuple[int, int]]]:
    """Aligns the statements of a call. Returns rows, and the pairs that moved, which are in no row.

    A statement is recognised by its beginning; see _beginning.
    """
    old_begins, new_begins = ([_beginning(line) for line in lines] for lines in (old, new))
    anchors = _anchors(old_begins, new_begins)
    old_counts, new_counts = Counter(old_begins), Counter(new_begins)
    new_numbers = {begin: j for j, begin in enumerate(new_begins) if begin and new_counts[begin] == 1}
    pairs = [(i, new_numbers[b]) for i, b in enumerate(old_begins) if b and old_counts[b] == 1 and b in new_numbers]
    moved = [pair for pair in pairs if pair not in set(anchors)]
    left = [i for i in range(len(old)) if i not in {i for i, _ in moved}]
    right = [j for j in range(len(new)) if j not in {j for _, j in moved}]
    rows: list[Row] = []
    old_rest, new_rest = [old[i] for i in left], [new[j] for j in right]
    a = c = 0
    for i, j in anchors:
        b, d = left.index(i), right.index(j)
        _align(old_rest, new_rest, a, b, c, d, False, rows)
        rows.append((b, d))
        a, c = b + 1, d + 1
    _align(old_rest, new_rest, a, len(old_rest), c, len(new_rest), False, rows)
    return [(None if i is None else left[i], None if j is None else right[j]) for i, j in rows], moved


def _beginning(line: str) -> tuple[str, ...]:
    """Returns what identifies a statement: `assert_size_stride(arg0`, `del arg0`; the whole line for `buf0 = …`.

    Buffers are renumbered, so a statement that begins with a call on a buffer gives ().
    """
    words = [token.text for token in tokens.tokenise(line)]
    if words[:1] == ["del"] and len(words) > 1:
        return ("del", *words[1:2], "") if not words[1].startswith("buf") else ()
    if not words or words[0] in ("#", "return", "def"):
        return ()
    if words[0].startswith("buf") or words[0] == "with":
        return ("", "", line)
    bracket = words.index("(") if "(" in words else 0
    return tuple(words[: bracket + 2]) if bracket and not words[bracket + 1].startswith("buf") else ()


def _align(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool, rows: list[Row]
) -> None:
    """Appends the rows of old[a:b] and new[c:d]."""
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
    elif b - a == d - c and all(line_similarity(old[a + i], new[c + i], graph) >= 0.6 for i in range(b - a)):
        rows += [(a + i, c + i) for i in range(b - a)]
    else:
        _by_anchors(old, new, a, b, c, d, graph, rows)
    rows += tail


def _by_anchors(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool, rows: list[Row]
) -> None:
    """Pairs lines that occur once in both, then aligns the lines between them (patience diff)."""
    anchors = _anchors(
        [tokens.line_keys(line, graph) for line in old[a:b]], [tokens.line_keys(line, graph) for line in new[c:d]]
    )
    if not anchors:
        rows += _best_rows(old, new, a, b, c, d, graph)
        return
    previous_a, previous_c = a, c
    for i, j in anchors:
        _align(old, new, previous_a, a + i, previous_c, c + j, graph, rows)
        rows.append((a + i, c + j))
        previous_a, previous_c = a + i + 1, c + j + 1
    _align(old, new, previous_a, b, previous_c, d, graph, rows)


def _anchors(old: Sequence[tuple[str, ...]], new: Sequence[tuple[str, ...]]) -> list[tuple[int, int]]:
    """Returns the longest increasing sequence of pairs of lines that are unique in both."""
    old_counts, new_counts = Counter(old), Counter(new)
    numbers = {line: j for j, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (i, numbers[line]) for i, line in enumerate(old) if old_counts[line] == 1 and line in numbers and len(line) > 2
    ]
    piles: list[int] = []  # for each length, the last j of the best sequence
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


def _best_rows(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int, graph: bool) -> list[Row]:
    """Returns the alignment with the highest total score; for a table that is too large, pairs no lines."""
    m, n = b - a, d - c
    if m * n > _MAX_CELLS:
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
    """Returns the score of a pair; 0 for lines that may not be a pair. Lines of brackets alone score low."""
    same = line_similarity(old, new, graph)
    if same < MIN_SIMILARITY:
        return 0.0
    words = min(len(tokens.line_shape(old, graph)), len(tokens.line_shape(new, graph)))
    weight = 0.1 if words <= 2 else 1.0
    return weight * (same + 0.5 * (tokens.line_keys(old, graph) == tokens.line_keys(new, graph)))


@functools.lru_cache(maxsize=262144)
def line_similarity(old: str, new: str, graph: bool = False) -> float:
    """Returns the part of the tokens that two lines share, from 0 to 1. All names count as equal.

    Halves it for lines that call different functions.
    """
    first, second = tokens.line_shape(old, graph), tokens.line_shape(new, graph)
    if first == second:
        return 1.0
    if not first or not second:
        return 0.0
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / (len(first) + len(second)) * (0.5 if _callee(old) != _callee(new) else 1.0)


def _callee(line: str) -> str:
    """Returns what a statement of `call` calls; "" for other lines."""
    match = re.match(
        r"\s*(?:buf\d+ = |)(extern_kernels|empty_strided|assert_size_stride|torch\.ops|triton_|cpp_fused)", line
    )
    return match[1] if match else ""
