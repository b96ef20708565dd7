"""How the C++ of a kernel is laid out in a snapshot: less indentation and fewer braces, the same statements."""

from __future__ import annotations

import re

_CAST = re.compile(r"(?P<pointer>\b\w*ptr\d+(?P<open>\[| \+ ))static_cast<int64_t>\(")
_PARAMETER = 23  # blanks before one: it is aligned with the first
_HEAD = re.compile(r"\s*(?:for|if|else|while)\b.*[)e]$|.*\[&\]\(\)$")


def index_casts(text: str) -> str:
    """`ptr[static_cast<int64_t>(e)]` → `ptr[e]`, `ptr + static_cast<int64_t>(e)` → `ptr + (e)`.

    An integer that is added to a pointer is as wide as one already; any other cast stays.
    """
    out, at = [], 0
    for match in _CAST.finditer(text):
        end = _closing(text, match.end())
        whole = match["open"] != "[" or text[end + 1 : end + 2] == "]"
        if match.start() < at or end < 0 or not whole:
            continue
        inner = text[match.end() : end]
        plain = match["open"] == "[" or re.fullmatch(r"\w+", inner)
        out += [text[at : match.start()], match["pointer"], inner if plain else f"({inner})"]
        at = end + 1
    return "".join([*out, text[at:]])


def _closing(text: str, start: int) -> int:
    """Where the parenthesis before `start` is closed; -1 where it is not."""
    depth = 1
    for number in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[number], 0)
        if not depth:
            return number
    return -1


def layout(text: str) -> str:
    """Two blanks a level, a brace behind what it belongs to, no block that holds nothing but a block."""
    text = re.sub(r"\}\n\s*\(\)\n\s*;", "}();", text)  # a lambda that is called where it stands
    lines = _without_bare_blocks([line.rstrip() for line in text.splitlines()])
    out: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() == "{" and out and _HEAD.fullmatch(out[-1]):
            out[-1] += " {"
        elif indent == _PARAMETER and out and out[-1].endswith(","):
            out.append(" " * 4 + line.lstrip())
        else:
            out.append(" " * (indent // 2) + line.lstrip())
    return "\n".join(out)


def _without_bare_blocks(lines: list[str]) -> list[str]:
    opened: list[int] = []
    pairs: dict[int, int] = {}  # line of a lone brace → of the one that closes it
    for number, line in enumerate(lines):
        for brace in re.findall(r"[{}]", re.sub(r'"(?:[^"\\]|\\.)*"|//.*', "", line)):
            if brace == "{":
                opened.append(number)
            elif not opened:
                return lines
            else:
                start = opened.pop()
                if line.strip() == "}" and lines[start].strip() == "{":
                    pairs[start] = number
    if opened:
        return lines
    gone: set[int] = set()
    less = [0] * (len(lines) + 1)
    for start, end in pairs.items():
        initialiser = start > 1 and lines[start - 2].endswith(("=", ",", "(", "return"))
        if pairs.get(start - 1) == end + 1 and not initialiser:
            gone |= {start, end}
            less[start] += 4
            less[end] -= 4
    out, dedent = [], 0
    for number, line in enumerate(lines):
        dedent += less[number]
        if number not in gone:
            indent = len(line) - len(line.lstrip())
            out.append(line[min(dedent, indent) :])
    return out
