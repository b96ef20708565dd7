"""The edits that make one text of generated code into another, each with a key that is the same wherever it is made."""

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
from conformance.review.edits.alignment import Row, align, align_statements
from conformance.review.edits.parts import Part, partners, parts, what_is
from conformance.review.edits.token_diff import (
    Span,
    balanced,
    base_of,
    blocks,
    changed_words,
    is_identifier,
    is_short,
    keys_of,
    neighbours,
    place_of,
    said_of,
    text_of,
)
from conformance.review.edits.tokens import Token

#: More of a kernel's lines without a partner, and it is another kernel.
REWRITTEN = 0.5
_FEW = 12  # a kernel of fewer lines is never called rewritten

Key = tuple[str, ...]


@dataclass(frozen=True)
class Edit:
    """`key`: equal for the same edit anywhere; `title`: as it is written here, `abstract`: without names and numbers.

    `kernel`: where it is made: "forward triton_poi_fused_add_0", "forward call", "joint graph". `site`: the line pair,
    or the run of lines, within the kernel; `hunk`: a few lines of diff around it.
    """

    key: Key
    title: str
    abstract: str
    kernel: str
    site: int
    hunk: tuple[str, ...] = field(compare=False)
    span: Span | None = None


@functools.lru_cache(maxsize=4096)
def edits(old: str, new: str) -> tuple[Edit, ...]:
    """All edits of the code, at least one where it differs; those of facts are not among them."""
    first, second = parts(split_facts(old)[1]), parts(split_facts(new)[1])
    pairs, gone, come = partners(first, second)
    names = {a.name: b.name for a, b in pairs if a.kind == "kernel"}
    single = {part.name for part in (*gone, *come) if part.kind == "kernel"}
    found: list[Edit] = []
    for part, sign in [*((part, "-") for part in gone), *((part, "+") for part in come)]:
        found.append(_whole(part, sign))
    for a, b in pairs:
        if a.lines != b.lines or a.name != b.name:
            found += _Pair(a, b, names, single).edits()
    if not found and split_facts(old)[1] != split_facts(new)[1]:
        found.append(_only_names(split_facts(old)[1], split_facts(new)[1]))
    return tuple(found)


def _only_names(old: str, new: str) -> Edit:
    lines = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[:1] in "+-"]
    title = "names, blanks or headings alone"
    return Edit((title,), title, title, "", 0, tuple(line[0] + line[2:] for line in lines[:6]))


def _whole(part: Part, sign: str) -> Edit:
    """A part that is there in one text only."""
    verb = "added" if sign == "+" else "removed"
    what = what_is(part)
    hunk = tuple(f"{sign}{line}" for line in part.lines[:6])
    more = (f" … {len(part.lines) - 6} more lines",) if len(part.lines) > 6 else ()
    title = f"{verb}: {what}"
    return Edit((verb, what), title, title, part.label, -1, hunk + more)


