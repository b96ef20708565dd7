"""Colours generated texts with Pygments. Texts of kernels share most lines, and many others differ only in numbers.

So each distinct line is coloured once, with one number for all the numbers in it; then its own numbers are put back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: How many lines Pygments gets at once.
_CHUNK = 4000
#: What may leave a comment or a text open at the end of a line: such a line is coloured alone.
_OPENS = ("/*", '"""', "'''", "\\")
#: In text: a number, also in a name, such as that of tmp12. Not those of 0x1f and int64_t.
_NUMBER = re.compile(r"(?<![0-9])(?<!int)(?!0[xXbBoO])[0-9]+")
#: A number that stands for all numbers, and that no generated code has.
_ANY = "9180273645"
#: In HTML: an element, an escaped character, or digits.
_OF_HTML = re.compile(r"<[^>]*>|&[^;]*;|[0-9]+")

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
    return "python" if part.startswith(("--- ", "# ", "def ", "lambda", "@")) else "text"


def _coloured(lines: Iterable[Line]) -> dict[Line, str]:
    without_numbers = {line: (line[0], _NUMBER.sub(_ANY, line[1])) for line in lines}
    colours = _colour_each(set(without_numbers.values()))
    patterns = {line: _pattern(html) for line, html in colours.items()}
    return {line: _filled(patterns[general], line[1]) for line, general in without_numbers.items()}


def _pattern(html: str) -> list[str]:
    """The HTML between the places of numbers."""
    pieces, start = [], 0
    for found in _OF_HTML.finditer(html):
        if found[0] == _ANY:
            pieces.append(html[start : found.start()])
            start = found.end()
    return [*pieces, html[start:]]


def _filled(pieces: Sequence[str], line: str) -> str:
    numbers = [*_NUMBER.findall(line), ""]
    return "".join([text for pair in zip(pieces, numbers, strict=True) for text in pair])


def _colour_each(lines: Iterable[Line]) -> dict[Line, str]:
    chunks: list[list[Line]] = []
    together: dict[str, list[Line]] = {}
    for line in sorted(lines):
        if any(each in line[1] for each in _OPENS):
            chunks.append([line])
        else:
            together.setdefault(line[0], []).append(line)
    for found in together.values():
        chunks += [found[start : start + _CHUNK] for start in range(0, len(found), _CHUNK)]
    return {line: html for chunk in chunks for line, html in zip(chunk, _colour(chunk), strict=True)}


def _colour(lines: Sequence[Line]) -> list[str]:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(lines[0][0], stripnl=False, ensurenl=True)
    html = highlight("".join(f"{line}\n" for _, line in lines), lexer, HtmlFormatter(nowrap=True))
    return html.removesuffix("\n").split("\n")
