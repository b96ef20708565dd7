"""The text of a snapshot: facts, the joint graph where there are gradients, then each module's kernels and call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from conformance.capture.model import Capture
from conformance.normalize.rules import normalise, printable

COLUMN = 12
#: Comments that say where in the user's code a node comes from, after what is said of its being computed again.
_AGAIN = r"ac_graph_id: \d+(?: - \w+)? |recompute: \w+ "
_ORIGINS = "File: |No stacktrace found|Annotation: |code: |Backward of forward node: "


def snapshot_text(capture: Capture, facts_lines: Mapping[str, str], device: str) -> str:
    """What is stored of a capture. `facts_lines`: name → value, of one line or several; `device`: cpu, cuda or xpu."""
    parts = [facts_block(facts_lines)]
    if capture.joint_graph:
        parts.append(f"--- joint graph\n{graph(capture.joint_graph, device)}")
    seen: Counter[str] = Counter()
    for module in capture.modules:
        seen[module.kind] += 1
        again = f" {seen[module.kind]}" if seen[module.kind] > 1 else ""  # after a graph break
        parts.append(f"--- {module.kind}{again}\n{_without_kind(normalise(module.code, device))}")
    return "\n".join(part for part in parts if part)


def _without_kind(text: str) -> str:
    """The heading says it already."""
    return re.sub(r"\A# AOT ID: \w+\n\n?", "", text)


def facts_block(lines: Mapping[str, str]) -> str:
    """`kernels     1: flip`: names padded to a column, further lines of a value indented to it.

    Raises ValueError for a name that could not be read back: empty, with blanks, or beginning with `---`.
    """
    width = _width(lines)
    out = []
    for name, value in lines.items():
        if not name or re.search(r"\s", name) or name.startswith("---"):
            raise ValueError(f"a fact is named {name!r}; a name is one word")
        first, *rest = [line for line in printable(value).splitlines() if line] or [""]
        out.append(f"{name:<{width}}{first}".rstrip())
        out += [f"{'':<{width}}{line}".rstrip() for line in rest]
    return "".join(line + "\n" for line in out)


def split(text: str) -> tuple[str, str]:
    """A snapshot's text as (facts block, the rest)."""
    if text.lstrip("\n").startswith("--- "):
        return "", text
    facts, _, rest = text.partition("\n\n")
    return facts, rest


def parse_facts(text: str) -> dict[str, str]:
    """The facts block of a snapshot's text: name → value, lines joined by a newline."""
    lines = [line for line in split(text)[0].splitlines() if line]
    names = [line.split()[0] for line in lines if line[0] != " "]
    width = _width(names)
    facts: dict[str, str] = {}
    for line in lines:
        if line[0] != " ":
            name = line.split()[0]
            facts[name] = line[width:]
        elif facts:
            facts[name] += "\n" + line[width:]
    return facts


def _width(names: Iterable[str]) -> int:
    return max([COLUMN, *(len(name) + 2 for name in names)])


def graph(text: str, device: str) -> str:
    """An FX graph as torch prints it, without files, source lines and the device's index; types and shapes stay."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(rf"^[ \t]*#[ \t]*(?:{_AGAIN})?({_ORIGINS}).*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(rf"(?<=\]){device}(?::\d+)?(?=\")", "device", text)
    text = re.sub(rf"(?:torch\.)?\bdevice\(type='{device}'(?:, index=\d+)?\)", "device", text)
    text = re.sub(r"(device\(type='\w+'), index=\d+\)", r"\1)", text)
    text = re.sub(r";  (?:\w+ = )+None", "", text)  # when the tracer lets go of a value
    for table in ("kernel_idx", "constant_args_idx"):  # of users' Triton kernels, counted through the process
        text = _counted_anew(table, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return printable("\n".join(line for line in lines if line))


def _counted_anew(name: str, text: str) -> str:
    """`name = 7` with its numbers from 0 on, in the order in which they appear."""
    numbers: dict[str, int] = {}
    return re.sub(rf"\b{name} = (\d+)", lambda found: f"{name} = {numbers.setdefault(found[1], len(numbers))}", text)
