"""Comparing what was generated with what is stored: facts first, then a diff that is short enough to read."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from conformance.facts import changed
from conformance.normalize.text import parse_facts, split_facts
from conformance.storage.snapshots import canonical

LONGEST = 60  # lines of diff in a message


@dataclass(frozen=True)
class Difference:
    """`facts`: one entry for each that changed; `diff`: the whole unified diff of the code, a line each.

    `accept`: the command that stores the new text.
    """

    facts: tuple[str, ...]
    diff: tuple[str, ...]
    accept: str = ""

    @property
    def message(self) -> str:
        """For a failure: facts that changed, the diff cut to LONGEST lines, the command that accepts."""
        lines = ["facts changed:", *self.facts] if self.facts else ["facts unchanged"]
        if self.diff:
            lines += ["", *self.diff[:LONGEST]]
        if len(self.diff) > LONGEST:
            lines.append(f"… {len(self.diff) - LONGEST} more lines of diff")
        if self.accept:
            lines += ["", f"accept it with: {self.accept}"]
        return "\n".join(lines)


def difference(stored: str, new: str, accept: str = "") -> Difference | None:
    """What changed from the stored text to the new one; None where nothing did."""
    stored, new = canonical(stored), canonical(new)
    if stored == new:
        return None
    facts = changed(parse_facts(stored), parse_facts(new))
    return Difference(tuple(facts), tuple(hunks(split_facts(stored)[1], split_facts(new)[1])), accept)


def hunks(stored: str, new: str) -> list[str]:
    """Unified, three lines around a change; each hunk is headed by the part of the text that it is in."""
    old_lines, new_lines = stored.splitlines(), new.splitlines()
    diff = difflib.unified_diff(old_lines, new_lines, "stored", "generated", lineterm="")
    return [f"{line}{_section(old_lines, line)}" for line in diff]


def _section(lines: list[str], header: str) -> str:
    """For the header of a hunk, the kernel or call of `lines` that the change is in; nothing for other lines."""
    hunk = re.match(r"@@ -(\d+)(?:,\d+)? \+", header)
    if hunk:
        for line in reversed(lines[: int(hunk[1]) + 2]):
            if line.startswith(("# kernel ", "def call(", "--- ")):
                return " " + line.removeprefix("# ")
    return ""
