#!/usr/bin/env python3
"""Draws the last lines of a command's output as an SVG, as a terminal shows them: the pictures of the docs.

    pytest --color=yes … | python ci/screenshot.py docs/images/changes.svg --title "pytest --target cuda_sm90"

Needs rich.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", type=Path, help="the SVG file to write")
    parser.add_argument("--title", default="", help="the title of the window")
    parser.add_argument("--lines", type=int, default=40, metavar="N", help="draw the last N lines (40)")
    parser.add_argument("--columns", type=int, default=150, metavar="N", help="the width of the terminal (150)")
    arguments = parser.parse_args()
    console = Console(record=True, width=arguments.columns, file=io.StringIO(), force_terminal=True)
    wrapped = Text.from_ansi(sys.stdin.read().rstrip("\n")).wrap(console, arguments.columns)
    for line in wrapped[-arguments.lines :]:
        console.print(line, no_wrap=True, crop=True)
    arguments.image.parent.mkdir(parents=True, exist_ok=True)
    arguments.image.write_text(console.export_svg(title=arguments.title), encoding="utf-8")


if __name__ == "__main__":
    main()
