"""Formats the C++ of a kernel for a snapshot: less indentation and fewer braces, the same statements."""

from __future__ import annotations

import re

_CAST = re.compile(r"(?P<pointer>\b\w*ptr\d+(?P<open>\[| \+ ))static_cast<int64_t>\(")
_PARAMETER_INDENT = 23  # Inductor aligns every parameter with the first
_HEAD = re.compile(r"\s*(?:for|if|else|while)\b.*[)e]$|.*\[&\]\(\)$")


def remove_index_casts(text: str) -> str:
    """Removes casts of indices and offsets.

    `ptr[static_cast<int64_t>(e)]` → `ptr[e]`, `ptr + static_cast<int64_t>(e)` → `ptr + (e)`. This
    changes no kernel: C++ converts an integer that is added to a pointer to 64 bits. Any other cast stays.
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
    """The index of the parenthesis that closes the one before `start`; -1 if there is none."""
    depth = 1
    for number in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[number], 0)
        if not depth:
            return number
    return -1


def format_blocks(text: str) -> str:
    """Indents by two blanks a level, puts `{` behind its `for` or `if`, removes the braces of a block in a block.

    This changes no kernel: C++ ignores blanks and line breaks, and two pairs of braces with nothing between them are
    one scope.
    """
    text = re.sub(r"\}\n\s*\(\)\n\s*;", "}();", text)  # a lambda that is called at once
    lines = _without_bare_blocks([line.rstrip() for line in text.splitlines()])
    out: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() == "{" and out and _HEAD.fullmatch(out[-1]):
            out[-1] += " {"
        elif indent == _PARAMETER_INDENT and out and out[-1].endswith(","):
            out.append(" " * 4 + line.lstrip())
        else:
            out.append(" " * (indent // 2) + line.lstrip())
    return "\n".join(out)


def _without_bare_blocks(lines: list[str]) -> list[str]:
    """Removes the braces of a block that is all that another block holds. Keeps every line if braces do not match."""
    opened: list[int] = []
    pairs: dict[int, int] = {}  # line of an opening brace → line of its closing brace
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
    removed: set[int] = set()
    dedent_changes = [0] * (len(lines) + 1)  # in blanks, from this line on
    for start, end in pairs.items():
        initialiser = start > 1 and lines[start - 2].endswith(("=", ",", "(", "return"))
        if pairs.get(start - 1) == end + 1 and not initialiser:
            removed |= {start, end}
            dedent_changes[start] += 4
            dedent_changes[end] -= 4
    out, dedent = [], 0
    for number, line in enumerate(lines):
        dedent += dedent_changes[number]
        if number not in removed:
            indent = len(line) - len(line.lstrip())
            out.append(line[min(dedent, indent) :])
    return out
