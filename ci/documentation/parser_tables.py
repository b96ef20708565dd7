#!/usr/bin/env python3
"""Writes the tables of pytest's options and of commands into docs/public-names.md, from the parsers.

    python ci/documentation/parser_tables.py

A selftest fails where the page has other tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.cli.main import COMMANDS
from conformance.harness.configuration.pytest_options import OPTIONS
from conformance.settings import long_name

PAGE = Path(__file__).resolve().parents[2] / "docs" / "public-names.md"
_BY = "written by ci/documentation/parser_tables.py"


def option_rows(*, are_long: bool) -> list[str]:
    """Markdown: a row for each option of pytest with its help, under its long or its short name."""
    rows = []
    for name, keywords in OPTIONS.items():
        value = keywords.get("metavar") or "|".join(keywords.get("choices", ()))
        option = long_name(name) if are_long else f"--{name}"
        cells = f"`{option}{' ' if value else ''}{value}`", str(keywords["help"])
        rows.append("| {} | {} |".format(*(cell.replace("|", "\\|") for cell in cells)))
    return rows


def filled(text: str) -> str:
    """The page's text with its tables written anew."""
    tables = {
        "options": ["| option | |", "|---|---|", *option_rows(are_long=False)],
        "commands": ["| command | |", "|---|---|", *(f"| `{name}` | {text} |" for name, (_, text) in COMMANDS.items())],
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: {_BY} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{rest.partition(end)[2]}"])
    return text


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
