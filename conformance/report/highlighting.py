"""Colours generated texts with Pygments. Texts of kernels share most lines, so each distinct line is coloured once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

#: How many lines Pygments gets at once, and below how many lines one process is faster than several.
_CHUNK, _FEW = 4000, 8000
#: What may leave a comment or a text open at the end of a line: such a line is coloured alone.
_OPENS = ("/*", '"""', "'''", "\\")

Line = tuple[str, str]  # (language, line)


def highlighted(parts: Iterable[str]) -> dict[str, str]:
    """Returns part → HTML. Each line of the HTML closes the elements that it opens. The text in it is escaped."""
    distinct = {part: _language(part) for part in parts}
    lines = _coloured({(language, line) for part, language in distinct.items() for line in part.split("\n")})
    return {
        part: "\n".join([lines[language, line] for line in part.split("\n")]) for part, language in distinct.items()
    }


def _language(part: str) -> str:
    if 'extern "C"' in part:
        return "cpp"
    return "python" if part.startswith(("--- ", "# kernel ", "def ")) else "text"


def _coloured(lines: Iterable[Line]) -> dict[Line, str]:
    alone: list[Line] = []
    together: list[Line] = []
    for line in sorted(lines):
        (alone if any(each in line[1] for each in _OPENS) else together).append(line)
    chunks = [[line] for line in alone]
    for language in ("cpp", "python", "text"):
        found = [line for line in together if line[0] == language]
        chunks += [found[start : start + _CHUNK] for start in range(0, len(found), _CHUNK)]
    workers = min(len(os.sched_getaffinity(0)), len(chunks))
    if workers < 2 or len(together) < _FEW:
        return {line: html for chunk in chunks for line, html in zip(chunk, _colour(chunk), strict=True)}
    with ProcessPoolExecutor(workers) as pool:
        coloured = pool.map(_colour, chunks)
        return {
            line: html
            for chunk, found in zip(chunks, coloured, strict=True)
            for line, html in zip(chunk, found, strict=True)
        }


def _colour(lines: Sequence[Line]) -> list[str]:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(lines[0][0], stripnl=False, ensurenl=True)
    html = highlight("".join(f"{line}\n" for _, line in lines), lexer, HtmlFormatter(nowrap=True))
    return html.removesuffix("\n").split("\n")
