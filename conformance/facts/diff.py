"""What differs between the facts of two captures."""

from __future__ import annotations

from collections.abc import Mapping


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs between two `lines()`, one entry a fact: `vectorised  yes → no: load index … is not contiguous`.

    An entry has several lines where the facts have: those that went (-) and those that came (+), below the first ones.
    """
    entries = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name, "not known").split("\n"), new.get(name, "not known").split("\n")
        if before == after:
            continue
        first = f"{name}  {before[0]} → {after[0]}" if before[0] != after[0] else f"{name}  {after[0]}, but otherwise"
        gone = [f"  - {line.strip()}" for line in before[1:] if line not in after[1:]]
        come = [f"  + {line.strip()}" for line in after[1:] if line not in before[1:]]
        if before[0] != after[0] or gone or come:
            entries.append("\n".join([first, *gone, *come]))
        else:
            entries.append(f"{name}  {after[0]}, but in another order")
    return entries
