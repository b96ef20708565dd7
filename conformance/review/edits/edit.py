"""Finds the edits that turn one text of generated code into another. The same edit has the same key in every text."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.normalize.text import split_facts
from conformance.review.edits import tokens
from conformance.review.edits.alignment import Row, align_lines, align_statements
from conformance.review.edits.parts import Part, describe_part, match_parts, split_parts
from conformance.review.edits.token_diff import (
    Span,
    balanced_opcodes,
    base_name,
    changed_words,
    is_identifier,
    is_short,
    line_text,
    lines_text,
    neighbour_keys,
    place_name,
    token_keys,
    token_opcodes,
)
from conformance.review.edits.tokens import Token

#: A kernel counts as rewritten if more than this part of its lines has no counterpart.
REWRITTEN = 0.5
_MIN_REWRITTEN_LINES = 12  # a shorter kernel never counts as rewritten

EditKey = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """One edit of one text.

    `key`: equal for the same edit in any text. `title`: describes the edit with the names and numbers of this text;
    `abstract`: without them. `part`: the changed part: "forward triton_poi_fused_add_0", "forward call" or
    "joint graph". `site`: the number of the changed line pair, or run of lines, in that part. `hunk`: a few lines of
    diff around it.
    """

    key: EditKey
    title: str
    abstract: str
    part: str
    site: int
    hunk: tuple[str, ...] = field(compare=False)


@functools.lru_cache(maxsize=4096)
def code_edits(old: str, new: str) -> tuple[Edit, ...]:
    """Returns all edits of the code of two texts: at least one if the code differs. Ignores the facts."""
    old_code, new_code = split_facts(old)[1], split_facts(new)[1]
    pairs, removed, added = match_parts(split_parts(old_code), split_parts(new_code))
    names = {a.name: b.name for a, b in pairs if a.kind == "kernel"}
    unpaired = {part.name for part in (*removed, *added) if part.kind == "kernel"}
    edits = [*(_whole_part(part, "-") for part in removed), *(_whole_part(part, "+") for part in added)]
    for a, b in pairs:
        if a.lines != b.lines or a.name != b.name:
            edits += _Pair(a, b, names, unpaired).edits()
    if not edits and old_code != new_code:
        edits.append(_names_or_blanks(old_code, new_code))
    return tuple(edits)


def _names_or_blanks(old: str, new: str) -> Edit:
    lines = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[:1] in "+-"]
    title = "only names, blanks or headings changed"
    return Edit((title,), title, title, "", 0, tuple(line[0] + line[2:] for line in lines[:6]))


def _whole_part(part: Part, sign: str) -> Edit:
    """Returns the edit that adds (sign "+") or removes ("-") a part."""
    verb = "added" if sign == "+" else "removed"
    what = describe_part(part)
    hunk = tuple(f"{sign}{line}" for line in part.lines[:6])
    more = (f" … {len(part.lines) - 6} more lines",) if len(part.lines) > 6 else ()
    title = f"{verb}: {what}"
    return Edit((verb, what), title, title, part.label, -1, hunk + more)


class _Pair:
    """Two versions of one part. `kernels`: old name → new name. `unpaired`: names of added and removed kernels."""

    def __init__(self, a: Part, b: Part, kernels: dict[str, str], unpaired: set[str]) -> None:
        self.a, self.b, self.kernels, self.unpaired = a, b, kernels, unpaired
        self.graph = a.kind == "graph"
        self.rows: list[Row] = []
        self.names: dict[str, str] = {}  # old name → new name
        # Names that removed and added lines define. Another name in their place follows from that edit.
        self.removed_names: set[str] = set()
        self.added_names: set[str] = set()

    def edits(self) -> list[Edit]:
        moved: list[tuple[int, int]] = []
        if self.a.kind == "call":
            self.rows, moved = align_statements(self.a.lines, self.b.lines)
        else:
            self.rows = align_lines(self.a.lines, self.b.lines, graph=self.graph)
        unpaired = sum(None in row for row in self.rows)
        lines = len(self.a.lines) + len(self.b.lines)
        if self.a.kind == "kernel" and lines >= 2 * _MIN_REWRITTEN_LINES and unpaired > REWRITTEN * lines:
            return [self._rewritten()]
        edits: list[Edit] = []
        number = 0
        while number < len(self.rows):
            i, j = self.rows[number]
            if i is not None and j is not None:
                edits += self._line_pair(number, self._tokens(self.a, i), self._tokens(self.b, j))
                number += 1
                continue
            start = number
            while number < len(self.rows) and None in self.rows[number]:
                number += 1
            edits += self._unpaired_lines(start, number)
        for i, j in moved:
            self.rows.append((i, j))
            number, new_line = len(self.rows) - 1, self._tokens(self.b, j)
            edits += self._line_pair(number, self._tokens(self.a, i), new_line)
            edits.append(self._moved(number, new_line))
        if self.a.name != self.b.name and not any(edit.key[0] == "operators" for edit in edits):
            edits.append(self._renamed())
        return list({(edit.key, edit.site): edit for edit in edits}.values())

    def _tokens(self, part: Part, number: int) -> tuple[Token, ...]:
        return tokens.tokenise(part.lines[number], self.graph)

    def _edit(self, number: int, key: EditKey, title: str, abstract: str, *, site: int | None = None) -> Edit:
        return Edit(key, title, abstract, self.b.label, number if site is None else site, self._hunk(number))

    def _hunk(self, number: int, around: int = 2) -> tuple[str, ...]:
        """Returns the rows around one as a diff: removed lines before added lines."""
        out: list[str] = []
        added: list[str] = []
        for i, j in self.rows[max(0, number - around) : number + around + 1]:
            old = None if i is None else self.a.lines[i]
            new = None if j is None else self.b.lines[j]
            if old == new:
                out += [*added, f" {old}".rstrip()]
                added.clear()
            else:
                out += [f"-{old}"] if old is not None else []
                added += [f"+{new}"] if new is not None else []
        return (*out, *added)

    def _renamed(self) -> Edit:
        old, new = (re.sub(r"_\d+$", "", part.name) for part in (self.a, self.b))
        hunk = (f"-# kernel {self.a.name}", f"+# kernel {self.b.name}")
        if old == new:
            title = "kernel order changed"
            return Edit(("kernel name",), title, title, self.b.label, -2, hunk)
        old_words, new_words = changed_words(old, new)
        title, abstract = f"kernel renamed: `{old}` → `{new}`", f"kernels renamed: `{old_words}` → `{new_words}`"
        return Edit(("kernel name", old_words, new_words), title, abstract, self.b.label, -2, hunk)

    def _rewritten(self) -> Edit:
        old, new = describe_part(self.a), describe_part(self.b)
        title = f"rewritten: {new}" if old == new else f"rewritten: {old} → {new}"
        start = next(number for number, row in enumerate(self.rows) if None in row)
        return Edit((title,), title, title, self.b.label, -1, self._hunk(start + 4, around=6))

    def _moved(self, number: int, line: tuple[Token, ...]) -> Edit:
        callee = next((a.text for a, b in itertools.pairwise(line) if a.kind == "word" and b.text == "("), line[0].text)
        title = f"moved: `{callee}(…)`" if callee != line[0].text or len(line) > 3 else f"moved: `{callee}`"
        return self._edit(number, ("moved", callee), title, title)

    def _unpaired_lines(self, start: int, end: int) -> Iterator[Edit]:
        """Yields the edit of whole lines that were removed, added or replaced."""
        runs: tuple[list[tuple[Token, ...]], list[tuple[Token, ...]]] = ([], [])
        minor: tuple[list[tuple[Token, ...]], list[tuple[Token, ...]]] = ([], [])  # used if there are no other lines
        first = start
        sides = ((self.a, self.removed_names), (self.b, self.added_names))
        for number in range(start, end):
            for side, index in enumerate(self.rows[number]):
                if index is None:
                    continue
                part, names = sides[side]
                line = self._tokens(part, index)
                names.update(_defined_names(line))
                if not line or any(token.text in self.unpaired for token in line):
                    continue  # the call of an added or removed kernel
                if all(token.kind == "op" for token in line) or line_text(line[:2]) in ("# Original", "// Original"):
                    minor[side].append(line)
                    continue
                first = number if not any(runs) else first
                runs[side].append(line)
        runs = runs if any(runs) else minor
        if not any(runs):
            return
        texts, keys = [], []
        for abstract in (False, True):
            old, new = (lines_text(run, abstract=abstract) for run in runs)
            texts.append(f"{old} → {new}" if all(runs) else f"added: {new}" if new else f"removed: {old}")
        for run in runs:
            keys += ["|", *dict.fromkeys(" ".join("@" if t.kind == "name" else t.key for t in line) for line in run)]
        yield self._edit(min(first + 2, end - 1), ("lines", *keys), *texts, site=start)

    def _line_pair(self, number: int, old: tuple[Token, ...], new: tuple[Token, ...]) -> Iterator[Edit]:
        if old[:3] == new[:3] and line_text(old[:3]) == "# Original ATen":
            yield from self._operators(number, old, new)
            return
        for runs in balanced_opcodes(token_opcodes(old, new), old, new):
            tag, i1, i2, j1, _ = runs[0]
            if tag == "equal":
                yield from self._values(number, old, new, i1, i2, j1)
                continue
            removed = [token for _, i1, i2, _, _ in runs for token in old[i1:i2]]
            added = [token for *_, j1, j2 in runs for token in new[j1:j2]]
            if any(t.text in self.unpaired for t in (*removed, *added)):
                continue
            if len(removed) == len(added) == 1 and removed[0].kind == added[0].kind == "name":
                if self.names.get(removed[0].text) == added[0].text and removed[0].key == added[0].key:
                    continue
                self.names[removed[0].text] = added[0].text
            else:
                self.removed_names.update(t.text for t in removed if t.kind == "name")
                self.added_names.update(t.text for t in added if t.kind == "name")
            span = Span(old, new, (i1, runs[-1][2]), (j1, runs[-1][4]))
            yield self._around(number, span, removed, added) if len(runs) > 1 else self._within_line(number, span)

    def _operators(self, number: int, old: tuple[Token, ...], new: tuple[Token, ...]) -> Iterator[Edit]:
        """Yields the edit of `# Original ATen: […]`: the added and removed operators, in any order."""
        lists = [Counter(re.findall(r"[\w.]+", line_text(line[4:]))) for line in (old, new)]
        removed, added = (sorted((a - b).elements()) for a, b in (lists, lists[::-1]))
        if removed or added:
            title = f"operators: {added_and_removed(added, removed)}"
            yield self._edit(number, ("operators", *removed, "→", *added), title, title)

    def _around(self, number: int, span: Span, removed: Sequence[Token], added: Sequence[Token]) -> Edit:
        """Returns the edit of brackets, and the tokens beside them, around unchanged tokens."""
        key = ("around", *token_keys(tuple(removed)), "→", *token_keys(tuple(added)))
        return self._edit(number, key, *span.titles())

    def _within_line(self, number: int, span: Span) -> Edit:
        """Returns the edit of tokens that were removed, added or replaced."""
        old, new, start, end = span.old, span.new, *span.new_range
        removed, added = old[slice(*span.old_range)], new[start:end]
        place = place_name(new, start) or place_name(old, span.old_range[0])
        if removed and added:
            if len(removed) == len(added) == 1 and is_identifier(removed[0]) and is_identifier(added[0]):
                return self._renamed_word(number, base_name(removed[0]), base_name(added[0]))
            templated = any(t.text == "<" for t in (*removed, *added)) and any(t.kind == "word" for t in added)
            keys = [token_keys(run, element_types=not templated) for run in (removed, added)]
            where = (place,) if place else neighbour_keys(old, *span.old_range) if is_short(removed, added) else ()
            inside = place or (tokens.join_tokens(new[max(0, start - 1) : end + 1]) if where else "")
            inside = f" in `{inside}`" if inside else ""
            titles = [
                " → ".join(
                    f"`{tokens.join_tokens(run, abstract=abstract, types=not (templated and abstract))}`"
                    for run in (removed, added)
                )
                for abstract in (False, True)
            ]
            key = ("replaced", *keys[0], "→", *keys[1], *where)
            return self._edit(number, key, *(title + inside for title in titles))
        verb, run = ("added to", added) if added else ("removed from", removed)
        bare = run[1:] if len(run) > 1 and run[0].text in (",", "&&", "||") else run
        bare = bare[:-1] if len(bare) > 1 and bare[-1].text == "," else bare
        where = (place,) if place else neighbour_keys(old, *span.old_range)
        inside = place or tokens.join_tokens(new[max(0, start - 3) : end + 3])
        texts = [f"{verb} `{inside}`: `{tokens.join_tokens(bare, abstract=abstract)}`" for abstract in (False, True)]
        return self._edit(number, (verb, *token_keys(bare), *where), *texts)

    def _renamed_word(self, number: int, old: str, new: str) -> Edit:
        words = changed_words(old, new)
        abstract = f"`{words[0]}` → `{words[1]}`"
        return self._edit(number, ("replaced", *words), f"`{old}` → `{new}`", abstract)

    def _values(
        self, number: int, old: tuple[Token, ...], new: tuple[Token, ...], i: int, end: int, j: int
    ) -> Iterator[Edit]:
        """Yields the edits of tokens with equal keys: numbers that changed, and names that stand for something else."""
        for place, (a, b) in enumerate(zip(old[i:end], new[j : j + end - i], strict=True), i):
            if a.kind in ("number", "string") and a.text != b.text:
                yield self._number(number, a, b, new)
            elif (a.kind == "name" and not self._is_same_name(a, b, _is_defined(old, place))) or (
                a.kind == "kernel"
                and self.kernels.get(a.text, a.text) != b.text
                and not {a.text, b.text} & self.unpaired
            ):
                title = f"operand changed in `{tokens.join_tokens(new, abstract=True)}`"
                yield self._edit(number, ("operand", *token_keys(new)), title, title)

    def _number(self, number: int, a: Token, b: Token, line: tuple[Token, ...]) -> Edit:
        place = line.index(b)
        around = line[max(0, place - 6) : place + 4] if len(line) > 10 else line
        where = place_name(line, place) or tokens.join_tokens(around, abstract=True)
        key = ("number", place_name(line, place) or " ".join(token_keys(around)))
        return self._edit(number, key, f"`{a.text}` → `{b.text}` in `{where}`", f"numbers changed in `{where}`")

    def _is_same_name(self, a: Token, b: Token, defined: bool) -> bool:
        """Returns whether two names stand for the same value: each old name may stand for one new name only."""
        if defined or self.names.get(a.text) == b.text:
            self.names[a.text] = b.text
            return True
        known = self.names.get(a.text)
        consequence = a.text in self.removed_names or b.text in self.added_names
        taken = known is not None or b.text in self.names.values()
        if not taken or consequence:
            self.names[a.text] = b.text
            return True
        return False


def added_and_removed(added: Sequence[str], removed: Sequence[str]) -> str:
    """Returns "added `a, b`, removed `c`", without the part that is empty."""
    parts = [(verb, words) for verb, words in (("added", added), ("removed", removed)) if words]
    return ", ".join(f"{verb} `{', '.join(words)}`" for verb, words in parts)


def _defined_names(line: tuple[Token, ...]) -> set[str]:
    return {t.text for place, t in enumerate(line) if t.kind == "name" and _is_defined(line, place)}


def _is_defined(line: tuple[Token, ...], place: int) -> bool:
    """Returns whether the line defines the name: `tmp0 = …`, `for(int64_t x0=0L;`, `const float* in_ptr0,`."""
    after = line[place + 1].text if place + 1 < len(line) else ""
    before = line[place - 1] if place else None
    is_pointer = before is not None and before.text in ("*", "&", ">") and place > 1
    is_typed = (
        before is not None
        and before.text not in ("del", "return")
        and (before.kind == "word" or (is_pointer and line[place - 2].kind == "word"))
    )
    return (
        after == "="
        or (after == ":" and place == 0)
        or (line[0].text == "def" and after in (",", ")", ":"))
        or (is_typed and after in (";", ",", ")"))
    )
