"""Splits a text's code into parts (graphs, kernels, calls) and matches the parts of two texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.review.edits import tokens


@dataclass(frozen=True)
class Part:
    """A part of a text. `kind`: "kernel", "call", "graph" or "other". `section`: its module, such as "forward"."""

    section: str
    kind: str
    name: str
    lines: tuple[str, ...]

    @property
    def label(self) -> str:
        return " ".join(dict.fromkeys(word for word in (self.section, self.name) if word))


def split_parts(code: str) -> list[Part]:
    """Splits a text's code at its headings."""
    parts: list[Part] = []
    section, kind, name, lines = "", "other", "", []  # type: str, str, str, list[str]

    def close() -> None:
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            parts.append(Part(section, kind, name, tuple(lines)))
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
    return parts


def match_parts(old: Sequence[Part], new: Sequence[Part]) -> tuple[list[tuple[Part, Part]], list[Part], list[Part]]:
    """Pairs parts with the same name, then similar kernels. Returns the pairs, the removed and the added parts."""
    pairs: list[tuple[Part, Part]] = []
    removed, added = list(old), list(new)
    for match in (_has_same_name, _is_similar_kernel):
        for a in list(removed):
            candidates = [b for b in added if match(a, b)]
            if candidates:
                pairs.append((a, candidates[0]))
                removed.remove(a)
                added.remove(candidates[0])
    return pairs, removed, added


def _has_same_name(a: Part, b: Part) -> bool:
    return (a.section, a.kind, a.name) == (b.section, b.kind, b.name)


def _is_similar_kernel(a: Part, b: Part) -> bool:
    if (a.section, a.kind) != (b.section, b.kind) or a.kind != "kernel":
        return False
    old, new = ([" ".join(tokens.line_shape(line)) for line in part.lines] for part in (a, b))
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio() > 0.5


def describe_part(part: Part) -> str:
    """Returns such as `a Triton kernel (pointwise)`, `a C++ kernel` or `the joint graph`."""
    if part.kind == "graph":
        return f"the {part.section}"
    if part.kind != "kernel":
        return f"`{part.name or part.lines[0]}`"
    heuristic = next((m[1] for line in part.lines if (m := re.match(r"@triton_heuristics\.(\w+)\(", line))), "")
    if heuristic:
        return f"a Triton kernel ({heuristic.replace('_', ' ')})"
    return "a C++ kernel" if any(line.startswith('extern "C"') for line in part.lines) else "a kernel"
