"""Lines of generated code as tokens, with what is only a name or a number told from what is meant."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>\d[\w.]*(?:(?<=e)-\d+)?)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<op>::|->|[<>=!+*/%&|^-]=|&&|\|\||<<|\S)"
)
#: tmp12, in_ptr0, r0_1, buf3, mul_7, tmp_acc0_vec: a name that is numbered.
_COUNTER = re.compile(r"(?P<core>[A-Za-z_]\w*?)(?P<number>_?\d+(?:_\d+)*)(?P<rest>_[a-z]\w*)?")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_NO_NAME = re.compile(
    r"(?:triton|cpp)_\w+|(?:b?float|bf|fp|u?int|i|u|f|e\dm\d|complex|b)\d+\w*|\w+_t|C10_\w+|c10|\w*[a-z]\d[A-Z]\w*"
)
#: Types of elements in C++, which a helper is written with: Vectorized<float>.
_KERNEL = re.compile(r"(?:triton|cpp)_\w*fused\w*")
_ELEMENT = re.compile(r"(?<=[<,])(?:float|double|bool|u?int\d+_t|(?:at|c10)::\w+|unsigned char)(?=[>,])")


@dataclass(frozen=True)
class Token:
    """`key`: what is compared first: the text with the number of a name, or of a number, left out.

    `kind`: "name" (numbered), "number", "string", "kernel" (its name), "word", "op".
    `space`: whether blanks stand before it.
    """

    text: str
    kind: str
    key: str
    space: bool


@functools.lru_cache(maxsize=65536)
def tokens(line: str, graph: bool = False) -> tuple[Token, ...]:
    """The tokens of a line. `graph`: of an FX graph, in which all values are names: mul, mul_1."""
    found = _found(line)
    made = []
    for position, (group, text, start, _) in enumerate(found):
        before = found[position - 1][1] if position else ""
        after, following = (_close(found, position + ahead) for ahead in (1, 2))
        # In C++, a name may be that of a lambda: tmp4(). What is called with arguments is a function: log2(x).
        called = after == "(" and (graph or following != ")")
        kind, key = group, text
        if kind == "number":
            key = "N"
        elif kind == "string":
            key = _string_key(text)
        elif _KERNEL.fullmatch(text):
            kind, key = "kernel", "kernel"
        elif (
            kind == "word"
            and before not in (".", "::")
            and after != "::"
            and not called
            and (name := _name_key(text, graph))
        ):
            kind, key = "name", name
        made.append(Token(text, kind, key, start > (found[position - 1][3] if position else 0)))
    return tuple(made)


def _found(line: str) -> list[tuple[str, str, int, int]]:
    """(kind, text, start, end) of each token.

    A string that is a text about numbered names is taken apart: "index out of bounds: 0 <= tmp4 < 33".
    """
    found = []
    for match in _TOKEN.finditer(line):
        kind, text, start, end = str(match.lastgroup), match[0], match.start(), match.end()
        if kind == "string" and " " in text and any(_name_key(word, graph=False) for word in _WORD.findall(text)):
            inner = [(k, t, start + 1 + at, start + 1 + to) for k, t, at, to in _found(text[1:-1])]
            found += [("op", text[0], start, start + 1), *inner, ("op", text[-1], end - 1, end)]
        else:
            found.append((kind, text, start, end))
    return found


def _close(found: list[tuple[str, str, int, int]], position: int) -> str:
    """The token at a position, if no blank stands before it."""
    return found[position][1] if position < len(found) and found[position][2] == found[position - 1][3] else ""


def _name_key(text: str, graph: bool) -> str:
    """`tmp#` for tmp12, `tmp_acc#_vec` for tmp_acc0_vec; "" for what is no numbered name."""
    counter = _COUNTER.fullmatch(text)
    if counter and not _NO_NAME.fullmatch(text):
        return f"{counter['core'].rstrip('_')}#{counter['rest'] or ''}"
    return f"{text}#" if graph and text.islower() and text not in ("def", "class", "return", "self") else ""


def _string_key(text: str) -> str:
    """A string that is a numbered name as that name; in others, numbers left out."""
    if name := _name_key(text[1:-1], graph=False):
        return f"{text[0]}{name}{text[-1]}"
    return re.sub(r"\b\d+(?:\.\d+)?\b", "N", text)


def written(run: tuple[Token, ...], *, abstract: bool = False, types: bool = True) -> str:
    """The tokens as a text again. `abstract`: names without their numbers, N for numbers; `types`: else T for them."""
    out = []
    for position, token in enumerate(run):
        text = (
            token.key.replace("#", "")
            if abstract and token.kind in ("name", "number", "string", "kernel")
            else token.text
        )
        out.append(" " + text if token.space and position else text)
    return "".join(out) if types else _ELEMENT.sub("T", "".join(out))


@functools.lru_cache(maxsize=65536)
def shape(line: str, graph: bool = False) -> tuple[str, ...]:
    """The keys of a line, by which lines are compared: names are alike whatever they are called."""
    return tuple("@" if token.kind == "name" else token.key for token in tokens(line, graph))


@functools.lru_cache(maxsize=65536)
def keys(line: str, graph: bool = False) -> tuple[str, ...]:
    """As `shape`, with the kinds of names and with numbers: what stays of a line after a renaming."""
    return tuple(token.key if token.kind == "name" else token.text for token in tokens(line, graph))
