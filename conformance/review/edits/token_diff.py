"""Two versions of a line, token by token: what came, what went, and how to say where."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.review.edits import tokens
from conformance.review.edits.tokens import Token

_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Span:
    """The tokens of the old and of the new line that an edit is of: [start, end) each."""

    old: tuple[Token, ...]
    new: tuple[Token, ...]
    at: tuple[int, int]
    to: tuple[int, int]

    def joined(self, others: Sequence[Span]) -> Span:
        """What covers this and the others of the same lines."""
        spans = [self, *others]
        at = (min(s.at[0] for s in spans), max(s.at[1] for s in spans))
        to = (min(s.to[0] for s in spans), max(s.to[1] for s in spans))
        return Span(self.old, self.new, at, to)

    def titles(self) -> tuple[str, str]:
        """`Vectorized<float>::loadu` → `load_vector<float>`, as written and without names, numbers and types."""
        texts = []
        for abstract in (False, True):
            runs = (self.old[slice(*self.at)], self.new[slice(*self.to)])
            old, new = (tokens.written(run, abstract=abstract, types=not abstract) for run in runs)
            texts.append(f"`{old}` → `{new}`")
        return texts[0], texts[1]


def blocks(old: tuple[Token, ...], new: tuple[Token, ...]) -> list[tuple[str, int, int, int, int]]:
    """The opcodes of difflib over the tokens' keys; what came or went begins as far left as it can."""
    first, second = [t.key for t in old], [t.key for t in new]
    if first == second:
        return [("equal", 0, len(first), 0, len(second))]
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start]:
        start += 1
    end = 0
    while end < min(len(first), len(second)) - start and first[-1 - end] == second[-1 - end]:
        end += 1
    inner = difflib.SequenceMatcher(None, first[start : len(first) - end], second[start : len(second) - end], False)
    codes = [("equal", 0, start, 0, start)] if start else []
    codes += [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in inner.get_opcodes()]
    codes += [("equal", len(first) - end, len(first), len(second) - end, len(second))] if end else []
    return _slid(codes, first, second)


def _slid(
    codes: list[tuple[str, int, int, int, int]], first: list[str], second: list[str]
) -> list[tuple[str, int, int, int, int]]:
    """`f(x, NEW, y)`: what came is `, NEW`, and never `NEW,`."""
    out = list(codes)
    for number in range(1, len(out) - 1):
        tag, i1, i2, j1, j2 = out[number]
        if tag not in ("insert", "delete") or out[number - 1][0] != "equal" or out[number + 1][0] != "equal":
            continue
        while i1 > out[number - 1][1] + 1 and (
            second[j2 - 1] == second[j1 - 1] if tag == "insert" else first[i2 - 1] == first[i1 - 1]
        ):
            i1, i2, j1, j2 = i1 - 1, i2 - 1, j1 - 1, j2 - 1
        before, after = out[number - 1], out[number + 1]
        out[number - 1] = ("equal", before[1], i1, before[3], j1)
        out[number] = (tag, i1, i2, j1, j2)
        out[number + 1] = ("equal", i2, after[2], j2, after[4])
    return out


def balanced(
    codes: list[tuple[str, int, int, int, int]], old: tuple[Token, ...], new: tuple[Token, ...]
) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """The codes one by one; together those that open brackets and those that close them, or are of one name."""
    waiting: list[tuple[str, int, int, int, int]] = []
    held: list[tuple[str, int, int, int, int]] = []  # what is equal between them
    for number, code in enumerate(codes):
        if code[0] == "equal":
            if waiting:
                held.append(code)
            else:
                yield [code]
            continue
        waiting.append(code)
        texts = [t.text for _, i1, i2, _, _ in waiting for t in old[i1:i2]]
        others = [t.text for *_, j1, j2 in waiting for t in new[j1:j2]]
        if not (_depth(texts) or _depth(others) or _is_within_name(codes[number + 1 : number + 3], old, new)):
            yield waiting
            yield from ([each] for each in held)
            waiting, held = [], []
    yield from ([each] for each in (*waiting, *held))