class _Pair:
    """Two versions of one part."""

    def __init__(self, a: Part, b: Part, kernels: dict[str, str], single: set[str]) -> None:
        self.a, self.b, self.kernels, self.single = a, b, kernels, single
        self.graph = a.kind == "graph"
        self.rows: list[Row] = []
        self.names: dict[str, str] = {}  # of the old → of the new
        self.lost: set[str] = set()  # names whose line went or came: that others then stand in their
        self.came: set[str] = set()  # place is the consequence of an edit, not an edit

    def edits(self) -> list[Edit]:
        moved: list[tuple[int, int]] = []
        if self.a.kind == "call":
            self.rows, moved = align_statements(self.a.lines, self.b.lines)
        else:
            self.rows = align(self.a.lines, self.b.lines, graph=self.graph)
        single = sum(None in row for row in self.rows)
        lines = len(self.a.lines) + len(self.b.lines)
        if self.a.kind == "kernel" and lines >= 2 * _FEW and single > REWRITTEN * lines:
            return [self._rewritten()]
        found = []
        number = 0
        while number < len(self.rows):
            i, j = self.rows[number]
            if i is not None and j is not None:
                found += self._line_pair(number, self._tokens(self.a, i), self._tokens(self.b, j))
                number += 1
                continue
            start = number
            while number < len(self.rows) and None in self.rows[number]:
                number += 1
            found += self._run_of_lines(start, number)
        for i, j in moved:
            self.rows.append((i, j))
            found += self._line_pair(len(self.rows) - 1, self._tokens(self.a, i), self._tokens(self.b, j))
            found.append(self._moved(len(self.rows) - 1))
        if self.a.name != self.b.name and not any(edit.key[0] == "operators" for edit in found):
            found.append(self._renamed())
        return list({(edit.key, edit.site): edit for edit in found}.values())

    def _tokens(self, part: Part, number: int) -> tuple[Token, ...]:
        return tokens.tokenise(part.lines[number], self.graph)

    def _edit(
        self, number: int, key: Key, title: str, abstract: str, *, site: int | None = None, span: Span | None = None
    ) -> Edit:
        where = number if site is None else site
        return Edit(key, title, abstract, self.b.label, where, self._hunk(number), span)

    def _hunk(self, number: int, around: int = 2) -> tuple[str, ...]:
        """The rows around one, as a diff: what went stands before what came."""
        out: list[str] = []
        plus: list[str] = []
        for i, j in self.rows[max(0, number - around) : number + around + 1]:
            old = None if i is None else self.a.lines[i]
            new = None if j is None else self.b.lines[j]
            if old == new:
                out += [*plus, f" {old}".rstrip()]
                plus.clear()
            else:
                out += [f"-{old}"] if old is not None else []
                plus += [f"+{new}"] if new is not None else []
        return (*out, *plus)

    def _renamed(self) -> Edit:
        old, new = (re.sub(r"_\d+$", "", part.name) for part in (self.a, self.b))
        title = f"kernel `{old}` is called `{new}`" if old != new else "kernels in another order"
        key = ("kernel name", *changed_words(old, new)) if old != new else ("kernel name",)
        hunk = (f"-# kernel {self.a.name}", f"+# kernel {self.b.name}")
        return Edit(key, title, "kernels' names: " + " → ".join(f"`{w}`" for w in key[1:]), self.b.label, -2, hunk)

    def _rewritten(self) -> Edit:
        what = what_is(self.b)
        title = f"rewritten: {what}" if what == what_is(self.a) else f"rewritten: {what_is(self.a)} → {what}"
        start = next(number for number, row in enumerate(self.rows) if None in row)
        return Edit((title,), title, title, self.b.label, -1, self._hunk(start + 4, around=6))

    def _moved(self, number: int) -> Edit:
        line = self._tokens(self.b, self.rows[number][1])
        callee = next((a.text for a, b in itertools.pairwise(line) if a.kind == "word" and b.text == "("), line[0].text)
        title = f"moved: `{callee}(…)`" if callee != line[0].text or len(line) > 3 else f"moved: `{callee}`"
        return self._edit(number, ("moved", callee), title, title)

    def _run_of_lines(self, start: int, end: int) -> Iterator[Edit]:
        """Whole lines that went, came, or took the place of others."""
        runs: tuple[list[tuple[Token, ...]], list[tuple[Token, ...]]] = ([], [])
        small: tuple[list[tuple[Token, ...]], list[tuple[Token, ...]]] = ([], [])  # if there is nothing else
        first = start
        for number in range(start, end):
            i, j = self.rows[number]
            part, index, side = (self.a, i, 0) if j is None else (self.b, j, 1)
            line = self._tokens(part, index)
            (self.came if side else self.lost).update(_defines(line))
            if not line or any(token.text in self.single for token in line):
                continue  # the call of a kernel that went or came
            if all(token.kind == "op" for token in line) or text_of(line[:2]) in ("# Original", "// Original"):
                small[side].append(line)
                continue
            first = number if not any(runs) else first
            runs[side].append(line)
        runs = runs if any(runs) else small
        if not any(runs):
            return
        texts, keys = [], []
        for abstract in (False, True):
            said = [said_of(run, abstract=abstract) for run in runs]
            texts.append(
                f"{said[0]} → {said[1]}" if all(runs) else f"added: {said[1]}" if runs[1] else f"removed: {said[0]}"
            )
        for run in runs:
            keys += ["|", *dict.fromkeys(" ".join("@" if t.kind == "name" else t.key for t in line) for line in run)]
        yield self._edit(min(first + 2, end - 1), ("lines", *keys), *texts, site=start)

    def _line_pair(self, number: int, old: tuple[Token, ...], new: tuple[Token, ...]) -> Iterator[Edit]:
        if old[:3] == new[:3] and text_of(old[:3]) == "# Original ATen":
            yield from self._operators(number, old, new)
            return
        for runs in balanced(blocks(old, new), old, new):
            tag, i1, i2, j1, _ = runs[0]
            if tag == "equal":
                yield from self._values(number, old, new, i1, i2, j1)
                continue
            gone = [token for _, i1, i2, _, _ in runs for token in old[i1:i2]]
            come = [token for *_, j1, j2 in runs for token in new[j1:j2]]
            if any(t.text in self.single for t in (*gone, *come)):
                continue
            if len(gone) == len(come) == 1 and gone[0].kind == come[0].kind == "name":
                if self.names.get(gone[0].text) == come[0].text and gone[0].key == come[0].key:
                    continue
                self.names[gone[0].text] = come[0].text
            else:
                self.lost.update(t.text for t in gone if t.kind == "name")
                self.came.update(t.text for t in come if t.kind == "name")
            span = Span(old, new, (i1, runs[-1][2]), (j1, runs[-1][4]))
            yield self._around(number, span, gone, come) if len(runs) > 1 else self._run(number, span)

    def _operators(self, number: int, old: tuple[Token, ...], new: tuple[Token, ...]) -> Iterator[Edit]:
        """`# Original ATen: […]`: which came and which went, in whatever order."""
        lists = [Counter(re.findall(r"[\w.]+", text_of(line[4:]))) for line in (old, new)]
        gone, come = (sorted((a - b).elements()) for a, b in (lists, lists[::-1]))
        if gone or come:
            said = [f"with `{', '.join(come)}`"] * bool(come) + [f"without `{', '.join(gone)}`"] * bool(gone)
            title = f"operators: {', '.join(said)}"
            yield self._edit(number, ("operators", *gone, "→", *come), title, title)

    def _around(self, number: int, span: Span, gone: Sequence[Token], come: Sequence[Token]) -> Edit:
        """Brackets that came or went around something, with what stands at their ends."""
        key = ("around", *keys_of(tuple(gone)), "→", *keys_of(tuple(come)))
        return self._edit(number, key, *span.titles(), span=span)

    def _run(self, number: int, span: Span) -> Edit:
        """Tokens that went, came, or took the place of others."""
        old, new, at, to = span.old, span.new, span.at, span.to
        gone, come = old[at[0] : at[1]], new[to[0] : to[1]]
        place = place_of(new, to[0]) or place_of(old, at[0])
        if gone and come:
            if len(gone) == len(come) == 1 and is_identifier(gone[0]) and is_identifier(come[0]):
                key = ("replaced", *changed_words(base_of(gone[0]), base_of(come[0])))
                title = f"`{base_of(gone[0])}` → `{base_of(come[0])}`"
                return self._edit(number, key, title, f"`{key[1]}` → `{key[2]}`", span=span)
            templated = any(t.text == "<" for t in (*gone, *come)) and any(t.kind == "word" for t in come)
            shapes = [keys_of(run, element_types=not templated) for run in (gone, come)]
            where = (place,) if place else neighbours(old, *at) if is_short(gone, come) else ()
            inside = place or (tokens.join_tokens(new[max(0, to[0] - 1) : to[1] + 1]) if where else "")
            inside = f" in `{inside}`" if inside else ""
            titles = [
                " → ".join(
                    f"`{tokens.join_tokens(run, abstract=abstract, types=not (templated and abstract))}`"
                    for run in (gone, come)
                )
                for abstract in (False, True)
            ]
            key = ("replaced", *shapes[0], "→", *shapes[1], *where)
            return self._edit(number, key, *(title + inside for title in titles), span=span)
        verb, run = ("added to", come) if come else ("removed from", gone)
        bare = run[1:] if len(run) > 1 and run[0].text in (",", "&&", "||") else run
        bare = bare[:-1] if len(bare) > 1 and bare[-1].text == "," else bare
        where = (place,) if place else neighbours(old, *at)
        inside = place or tokens.join_tokens(new[max(0, to[0] - 3) : to[1] + 3])
        texts = [f"{verb} `{inside}`: `{tokens.join_tokens(bare, abstract=abstract)}`" for abstract in (False, True)]
        return self._edit(number, (verb, *keys_of(bare), *where), *texts, span=span)

    def _values(
        self, number: int, old: tuple[Token, ...], new: tuple[Token, ...], i: int, end: int, j: int
    ) -> Iterator[Edit]:
        """Tokens that are alike: numbers that are others, and names that do not stand for the same."""
        for place, (a, b) in enumerate(zip(old[i:end], new[j : j + end - i], strict=True), i):
            if a.kind in ("number", "string") and a.text != b.text:
                yield self._number(number, a, b, new)
            elif (a.kind == "name" and not self._is_same_name(a, b, _is_defined(old, place))) or (
                a.kind == "kernel" and self.kernels.get(a.text, a.text) != b.text and not {a.text, b.text} & self.single
            ):
                line = tokens.join_tokens(new, abstract=True)
                yield self._edit(
                    number, ("operand", *keys_of(new)), f"another operand in `{line}`", f"another operand in `{line}`"
                )

    def _number(self, number: int, a: Token, b: Token, line: tuple[Token, ...]) -> Edit:
        place = line.index(b)
        around = line[max(0, place - 6) : place + 4] if len(line) > 10 else line
        where = place_of(line, place) or tokens.join_tokens(around, abstract=True)
        key = ("number", place_of(line, place) or " ".join(keys_of(around)))
        return self._edit(number, key, f"`{a.text}` → `{b.text}` in `{where}`", f"other numbers in `{where}`")

    def _is_same_name(self, a: Token, b: Token, defined: bool) -> bool:
        """Names are other names of the same thing as long as each stands for one other."""
        if defined or self.names.get(a.text) == b.text:
            self.names[a.text] = b.text
            return True
        known = self.names.get(a.text)
        consequence = a.text in self.lost or b.text in self.came
        taken = known is not None or b.text in self.names.values()
        if not taken or consequence:
            self.names[a.text] = b.text
            return True
        return False


def _defines(line: tuple[Token, ...]) -> set[str]:
    return {t.text for place, t in enumerate(line) if t.kind == "name" and _is_defined(line, place)}


def _is_defined(line: tuple[Token, ...], place: int) -> bool:
    """Whether the line gives the name its value: `tmp0 = …`, `for(int64_t x0=0L;`, `const float* in_ptr0,`."""
    after = line[place + 1].text if place + 1 < len(line) else ""
    before = line[place - 1] if place else None
    pointed = before is not None and before.text in ("*", "&", ">") and place > 1
    typed = before is not None and (before.kind == "word" or (pointed and line[place - 2].kind == "word"))
    return (
        after == "="
        or (after == ":" and place == 0)
        or (line[0].text == "def" and after in (",", ")", ":"))
        or (typed and after in (";", ",", ")") and before.text not in ("del", "return"))
    )
