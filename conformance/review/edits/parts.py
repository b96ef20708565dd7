"""A text's code taken apart: graphs, kernels, calls; and which part of the old text is which of the new."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.review.edits import tokens


@dataclass(frozen=True)
class Part:
    """`kind`: "kernel", "call", "graph" or "other"; `section`: the module that it is of."""

    section: str
    kind: str
    name: str
    lines: tuple[str, ...]

    @property
    def label(self) -> str:
        return " ".join(dict.fromkeys(word for word in (self.section, self.name) if word))


def parts(code: str) -> list[Part]:
    """A text's code taken apart at its headings."""
    found: list[Part] = []
    section, kind, name, lines = "", "other", "", []  # type: str, str, str, list[str]

    def close() -> None:
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            found.append(Part(section, kind, name, tuple(lines)))
        lines.clear()

    for line in code.splitlines():
        if line.startswith("--- "):
            close()
            section = line[4:]
            kind, name = ("graph", "") if section.endswith("graph") else ("other", "")
            continue
        if line.startswith("# kernel "):
            close()
            kind, name = "kernel", line.removeprefix("# kernel ")
            continue
        if call := re.match(r"def (\w+)\(args\):", line):
            close()
            kind, name = "call", call[1]
        elif re.fullmatch(r"# \w+", line) and (not lines or not lines[-1]):
            close()
            kind, name = "other", line[2:]
        lines.append(line)
    close()
    return found


def partners(old: Sequence[Part], new: Sequence[Part]) -> tuple[list[tuple[Part, Part]], list[Part], list[Part]]:
    """Parts of one name go together, then kernels that are much alike. The rest went or came."""
    pairs: list[tuple[Part, Part]] = []
    gone, come = list(old), list(new)
    for same in (_same_name, _same_kernel):
        for a in list(gone):
            candidates = [b for b in come if same(a, b)]
            if candidates:
                pairs.append((a, candidates[0]))
                gone.remove(a)
                come.remove(candidates[0])
    return pairs, gone, come


def _same_name(a: Part, b: Part) -> bool:
    return (a.section, a.kind, a.name) == (b.section, b.kind, b.name)


def _same_kernel(a: Part, b: Part) -> bool:
    if (a.section, a.kind) != (b.section, b.kind) or a.kind != "kernel":
        return False
    shapes = [[" ".join(tokens.shape(line)) for line in part.lines] for part in (a, b)]
    return difflib.SequenceMatcher(None, *shapes, autojunk=False).ratio() > 0.5


def what_is(part: Part) -> str:
    """`a Triton kernel (pointwise)`, `a C++ kernel`, `the joint graph`."""
    if part.kind == "graph":
        return f"the {part.section}"
    if part.kind != "kernel":
        return f"`{part.name or part.lines[0]}`"
    heuristic = next((m[1] for line in part.lines if (m := re.match(r"@triton_heuristics\.(\w+)\(", line))), "")
    if heuristic:
        return f"a Triton kernel ({heuristic.replace('_', ' ')})"
    return "a C++ kernel" if any(line.startswith('extern "C"') for line in part.lines) else "a kernel"
