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
_TYPE = re.compile(r"(?:b?float|bf|fp|u?int|i|u|f|e\dm\d|complex|b)\d+\w*|\w+_t|C10_\w+|c10|\w*[a-z]\d[A-Z]\w*")
#: Types of elements in C++, which a helper is written with: Vectorized<float>.
_ELEMENT = re.compile(r"float|double|bool|u?int\d+_t|at|Half|BFloat16|c10|unsigned|char|long")
_IN_STRING = re.compile(r"\b(?P<core>(?:in_|out_|in_out_)ptr|tmp|buf|ks|arg|[xyz])(?P<number>\d+)\b")


@dataclass(frozen=True)
class Token:
    """`key`: what is compared first: the text with the number of a name, or of a number, left out.

    `kind`: "name" (numbered), "number", "string", "word", "op". `space`: whether blanks stand before it.
    """

    text: str
    kind: str
    key: str
    space: bool

    @property
    def is_element_type(self) -> bool:
        return self.kind == "word" and bool(_ELEMENT.fullmatch(self.text))


@functools.lru_cache(maxsize=65536)
def tokens(line: str, graph: bool = False) -> tuple[Token, ...]:
    """The tokens of a line. `graph`: of an FX graph, in which all values are names: mul, mul_1."""
    found = list(_TOKEN.finditer(line))
    made = []
    for position, match in enumerate(found):
        before = found[position - 1][0] if position else ""
        after = found[position + 1][0] if position + 1 < len(found) and found[position + 1].start() == match.end() else ""
        kind, text = str(match.lastgroup), match[0]
        key = text
        if kind == "number":
            key = "N"
        elif kind == "string":
            key = re.sub(r"\b\d+(?:\.\d+)?\b", "N", _IN_STRING.sub(r"\g<core>#", text))
        elif kind == "word" and before not in (".", "::") and after not in (".", "(", "::", "<"):
            counter = _COUNTER.fullmatch(text)
            if counter and not _TYPE.fullmatch(text):
                kind, key = "name", f"{counter['core'].rstrip('_')}#{counter['rest'] or ''}"
            elif graph and text.islower() and text not in ("def", "class", "return", "self"):
                kind, key = "name", f"{text}#"
        elif kind == "word" and before not in (".", "::") and (counter := _COUNTER.fullmatch(text)):
            if re.fullmatch(r"_?tmp|buf|tmp_acc|arg|primals|tangents", counter["core"].rstrip("_")):
                kind, key = "name", f"{counter['core'].rstrip('_')}#{counter['rest'] or ''}"  # tmp3.store(…)
        made.append(Token(text, kind, key, match.start() > (found[position - 1].end() if position else 0)))
    return tuple(made)


def written(run: tuple[Token, ...], *, abstract: bool = False) -> str:
    """The tokens as a text again; `abstract`: names without their numbers, N for numbers."""
    out = []
    for position, token in enumerate(run):
        text = token.key.replace("#", "") if abstract and token.kind in ("name", "number", "string") else token.text
        out.append(" " + text if token.space and position else text)
    return "".join(out)


@functools.lru_cache(maxsize=65536)
def shape(line: str, graph: bool = False) -> tuple[str, ...]:
    """The keys of a line, by which lines are compared: names are alike whatever they are called."""
    return tuple("@" if token.kind == "name" else token.key for token in tokens(line, graph))


@functools.lru_cache(maxsize=65536)
def keys(line: str, graph: bool = False) -> tuple[str, ...]:
    """As `shape`, with the kinds of names and with numbers: what stays of a line after a renaming."""
    return tuple(token.key if token.kind == "name" else token.text for token in tokens(line, graph))
