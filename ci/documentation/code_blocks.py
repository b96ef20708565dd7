"""Checks that each block of code in a page is of the language that it names: Sphinx would end the build for it later.

A block of another text, such as a listing with "…", names no language.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from pygments.lexers import get_lexer_by_name
from pygments.token import Error

_BLOCK = re.compile(r"^( *)(`{3,}|~{3,})([\w+-]+)\n(.*?)^\1\2", re.MULTILINE | re.DOTALL)
_SIGNATURE = re.compile(r"\w+\((?:.*)\)(?: -> .*)?", re.DOTALL)
#: Languages that Sphinx takes and Pygments has no lexer for.
_OTHERS = ("mermaid",)


def problems(text: str) -> Iterator[str]:
    """One line for each wrong block of a page in Markdown."""
    for match in _BLOCK.finditer(text):
        language, code = match[3], textwrap.dedent(match[4])
        if language in _OTHERS:
            continue
        where = f"the block of line {text[: match.start()].count(chr(10)) + 1}"
        for kind, value in get_lexer_by_name(language).get_tokens(code):
            if kind is Error:
                yield f"{where}: {value!r} is no {language}: mend the block, or name no language"
                break
        else:
            if language == "python" and (wrong := _syntax_error(code)):
                yield f"{where}: this is no Python ({wrong}): mend the block, or name no language"


def _syntax_error(code: str) -> str:
    """Why a text is neither Python nor one signature of the reference; "" if it is."""
    try:
        ast.parse(code)
    except SyntaxError as error:
        if not _SIGNATURE.fullmatch(code.strip()):
            return str(error)
    else:
        return ""
    try:
        ast.parse(f"def {code.strip()}: ...")
    except SyntaxError as error:
        return str(error)
    return ""
