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
