"""How a snapshot is laid out in its file: each distinct part of the texts once, under those that it belongs to.

A text consists of its facts, its joint graph, and for each module its kernels, one by one, and its call. Its parts
stand in the file in their own order; parts in a row that belong to the same texts share a header. So what targets or
versions have in common is there once, and a file in which they differ throughout is one text after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Key = tuple[str, str]  # (torch "2.13", target "cuda_sm90")
_Name = TypeVar("_Name")

#: Where a part begins: a section, a kernel, or the calls of a module (which reach to the section's end).
_MARKER = r"(?:--- |# kernel |def \w+\(args\):)"
_SEAM = re.compile(rf"(?<!\n)\n\n(?={_MARKER})")
_BEGINS = re.compile(_MARKER)

Place = tuple[int, bool, int]  # section, whether it is past the kernels, number


def parts(text: str) -> list[tuple[Place, str]]:
    """A text (canonical: one newline at its end) in its parts, their places ascending; an empty line joins them."""
    pieces = _SEAM.split(text[:-1])
    if len(set(marks(pieces))) < len(list(marks(pieces))):
        return [((0, False, 0), text[:-1])]  # which of two parts of one name is meant could not be told
    found: list[tuple[Place, str]] = []
    section, calls, number = 0, False, 0
    for piece in pieces:
        if piece.startswith("--- "):
            section, calls, number = section + 1, False, 0
        elif piece.startswith("def ") and not calls and found:
            calls, number = True, 0
        found.append(((section, calls, number), piece))
        number += 1
    return found


def marks(chunks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What the parts of a text are called: section and, within it, kernel or call. None should be there twice."""
    section = ""
    for chunk in chunks:
        for piece in _SEAM.split(chunk):
            first, _, rest = piece.partition("\n")
            if first.startswith("--- "):
                section = first
                yield section, ""
                first = rest.partition("\n")[0]
            if continues(first):
                yield section, first


def continues(chunk: str) -> bool:
    """Whether it may follow other parts of a text."""
    return bool(_BEGINS.match(chunk))


def blocks(texts: Mapping[Key, str], order: Callable[[Key], Any]) -> list[tuple[list[Key], str]]:
    """The file's blocks: (those it belongs to, in order; its content). Each text is its blocks' content in order."""
    keys = sorted(texts, key=order)
    split = {text: parts(text) for text in set(texts.values())}
    owners: dict[tuple[Place, str], list[Key]] = {}
    for key in keys:
        for part in split[texts[key]]:
            owners.setdefault(part, []).append(key)
    rank = {key: number for number, key in enumerate(keys)}
    position = dict.fromkeys(keys, 0)
    waiting = set(owners)
    found: list[tuple[list[Key], list[str]]] = []
    while waiting:
        heads = {split[texts[key]][at] for key, at in position.items() if at < len(split[texts[key]])}
        ready = [head for head in heads if all(split[texts[key]][position[key]] == head for key in owners[head])]
        last = found[-1][0] if found else None
        part = min(ready, key=lambda head: (owners[head] != last, rank[owners[head][0]], head))
        waiting.remove(part)
        for key in owners[part]:
            position[key] += 1
        if owners[part] == last:
            found[-1][1].append(part[1])
        else:
            found.append((owners[part], [part[1]]))
    return [(owner, "\n\n".join(content) + "\n") for owner, content in found]


def versions_alike(keys: Sequence[Key], note: Callable[[str, list[str]], _Name]) -> list[tuple[list[str], _Name]]:
    """Versions with the same targets and note share a line: (versions, note), in the order of `keys`."""
    targets: dict[str, list[str]] = {}
    for version, target in keys:
        targets.setdefault(version, []).append(target)
    lines: dict[_Name, list[str]] = {}
    for version in sorted(targets, key=number):
        lines.setdefault(note(version, targets[version]), []).append(version)
    return [(versions, said) for said, versions in lines.items()]


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
