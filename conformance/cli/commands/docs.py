"""`docs`: the pages of documentation that come with the package."""

from __future__ import annotations

import argparse

from conformance.documentation import page_text, pages, title
from conformance.terminal import markdown_text

DESCRIPTION = """\
Print a page of the documentation, or a section of it. Without a page: list
all pages. The pages come with the package: no network is needed."""

EXAMPLES = """\
examples:
  python -m conformance docs                    the pages and their titles
  python -m conformance docs numerics           a page
  python -m conformance docs numerics#seeds     a section"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "page", nargs="?", default="", metavar="PAGE", help="a page, or PAGE#SECTION; default: list all pages"
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises PageError."""
    if arguments.page:
        print(markdown_text(page_text(arguments.page)))
        return 0
    known = pages()
    width = max(map(len, known))
    print("\n".join(f"{name:<{width}}  {title(file)}" for name, file in known.items()))
    return 0
