"""Words of messages."""

from __future__ import annotations


def pluralise(number: int, word: str) -> str:
    """Returns "1 text" or "2 texts"."""
    return f"{number} {word}{'s' * (number != 1)}"
