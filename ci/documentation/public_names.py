#!/usr/bin/env python3
"""Writes the parts of docs/public-names.md that docstrings and parsers say: names, keywords, options and commands.

    python ci/documentation/public_names.py

A selftest fails where the page says something else.
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

import conformance
from conformance.cli.main import COMMANDS
from conformance.harness.configuration.pytest_options import OPTIONS
from conformance.settings import long_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "public-names.md"
#: Public names without a docstring → the file that has a comment above them.
CONSTANTS = {
    "EDGE_SIZES": "conformance/cases/inputs.py",
    "FLUSHED": "conformance/cases/numerics_policy.py",
    "REDUCTIONS": "conformance/numerics/torch_references.py",
}
_BY = "written by ci/documentation/public_names.py"


def option_rows(*, are_long: bool) -> list[str]:
    """Markdown: a row for each option of pytest with its help, under its long or its short name."""
    rows = []
    for name, keywords in OPTIONS.items():
        value = keywords.get("metavar") or "|".join(keywords.get("choices", ()))
        option = long_name(name) if are_long else f"--{name}"
        rows.append(_row(f"{option}{' ' if value else ''}{value}", str(keywords["help"])))
    return rows


def filled(text: str) -> str:
    """The page's text with these parts written anew."""
    parts = {
        "names": ["| name | |", "|---|---|", *(_row(name, _said_of(name)) for name in conformance.__all__)],
        "keywords": ["```text", inspect.getdoc(conformance.case) or "", "```"],
        "options": ["| option | |", "|---|---|", *option_rows(are_long=False)],
        "commands": [
            "| command | |",
            "|---|---|",
            *(_row(name, help_text) for name, (_, help_text) in COMMANDS.items()),
        ],
    }
    for part, lines in parts.items():
        begin, end = f"<!-- {part}: {_BY} -->", f"<!-- end of {part} -->"
        before, _, rest = text.partition(begin)
        text = "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{rest.partition(end)[2]}"])
    return text


def _row(name: str, text: str) -> str:
    return "| `{}` | {} |".format(*(cell.replace("|", "\\|") for cell in (name, text)))


def _said_of(name: str) -> str:
    """The first line of a docstring, or the first sentence of the comment above a constant."""
    if name not in CONSTANTS:
        return (inspect.getdoc(getattr(conformance, name)) or "").partition("\n")[0]
    source = (ROOT / CONSTANTS[name]).read_text(encoding="utf-8")
    [comment] = re.findall(rf"((?:^#: .*\n)+)^{name} ?[=:]", source, re.MULTILINE)
    return re.split(r"(?<=\.)\s", " ".join(comment.replace("#: ", "").split()))[0]


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
