"""Tells which title of an edit says most: function names before and after it, or only names such as `tmp`."""

from __future__ import annotations

import re

#: Words of generated code that say nothing about what it computes.
_VAGUE = {
    "auto", "bool", "buf", "const", "else", "expression", "float", "if", "in_out_ptr", "in_ptr", "kernel", "out_ptr",
    "tmp", "xmask",
}  # fmt: skip


def vagueness(title: str) -> int:
    """0 for a title that names functions or variables before and after a change; more for a title that says less."""
    sides = [set(re.findall(r"[A-Za-z]\w+", side)) - _VAGUE for side in re.findall(r"`[^`]*`", title)]
    if not sides or not sides[0]:
        return 3
    if "` → `" in title:
        return 0 if sides[1] else 2
    return 1


def edit_words(key: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The telling words that an edit removes, and those that it adds. `key`: see edits.edit.Edit."""
    verb, words = key[0], [*key[1:]]
    if verb == "replaced":
        if "→" not in words:
            return set(), set()
        middle = words.index("→")
        gone, come = _telling(words[:middle]), _telling(words[middle + 1 :])
        return gone - come, come - gone
    side = _telling(words[:-1] if len(words) > 1 else words)
    return (side, set()) if verb == "removed from" else (set(), side)


def _telling(words: list[str]) -> set[str]:
    return {name for word in words for name in re.findall(r"[A-Za-z_]\w{3,}", word)} - _VAGUE
