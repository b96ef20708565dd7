"""Colour on a terminal, plain text anywhere else."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator

_CODES = {"bold": "1", "red": "31", "green": "32", "cyan": "36"}
_WIDTH = 120  # where there is no terminal


def coloured() -> bool:
    """Whether stdout takes colour: a terminal that can, and no NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal; COLUMNS says otherwise."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def paint(text: str, colour: str) -> str:
    """`colour`: bold, red, green or cyan."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if text and coloured() else text


def heading(text: str) -> str:
    return paint(text, "bold")


def diff_line(line: str) -> str:
    """A line of a unified diff."""
    if line.startswith(("--- ", "+++ ")):
        return paint(line, "bold")
    colour = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1])
    return paint(line, colour) if colour else line


def highlighted(text: str, language: str) -> str:
    """`language`: python, code (Python with kernels in C++), facts, log, bytecode, or "" for none.

    Plain where stdout takes no colour; on a terminal, long lines of facts are folded. Code needs pygments, which comes
    with pytest.
    """
    if language == "facts" and sys.stdout.isatty():
        text = "\n".join(_folded(line) for line in text.splitlines())
    if not (coloured() and language):
        return text
    if language == "facts":
        return re.sub(r"^([a-z]\S*)(?=\s|$)", lambda name: paint(name[1], "cyan"), text, flags=re.MULTILINE)
    if language == "log":
        return re.sub(r"^\[\w+\]", lambda name: paint(name[0], "cyan"), text, flags=re.MULTILINE)
    if language == "bytecode":
        return re.sub(r"\b[A-Z][A-Z_]{2,}\b", lambda name: paint(name[0], "cyan"), text)
    try:
        import pygments
        from pygments.formatters import TerminalFormatter
        from pygments.lexers import CppLexer, PythonLexer
    except ImportError:
        return text
    out = []
    for kind, piece in _pieces(text) if language == "code" else [("python", text)]:
        if kind == "facts":
            out.append(highlighted(piece, kind))
            continue
        lexer = (CppLexer if kind == "cpp" else PythonLexer)(stripnl=False, ensurenl=False)
        out.append(pygments.highlight(piece, lexer, TerminalFormatter(bg=_background())))
    return "".join(out)


def _background() -> str:
    """Terminals that say so end COLORFGBG with the number of the background's colour; 7 and 15 are light."""
    return "light" if os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"


def _folded(line: str) -> str:
    """A fact's line in the terminal's width, what follows below the value."""
    value = re.match(r"\S*\s*", line)
    indent = " " * min(len(value[0]) + 2, width() // 2)
    return "\n".join(textwrap.wrap(line, width(), subsequent_indent=indent, break_long_words=False)) or line


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """A text of kernels, calls and facts as (facts, cpp or python, text): together the whole text again."""
    kind, taken = "facts" if re.match(r"[a-z_]+  +\S", text) else "python", []
    for line in text.splitlines(keepends=True):
        now = kind
        if kind == "facts":
            now = "facts" if line.strip() else "python"
        elif re.match(r'(#include|extern "C"|template ?<|namespace )', line):
            now = "cpp"
        elif kind == "cpp" and re.match(r"(# kernel |def |--- |''')", line):
            now = "python"
        if now != kind and taken:
            yield kind, "".join(taken)
            taken = []
        kind = now
        taken.append(line)
    yield kind, "".join(taken)
