"""Colour on a terminal, plain text anywhere else."""

from __future__ import annotations

import os
import sys

_CODES = {"bold": "1", "red": "31", "green": "32", "cyan": "36"}


def coloured() -> bool:
    """Whether stdout takes colour: a terminal that can, and no NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


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
