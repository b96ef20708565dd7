"""Compares a generated text with the stored one: changed facts first, then a diff short enough to read."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from conformance.documentation import reference
from conformance.facts import changed_facts
from conformance.normalize.text import canonical_text, parse_facts, split_facts
from conformance.review.accept_command import ACCEPT_WITH

MAX_DIFF_LINES = 60  # in a message


@dataclass(frozen=True)
class Difference:
    """How two texts differ.

    `facts`: one entry for each changed fact. `diff`: the lines of the whole unified diff of the code. `accept`: the
    command that stores the new text.
    """

    facts: tuple[str, ...]
    diff: tuple[str, ...]
    accept: str = ""

    @property
    def message(self) -> str:
        """The message of a failure: changed facts, at most MAX_DIFF_LINES lines of diff, the command that accepts."""
        lines = ["facts changed:", *self.facts] if self.facts else ["facts unchanged"]
        if self.diff:
            lines += ["", *self.diff[:MAX_DIFF_LINES]]
        if len(self.diff) > MAX_DIFF_LINES:
            lines.append(f"… {len(self.diff) - MAX_DIFF_LINES} more lines of diff")
        if self.accept:
            lines += ["", f"{ACCEPT_WITH}{self.accept}", f"how code is stored: {reference('snapshots')}"]
        return "\n".join(lines)


def compare_texts(stored: str, new: str, accept: str = "") -> Difference | None:
    """Returns what changed from the stored text to the new one; None if they are equal."""
    stored, new = canonical_text(stored), canonical_text(new)
    if stored == new:
        return None
    facts = changed_facts(parse_facts(stored), parse_facts(new))
    return Difference(tuple(facts), tuple(diff_lines(split_facts(stored)[1], split_facts(new)[1])), accept)


def diff_lines(stored: str, new: str) -> list[str]:
    """Returns the unified diff with three lines of context. The header of a hunk names the part that it begins in."""
    old_lines, new_lines = stored.splitlines(), new.splitlines()
    diff = difflib.unified_diff(old_lines, new_lines, "stored", "generated", lineterm="")
    return [f"{line}{_part_name(old_lines, line)}" for line in diff]


def _part_name(lines: list[str], header: str) -> str:
    """Returns the kernel, call or section that a hunk's header points to; "" for a line that is no header."""
    hunk = re.match(r"@@ -(\d+)(?:,\d+)? \+", header)
    if hunk:
        for line in reversed(lines[: int(hunk[1]) + 2]):
            if line.startswith(("# kernel ", "def call(", "--- ")):
                return " " + line.removeprefix("# ")
    return ""
