"""The difference between the facts of two captures."""

from __future__ import annotations

from collections.abc import Mapping


def changed_facts(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """One text for each fact that differs: `vectorised  yes → no: load index … is not contiguous`.

    `old`, `new`: name → text, as `Facts.lines()` returns it. If a fact has several lines, the removed ones (-) and the
    added ones (+) follow below the first lines.
    """
    entries = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name, "not known").split("\n"), new.get(name, "not known").split("\n")
        if before == after:
            continue
        removed = [f"  - {line.strip()}" for line in before[1:] if line not in after[1:]]
        added = [f"  + {line.strip()}" for line in after[1:] if line not in before[1:]]
        if before[0] != after[0]:
            first = f"{name}  {before[0]} → {after[0]}"
        elif removed or added:
            first = f"{name}  {after[0]} (details changed)"
        else:
            first = f"{name}  {after[0]} (order changed)"
        entries.append("\n".join([first, *removed, *added]))
    return entries
