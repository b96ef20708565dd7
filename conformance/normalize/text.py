"""The text of a snapshot: facts, the joint graph (with gradients), then the kernels and `call` of each module.

Also the normalised text of an FX graph, and how a facts block is written and read back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from conformance.capture.model import Capture
from conformance.normalize.wrapper_modules import normalise, printable

#: The least width of the names in a facts block.
COLUMN = 12
#: Of a comment that says where in the user's code a node comes from: notes on recomputation, then the beginning.
_AGAIN = r"ac_graph_id: \d+(?: - \w+)? |recompute: \w+ "
_ORIGINS = "File: |No stacktrace found|Annotation: |code: |Backward of forward node: "


def snapshot_text(capture: Capture, facts_lines: Mapping[str, str], device: str) -> str:
    """The text that a snapshot stores of a capture.

    `facts_lines`: name → value, of one line or several. `device`: the target's device type (cpu, cuda, xpu).
    """
    parts = [facts_block(facts_lines)]
    if capture.joint_graph:
        parts.append(f"--- joint graph\n{normalised_graph(capture.joint_graph, device)}")
    counts: Counter[str] = Counter()
    for module in capture.modules:
        counts[module.kind] += 1
        number = f" {counts[module.kind]}" if counts[module.kind] > 1 else ""  # after a graph break
        parts.append(f"--- {module.kind}{number}\n{_without_kind(normalise(module.code, device))}")
    return "\n".join(part for part in parts if part)


def canonical_text(text: str) -> str:
    """Removes blanks at the end of lines and empty lines around the text. The result ends with one newline."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def _without_kind(text: str) -> str:
    """Removes the line with the module's kind: the heading has it."""
    return re.sub(r"\A# AOT ID: \w+\n\n?", "", text)


def facts_block(lines: Mapping[str, str]) -> str:
    """`kernels     1: flip`: each name padded to a column. The further lines of a value are indented to that column.

    Raises ValueError for a name that `parse_facts` could not read: empty, with blanks, or beginning with `---`.
    """
    width = _width(lines)
    out = []
    for name, value in lines.items():
        if not name or re.search(r"\s", name) or name.startswith("---"):
            raise ValueError(f"a fact is called {name!r}: a name is one word and does not begin with ---")
        first, *rest = [line for line in printable(value).splitlines() if line] or [""]
        out.append(f"{name:<{width}}{first}".rstrip())
        out += [f"{'':<{width}}{line}".rstrip() for line in rest]
    return "".join(line + "\n" for line in out)


def split_facts(text: str) -> tuple[str, str]:
    """A snapshot's text as (facts block, graphs and code)."""
    if text.lstrip("\n").startswith("--- "):
        return "", text
    facts, _, rest = text.partition("\n\n")
    return facts, rest


def parse_facts(text: str) -> dict[str, str]:
    """The facts of a snapshot's text: name → value. A value of several lines has newlines."""
    lines = [line for line in split_facts(text)[0].splitlines() if line]
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


def normalised_graph(text: str, device: str) -> str:
    """The text of an FX graph, printed by torch, without what varies between machines.

    Removes colours, files and source lines, the index of a device, and the `= None` behind the last use of a value.
    Writes `device` for the target's own device type. Renumbers the tables of users' Triton kernels. Operators,
    arguments, dtypes and shapes stay.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(rf"^[ \t]*#[ \t]*(?:{_AGAIN})?({_ORIGINS}).*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(rf"(?<=\]){device}(?::\d+)?(?=\")", "device", text)
    text = re.sub(rf"(?:torch\.)?\bdevice\(type='{device}'(?:, index=\d+)?\)", "device", text)
    text = re.sub(r"(device\(type='\w+'), index=\d+\)", r"\1)", text)
    text = re.sub(r";  (?:\w+ = )+None", "", text)
    for table in ("kernel_idx", "constant_args_idx"):  # of users' Triton kernels: torch counts them through the process
        text = _renumbered(table, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return printable("\n".join(line for line in lines if line))


def _renumbered(name: str, text: str) -> str:
    """Renumbers each `name = 7` from 0, by first appearance."""
    numbers: dict[str, int] = {}
    return re.sub(rf"\b{name} = (\d+)", lambda found: f"{name} = {numbers.setdefault(found[1], len(numbers))}", text)
