"""Words and numbers of messages."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = ("", "k", "M", "G", "T", "P")

#: The value of a fact that Inductor does not decide, such as vectorisation where another compiler decides. It meets all
#: requirements.
NOT_SAID = "not said"

#: The value of a fact that needs a part of torch that the installed torch lacks. It meets no requirement.
UNKNOWN = "unknown"


def pluralise(number: int, word: str) -> str:
    """Returns "1 text" or "2 texts"."""
    return f"{number} {word}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns "; did you mean 'kernels'?", the end of a message about an unknown name; "" if none is similar."""
    import difflib

    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def microseconds(us: float) -> str:
    """`1.23`, `12.3` or `123`."""
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def bytes_text(count: float) -> str:
    """`1.2 MB`, in powers of 1000."""
    return f"{_scaled(count)}B"


def amount(count: float) -> str:
    """`1.2 G`; nothing for 0."""
    return _scaled(count).strip() if count else ""


def _scaled(count: float) -> str:
    power = 0
    while count >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{f'{count:.3g}' if count < 100 else f'{count:.0f}'} {_UNITS[power]}"
