"""The option of commands that compile cases with the Python files of a PyTorch checkout."""

from __future__ import annotations

import argparse
from typing import Any

from conformance.sources.source_in_use import use_source

OPTION = "--torch-source"
#: Names the installed torch as a side of `compare`.
INSTALLED = "installed"
#: Commands that take it. `compare` may take two.
_COMMANDS = ("show", "watch", "compare", "bench", "estimate", "minimise")


def add_source_option(command: str, parser: argparse.ArgumentParser) -> None:
    if command not in _COMMANDS:
        return
    twice: dict[str, Any] = {"action": "append", "default": []} if command == "compare" else {}
    also = f"; given twice, compare what the two generate; `{INSTALLED}` is the installed torch" if twice else ""
    parser.add_argument(
        OPTION,
        dest="torch_source",
        metavar="PATH[@COMMIT]",
        help=f"use the Python files of this PyTorch checkout, or of a commit of it, with the installed binaries{also}",
        **twice,
    )


def use_source_option(command: str, arguments: argparse.Namespace) -> None:
    """Call it before torch is imported, and before the installed torch is read.

    Raises SourceError, GitError, LayError and MisfitError.
    """
    given = getattr(arguments, "torch_source", None) if command in _COMMANDS else None
    words = given if isinstance(given, list) else [given] if given else []
    if len(words) == 1 and words[0] != INSTALLED:
        use_source(words[0], OPTION)
