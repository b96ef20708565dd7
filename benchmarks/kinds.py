"""The kinds of bugs of kinds.toml, and the parts of docs/kinds.md that are made of them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).resolve().parent / "kinds.toml"


@dataclass(frozen=True)
class Kind:
    """A kind of bug. `case`: "" if no case can show it. `seen`: how it was seen to fail; "" if it was not."""

    area: str
    name: str
    wrong: str
    issue: str
    case: str
    seen: str

    def is_in(self, version: str) -> bool:
        """Whether torch of this version has the bug, and the emulation or the CPU shows it."""
        return version in re.findall(r"\b\d\.\d+\b", self.seen) and "device" not in self.seen


def kinds() -> list[Kind]:
    """All kinds, in the order of the page."""
    return [Kind(**entry) for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["kind"]]


def counts(found: list[Kind]) -> list[str]:
    """Markdown: how many kinds there are, have a case, and were seen to fail."""
    cased = [kind for kind in found if kind.case]
    planted = [kind for kind in cased if kind.seen == "planted"]
    present = [kind for kind in cased if kind.seen.startswith("torch")]
    unseen = [kind for kind in cased if not kind.seen]
    return [
        f"- {len(found)} kinds of wrong results. {len(cased)} of them ({100 * len(cased) // len(found)} %) have a case",
        f"  of this suite that exercises them. For the other {len(found) - len(cased)}, the last column says why no",
        "  case can.",
        f"- {len(planted) + len(present)} kinds were seen to make their case fail: {len(present)} because a supported",
        f"  torch has the bug, {len(planted)} because the bug was planted into Inductor.",
        f"- {len(unseen)} kinds have a case that was not seen to fail: it does what the issue describes, but the",
        "  versions of torch that were run do not have the bug, and it was not planted.",
    ]


def tables(found: list[Kind]) -> list[str]:
    """Markdown: a section for each area, with a row for each kind."""
    lines: list[str] = []
    area = ""
    for kind in found:
        if kind.area != area:
            area = kind.area
            header = ["| kind | what is wrong | issue | case | seen |", "|---|---|---|---|---|"]
            lines += [*([""] if lines else []), f"## {area}", "", *header]
        case = f"`{kind.case}`" if kind.case else "none"
        lines.append(f"| `{kind.name}` | {kind.wrong} | {kind.issue} | {case} | {kind.seen} |")
    return lines