def _is_within_name(
    following: Sequence[tuple[str, int, int, int, int]], old: tuple[Token, ...], new: tuple[Token, ...]
) -> bool:
    """Whether types follow, and then a change of what is named within: Vectorized`<float>``::loadu`."""
    if len(following) < 2 or following[0][0] != "equal":
        return False
    (_, i1, i2, _, _), (_, i3, i4, j3, j4) = following
    types = "".join(token.text for token in old[i1:i2])
    return bool(re.fullmatch(r"<[\w:,]+>", types)) and "::" in [run[0].text for run in (old[i3:i4], new[j3:j4]) if run]


def _depth(texts: Sequence[str]) -> int:
    return sum((text in _OPEN) - (text in _CLOSE) for text in texts if len(text) == 1)


def text_of(line: Sequence[Token]) -> str:
    return tokens.written(tuple(line))


def said_of(run: Sequence[tuple[Token, ...]], *, abstract: bool) -> str:
    if not run:
        return ""
    more = f" and {len(run) - 1} more lines" if len(run) > 2 else " and 1 more line" if len(run) > 1 else ""
    return f"`{tokens.written(run[0], abstract=abstract)}`{more}"


def is_short(gone: Sequence[Token], come: Sequence[Token]) -> bool:
    """Too little to say by itself what was changed."""
    return max(len(gone), len(come)) == 1


def place_of(line: tuple[Token, ...], place: int) -> str:
    """`tl.load(…)`, or the key of a Triton kernel's metadata; "" for neither."""
    if len(line) > 2 and line[0].kind == "string" and line[1].text == ":":
        return line[0].text
    if len(line) > 3 and line[-1].text == "," and line[1].text == "=":
        return line[0].text
    callee = _callee(line, place)
    callee = "torch.ops.….default" if re.fullmatch(r"torch\.ops\.\w+\.\w+\.default", callee) else callee
    return f"{callee}(…)" if callee else ""


def _callee(line: tuple[Token, ...], place: int) -> str:
    """What is called with the token at `place` among its arguments; "" where nothing is."""
    depth = 0
    for position in range(place - 1, -1, -1):
        text = line[position].text
        if text in _CLOSE:
            depth += 1
        elif text in _OPEN and depth:
            depth -= 1
        elif text == "(" and position and line[position - 1].kind in ("word", "kernel"):
            name = [line[position - 1].key]
            start = position
            while start >= 3 and line[start - 2].text in (".", "::") and line[start - 3].kind in ("word", "kernel"):
                name = [line[start - 3].key, line[start - 2].text, *name]
                start -= 2
            return "".join(name)
    return ""


def keys_of(run: tuple[Token, ...], *, element_types: bool = True) -> tuple[str, ...]:
    if element_types:
        return tuple(token.key for token in run)
    return tuple(tokens.written(run, abstract=True, types=False).split())


def neighbours(line: tuple[Token, ...], start: int, end: int) -> tuple[str, ...]:
    return (*keys_of(line[max(0, start - 1) : start]), "…", *keys_of(line[end : end + 1]))


def is_identifier(token: Token) -> bool:
    quoted = token.kind == "string" and token.text[1:-1].isidentifier()
    return quoted or (token.kind in ("name", "word") and token.text not in ("None", "True", "False"))


def base_of(token: Token) -> str:
    return token.key.replace("#", "").strip("'\"")


def changed_words(old: str, new: str) -> tuple[str, str]:
    """Of two identifiers the words that differ: tmp_acc_vec, val_acc_vec → tmp, val."""
    first, second = old.split("_"), new.split("_")
    while len(first) > 1 and len(second) > 1 and first[-1] == second[-1]:
        first.pop()
        second.pop()
    while len(first) > 1 and len(second) > 1 and first[0] == second[0]:
        first.pop(0)
        second.pop(0)
    return "_".join(first), "_".join(second)
