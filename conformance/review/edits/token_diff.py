"""Compares two versions of a line token by token, and names the place of a difference."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.review.edits import tokens
from conformance.review.edits.tokens import Token

_OPEN, _CLOSE = "([{", ")]}"

#: As difflib gives them: (tag, old start, old end, new start, new end).
Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Span:
    """The tokens that an edit changes. `old`, `new`: the whole lines; their changed ranges are [start, end)."""

    old: tuple[Token, ...]
    new: tuple[Token, ...]
    old_range: tuple[int, int]
    new_range: tuple[int, int]

    def union(self, others: Sequence[Span]) -> Span:
        """Returns the smallest span that covers this one and others of the same lines."""
        spans = [self, *others]
        old_range = (min(s.old_range[0] for s in spans), max(s.old_range[1] for s in spans))
        new_range = (min(s.new_range[0] for s in spans), max(s.new_range[1] for s in spans))
        return Span(self.old, self.new, old_range, new_range)

    def titles(self) -> tuple[str, str]:
        """Returns `Vectorized<float>::loadu` → `load_vector<float>`: as written, and abstract with T for types."""
        texts = []
        for abstract in (False, True):
            runs = (self.old[slice(*self.old_range)], self.new[slice(*self.new_range)])
            old, new = (tokens.join_tokens(run, abstract=abstract, types=not abstract) for run in runs)
            texts.append(f"`{old}` → `{new}`")
        return texts[0], texts[1]


def token_opcodes(old: tuple[Token, ...], new: tuple[Token, ...]) -> list[Opcode]:
    """Returns difflib's opcodes over the tokens' keys. Insertions and deletions begin as far left as possible."""
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
    return _shift_left(codes, first, second)


def _shift_left(codes: list[Opcode], first: list[str], second: list[str]) -> list[Opcode]:
    """Moves insertions and deletions left: in `f(x, NEW, y)` the insertion is `, NEW`, never `NEW,`."""
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


def balanced_opcodes(codes: list[Opcode], old: tuple[Token, ...], new: tuple[Token, ...]) -> Iterator[list[Opcode]]:
    """Yields the opcodes one by one, but yields together those that open and close brackets, or change one name."""
    waiting: list[Opcode] = []
    equal: list[Opcode] = []  # the equal tokens between the waiting opcodes
    for number, code in enumerate(codes):
        if code[0] == "equal":
            if waiting:
                equal.append(code)
            else:
                yield [code]
            continue
        waiting.append(code)
        texts = [t.text for _, i1, i2, _, _ in waiting for t in old[i1:i2]]
        others = [t.text for *_, j1, j2 in waiting for t in new[j1:j2]]
        if not (_depth(texts) or _depth(others) or _is_within_name(codes[number + 1 : number + 3], old, new)):
            yield waiting
            yield from ([each] for each in equal)
            waiting, equal = [], []
    yield from ([each] for each in (*waiting, *equal))


def _is_within_name(following: Sequence[Opcode], old: tuple[Token, ...], new: tuple[Token, ...]) -> bool:
    """Returns whether an equal template argument follows, and then a change: Vectorized`<float>``::loadu`."""
    if len(following) < 2 or following[0][0] != "equal":
        return False
    (_, i1, i2, _, _), (_, i3, i4, j3, j4) = following
    types = "".join(token.text for token in old[i1:i2])
    return bool(re.fullmatch(r"<[\w:,]+>", types)) and "::" in [run[0].text for run in (old[i3:i4], new[j3:j4]) if run]


def _depth(texts: Sequence[str]) -> int:
    """Returns the number of brackets that the texts open, minus those that they close."""
    return sum((text in _OPEN) - (text in _CLOSE) for text in texts if len(text) == 1)


def line_text(line: Sequence[Token]) -> str:
    return tokens.join_tokens(tuple(line))


def lines_text(lines: Sequence[tuple[Token, ...]], *, abstract: bool) -> str:
    """Returns the first line and the number of the others: "`x0 = xindex` and 2 more lines"."""
    if not lines:
        return ""
    more = f" and {len(lines) - 1} more lines" if len(lines) > 2 else " and 1 more line" if len(lines) > 1 else ""
    return f"`{tokens.join_tokens(lines[0], abstract=abstract)}`{more}"


def is_short(removed: Sequence[Token], added: Sequence[Token]) -> bool:
    """Returns whether an edit is a single token, which does not show by itself what changed."""
    return max(len(removed), len(added)) == 1


def place_name(line: tuple[Token, ...], position: int) -> str:
    """Returns the call around a position, `tl.load(…)`, or the key of a Triton kernel's metadata; "" for neither."""
    if len(line) > 2 and line[0].kind == "string" and line[1].text == ":":
        return line[0].text
    if len(line) > 3 and line[-1].text == "," and line[1].text == "=":
        return line[0].text
    callee = _callee(line, position)
    callee = "torch.ops.….default" if re.fullmatch(r"torch\.ops\.\w+\.\w+\.default", callee) else callee
    return f"{callee}(…)" if callee else ""


def _callee(line: tuple[Token, ...], argument: int) -> str:
    """Returns the function that the token at `argument` is passed to; "" for none."""
    depth = 0
    for position in range(argument - 1, -1, -1):
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


def token_keys(run: tuple[Token, ...], *, element_types: bool = True) -> tuple[str, ...]:
    """Returns the keys of tokens. `element_types`: if false, T stands for every element type."""
    if element_types:
        return tuple(token.key for token in run)
    return tuple(tokens.join_tokens(run, abstract=True, types=False).split())


def neighbour_keys(line: tuple[Token, ...], start: int, end: int) -> tuple[str, ...]:
    """Returns the keys of the tokens before and after [start, end)."""
    return (*token_keys(line[max(0, start - 1) : start]), "…", *token_keys(line[end : end + 1]))


def is_identifier(token: Token) -> bool:
    quoted = token.kind == "string" and token.text[1:-1].isidentifier()
    return quoted or (token.kind in ("name", "word") and token.text not in ("None", "True", "False"))


def base_name(token: Token) -> str:
    """Returns the token's name without its number and quotes."""
    return token.key.replace("#", "").strip("'\"")


def changed_words(old: str, new: str) -> tuple[str, str]:
    """Returns the words in which two identifiers differ: `tmp`, `val` for tmp_acc_vec, val_acc_vec."""
    first, second = old.split("_"), new.split("_")
    while len(first) > 1 and len(second) > 1 and first[-1] == second[-1]:
        first.pop()
        second.pop()
    while len(first) > 1 and len(second) > 1 and first[0] == second[0]:
        first.pop(0)
        second.pop(0)
    return "_".join(first), "_".join(second)
