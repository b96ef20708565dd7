"""The format of a snapshot file: each part of a text is stored once, under the versions and targets that share it.

A text is the facts and the code of one target on one torch version. Its parts are: the facts, the joint graph, and for
each generated module its kernels and its call. This file holds the texts of four targets on three versions:

    == torch 2.11 2.13 2.15: cpu_avx2 cpu_avx512
    kernels       none
    vectorised    none: no loop

    == torch 2.11: cuda_sm80 cuda_sm90 (confirmed: cuda_sm90)
    == torch 2.13 2.15: cuda_sm80 cuda_sm90
    kernels       none

    == torch 2.11: cpu_avx2 cpu_avx512 cuda_sm80 cuda_sm90
    --- inference
    def call(args):
        arg0, = args
        assert_size_stride(arg0, (6, 8), (8, 1))
        return (reinterpret_tensor(arg0, (5, 8), (1, 6), 1), )

    == torch 2.13 2.15: cpu_avx2 cpu_avx512 cuda_sm80 cuda_sm90
    --- inference
    def call(args):
        arg0, = args
        return (reinterpret_tensor(arg0, (5, 8), (1, 6), 1), )

A block is one or more header lines (`== torch …`) and the lines below them. A header line names versions and targets;
the block belongs to every combination of them. To read the text of cpu_avx2 on torch 2.13, go from top to bottom and
take each block that belongs to this combination; join the blocks with an empty line:

    kernels       none
    vectorised    none: no loop

    --- inference
    def call(args):
        arg0, = args
        return (reinterpret_tensor(arg0, (5, 8), (1, 6), 1), )

`confirmed`, in the first block of a text, names the targets whose real hardware gave this text. If two texts have
nothing in common, each has blocks of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

TextKey = tuple[str, str]  # (torch version "2.13", target "cuda_sm90")
_Note = TypeVar("_Note")

#: A part begins with a section, with a kernel, or with the call of a module, which extends to the end of the section.
_PART_START = r"(?:--- |# kernel |def \w+\(args\):)"
_SEAM = re.compile(rf"(?<!\n)\n\n(?={_PART_START})")
_BEGINS = re.compile(_PART_START)

#: (number of the section, whether the part follows the kernels, number of the part): the order of parts.
Position = tuple[int, bool, int]


def split_parts(text: str) -> list[tuple[Position, str]]:
    """Splits a canonical text into its parts, in order. Joining the parts with an empty line gives the text again."""
    pieces = _SEAM.split(text[:-1])
    names = list(part_names(pieces))
    if len(set(names)) < len(names):
        return [((0, False, 0), text[:-1])]  # two parts with one name could not be told apart in the file
    parts: list[tuple[Position, str]] = []
    section, is_call, number = 0, False, 0
    for piece in pieces:
        if piece.startswith("--- "):
            section, is_call, number = section + 1, False, 0
        elif piece.startswith("def ") and not is_call and parts:
            is_call, number = True, 0
        parts.append(((section, is_call, number), piece))
        number += 1
    return parts


def part_names(blocks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the name of each part of a text: its section, and the kernel or call. A text has each name once."""
    section = ""
    for block in blocks:
        for piece in _SEAM.split(block):
            first, _, rest = piece.partition("\n")
            if first.startswith("--- "):
                section = first
                yield section, ""
                first = rest.partition("\n")[0]
            if can_follow(first):
                yield section, first


def can_follow(block: str) -> bool:
    """Returns whether a block can follow other blocks of a text: it begins with a section, a kernel or a call."""
    return bool(_BEGINS.match(block))


def shared_blocks(texts: Mapping[TextKey, str], order: Callable[[TextKey], Any]) -> list[tuple[list[TextKey], str]]:
    """Returns the blocks of a file: (the texts that a block belongs to, sorted by `order`; its content)."""
    keys = sorted(texts, key=order)
    parts = {text: split_parts(text) for text in set(texts.values())}
    owners: dict[tuple[Position, str], list[TextKey]] = {}
    for key in keys:
        for part in parts[texts[key]]:
            owners.setdefault(part, []).append(key)
    rank = {key: number for number, key in enumerate(keys)}
    done = dict.fromkeys(keys, 0)  # how many parts of each text are written
    waiting = set(owners)
    blocks: list[tuple[list[TextKey], list[str]]] = []
    while waiting:
        next_parts = {parts[texts[key]][at] for key, at in done.items() if at < len(parts[texts[key]])}
        ready = [part for part in next_parts if all(parts[texts[key]][done[key]] == part for key in owners[part])]
        last = blocks[-1][0] if blocks else None
        chosen = min(ready, key=lambda part: (owners[part] != last, rank[owners[part][0]], part))
        waiting.remove(chosen)
        for key in owners[chosen]:
            done[key] += 1
        if owners[chosen] == last:
            blocks[-1][1].append(chosen[1])
        else:
            blocks.append((owners[chosen], [chosen[1]]))
    return [(block_owners, "\n\n".join(contents) + "\n") for block_owners, contents in blocks]


def header_lines(keys: Sequence[TextKey], note: Callable[[str, list[str]], _Note]) -> list[tuple[list[str], _Note]]:
    """Returns (versions, note) for each header line of a block. `note`: version, its targets → the rest of the line.

    Versions with the same note share a line.
    """
    targets: dict[str, list[str]] = {}
    for version, target in keys:
        targets.setdefault(version, []).append(target)
    lines: dict[_Note, list[str]] = {}
    for version in sorted(targets, key=version_number):
        lines.setdefault(note(version, targets[version]), []).append(version)
    return [(versions, text) for text, versions in lines.items()]


def version_number(version: str) -> tuple[int, ...]:
    """Returns (2, 13) for "2.13"."""
    return tuple(int(part) for part in version.split("."))
