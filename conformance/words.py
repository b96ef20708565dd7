"""Words of messages."""

from __future__ import annotations

from collections.abc import Iterable


def pluralise(number: int, word: str) -> str:
    """Returns "1 text" or "2 texts"."""
    return f"{number} {word}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns "; did you mean 'kernels'?", the end of a message about an unknown name; "" if none is similar."""
    import difflib

    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
