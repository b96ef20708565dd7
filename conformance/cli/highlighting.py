"""The parts of a capture in colour, on a terminal that shows colours."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator

from conformance.terminal import has_colour, text_in_colour, width

#: Language → what is coloured in it. Lines begin with the name of a fact, or with the name of one of torch's logs.
_NAMES = {"facts": r"(?m)^[a-z]\S*(?=\s|$)", "log": r"(?m)^\[\w+\]", "bytecode": r"\b[A-Z][A-Z_]{2,}\b"}


def highlighted(text: str, language: str) -> str:
    """Returns the text in colour; the same text where stdout shows no colours. A terminal gets long facts folded.

    `language`: of a `capture_sections.Block`.
    """
    if language == "facts" and sys.stdout.isatty():
        text = "\n".join(_folded(line) for line in text.splitlines())
    if not (language and has_colour()):
        return text
    parts = _parts(text) if language == "code" else [(language, text)]
    return "".join(_coloured(part, language_of_part) for language_of_part, part in parts)


def _coloured(text: str, language: str) -> str:
    from rich.text import Text

    if language in _NAMES:
        plain = Text(text)
        plain.highlight_regex(_NAMES[language], "cyan")
        return text_in_colour(plain)
    from pygments.lexers import CppLexer, PythonLexer
    from rich.syntax import Syntax

    lexer = (CppLexer if language == "cpp" else PythonLexer)(stripnl=False, ensurenl=False)
    return text_in_colour(Syntax(text, lexer, theme=f"ansi_{_background()}").highlight(text))


def _background() -> str:
    """Some terminals write the number of their background's colour at the end of COLORFGBG; 7 and 15 are light."""
    return "light" if os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"


def _folded(line: str) -> str:
    """Folds a fact's line to the terminal's width; the lines after the first begin below the value."""
    value = re.sub(r"^\S*\s*", "", line)
    indent = len(line) - len(value) + 2
    return "\n".join(
        textwrap.wrap(line, width(), subsequent_indent=" " * min(indent, width() // 2), break_long_words=False)
    )


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Splits facts, kernels and calls into (facts, cpp or python, text). The texts together are the whole text."""
    language = "facts" if re.match(r"[a-z_]+  +\S", text) else "python"
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        following = language
        if language == "facts":
            following = "facts" if line.strip() else "python"
        elif re.match(r'(#include|extern "C"|template ?<|namespace )', line):
            following = "cpp"
        elif language == "cpp" and re.match(r"(# kernel |def |--- |''')", line):
            following = "python"
        if following != language and lines:
            yield language, "".join(lines)
            lines = []
        language = following
        lines.append(line)
    yield language, "".join(lines)
