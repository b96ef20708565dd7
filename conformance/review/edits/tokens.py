"""Splits lines of generated code into tokens. A token's key leaves out what renaming and resizing change."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>\d[\w.]*(?:(?<=e)-\d+)?)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<op>::|->|[<>=!+*/%&|^-]=|&&|\|\||<<|\S)"
)
#: A numbered name: tmp12, in_ptr0, r0_1, buf3, mul_7, tmp_acc0_vec.
_COUNTER = re.compile(r"(?P<core>[A-Za-z_]\w*?)(?P<number>_?\d+(?:_\d+)*)(?P<rest>_[a-z]\w*)?")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
#: Words that end in a number, but are types, kernels or constants.
_NOT_A_NAME = re.compile(
    r"(?:triton|cpp)_\w+|(?:b?float|bf|fp|u?int|i|u|f|e\dm\d|complex|b)\d+\w*|\w+_t|C10_\w+|c10|\w*[a-z]\d[A-Z]\w*"
)
_KERNEL = re.compile(r"(?:triton|cpp)_\w*fused\w*")
#: An element type in a C++ template argument: Vectorized<float>.
_ELEMENT = re.compile(r"(?<=[<,])(?:float|double|bool|u?int\d+_t|(?:at|c10)::\w+|unsigned char)(?=[>,])")


@dataclass(frozen=True)
class Token:
    """One token of a line.

    `key`: the text without numbers: `tmp#` for the name tmp12, `N` for the number 12. Equal keys mean the same token
    under another name or size.
    `kind`: "name" (a numbered one), "number", "string", "kernel" (a kernel's name), "word" or "op".
    `space_before`: whether blanks stand before the token.
    """

    text: str
    kind: str
    key: str
    space_before: bool


@functools.lru_cache(maxsize=65536)
def tokenise(line: str, graph: bool = False) -> tuple[Token, ...]:
    """Returns the tokens of a line. `graph`: the line is of an FX graph, where every value is a name: mul, mul_1."""
    raw_tokens = _raw_tokens(line)
    result = []
    for position, (group, text, start, _) in enumerate(raw_tokens):
        before = raw_tokens[position - 1][1] if position else ""
        after, following = (_adjacent_text(raw_tokens, position + ahead) for ahead in (1, 2))
        # In C++, a numbered name may be a lambda: tmp4(). A call with arguments is a function: log2(x).
        is_function = after == "(" and (graph or following != ")")
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
            and not is_function
            and (name := _name_key(text, graph))
        ):
            kind, key = "name", name
        result.append(Token(text, kind, key, start > (raw_tokens[position - 1][3] if position else 0)))
    return tuple(result)


def _raw_tokens(line: str) -> list[tuple[str, str, int, int]]:
    """Returns (kind, text, start, end) of each token.

    Splits a string that mentions numbered names, such as "index out of bounds: 0 <= tmp4 < 33".
    """
    result = []
    for match in _TOKEN.finditer(line):
        kind, text, start, end = str(match.lastgroup), match[0], match.start(), match.end()
        if kind == "string" and " " in text and any(_name_key(word, graph=False) for word in _WORD.findall(text)):
            inner = [(k, t, start + 1 + at, start + 1 + to) for k, t, at, to in _raw_tokens(text[1:-1])]
            result += [("op", text[0], start, start + 1), *inner, ("op", text[-1], end - 1, end)]
        else:
            result.append((kind, text, start, end))
    return result


def _adjacent_text(raw_tokens: list[tuple[str, str, int, int]], position: int) -> str:
    """Returns the text of the token at a position; "" if a blank stands before it or the line ends."""
    if position < len(raw_tokens) and raw_tokens[position][2] == raw_tokens[position - 1][3]:
        return raw_tokens[position][1]
    return ""


def _name_key(text: str, graph: bool) -> str:
    """Returns `tmp#` for tmp12, `tmp_acc#_vec` for tmp_acc0_vec, and "" for a word that is no numbered name."""
    counter = _COUNTER.fullmatch(text)
    if counter and not _NOT_A_NAME.fullmatch(text):
        return f"{counter['core'].rstrip('_')}#{counter['rest'] or ''}"
    return f"{text}#" if graph and text.islower() and text not in ("def", "class", "return", "self") else ""


def _string_key(text: str) -> str:
    """Returns the key of a string: that of the numbered name that it quotes, else the string with N for its numbers."""
    if name := _name_key(text[1:-1], graph=False):
        return f"{text[0]}{name}{text[-1]}"
    return re.sub(r"\b\d+(?:\.\d+)?\b", "N", text)


def join_tokens(run: tuple[Token, ...], *, abstract: bool = False, types: bool = True) -> str:
    """Returns the text of tokens.

    `abstract`: writes names without their numbers, and N for numbers. `types`: if false, writes T for element types.
    """
    out = []
    for position, token in enumerate(run):
        text = (
            token.key.replace("#", "")
            if abstract and token.kind in ("name", "number", "string", "kernel")
            else token.text
        )
        out.append(" " + text if token.space_before and position else text)
    return "".join(out) if types else _ELEMENT.sub("T", "".join(out))


@functools.lru_cache(maxsize=65536)
def line_shape(line: str, graph: bool = False) -> tuple[str, ...]:
    """Returns the keys of a line's tokens, and "@" for every name: all names are equal."""
    return tuple("@" if token.kind == "name" else token.key for token in tokenise(line, graph))


@functools.lru_cache(maxsize=65536)
def line_keys(line: str, graph: bool = False) -> tuple[str, ...]:
    """Returns a line's texts, and keys for names: renumbered names are equal, other numbers are not."""
    return tuple(token.key if token.kind == "name" else token.text for token in tokenise(line, graph))
