"""The coverage map: file → line or branch → the items whose captures execute it. An item is a case on a target.

A set of items is an int whose bit n stands for item n. Most lines share their set with others.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.errors import ConformanceError


class CoverageError(ConformanceError, ValueError):
    """A map that cannot be read or does not fit, or a question that it has no answer to."""


@dataclass(frozen=True)
class MappedFunction:
    """A function or method as in sources/units.py. `first`, `last`: its lines in the map's torch."""

    name: str
    first: int
    last: int


@dataclass
class MappedFile:
    """One file. `blob`: git's id of its content. `lines`: number → the items that execute it.

    `once`: lines that a process executes once, while it imports torch or compiles for the first time: all items.
    `branches`, `branches_once`: likewise, of branches as in conditions.py.
    """

    blob: str
    functions: list[MappedFunction] = field(default_factory=list)
    lines: dict[int, int] = field(default_factory=dict)
    once: frozenset[int] = frozenset()
    branches: dict[int, int] = field(default_factory=dict)
    branches_once: frozenset[int] = frozenset()

    def function(self, name: str) -> MappedFunction | None:
        return next((each for each in self.functions if each.name == name), None)

    def items(self, numbers: Iterable[int]) -> int:
        """The items that execute any of the lines."""
        result = 0
        for number in numbers:
            result |= self.lines.get(number, 0)
        return result


@dataclass
class CoverageMap:
    """`torch`: its version. `source`: the name of the source that lay over it, or "".

    `items`: case id and target. `files`: path below torch/ → its lines.
    """

    torch: str
    source: str = ""
    items: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, MappedFile] = field(default_factory=dict)

    @property
    def all_items(self) -> int:
        return (1 << len(self.items)) - 1

    @property
    def targets(self) -> list[str]:
        return sorted({target for _, target in self.items})

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for case, _ in self.items))

    @property
    def name(self) -> str:
        """`torch 2.13.0`, for messages."""
        return f"torch {self.torch}" + (f" with the Python files of {self.source}" if self.source else "")

    def named(self, items: int) -> list[tuple[str, str]]:
        """The items of a set, in their order."""
        return [self.items[number] for number in bits(items)]

    def add(
        self,
        case: str,
        target: str,
        lines: Mapping[str, Iterable[int]],
        branches: Mapping[str, Iterable[int]] | None = None,
    ) -> None:
        """Adds an item, or replaces what it executes.

        `lines`, `branches`: path below torch/ → numbers; the map has these files.
        """
        known = self._numbers.get((case, target))
        if known is None:
            known = self._numbers[case, target] = len(self.items)
            self.items.append((case, target))
        else:
            self._forget(1 << known)
        for path, numbers in lines.items():
            _add(self.files[path].lines, numbers, 1 << known)
        for path, numbers in (branches or {}).items():
            _add(self.files[path].branches, numbers, 1 << known)

    def _forget(self, items: int) -> None:
        for file in self.files.values():
            file.lines = {number: left for number, each in file.lines.items() if (left := each & ~items)}
            file.branches = {number: left for number, each in file.branches.items() if (left := each & ~items)}

    def drop(self, items: Iterable[tuple[str, str]]) -> None:
        """Drops items, and numbers the others anew."""
        dropped = sorted((self._numbers[item] for item in items), reverse=True)

        @functools.cache
        def left_of(numbers: int) -> int:
            for each in dropped:
                numbers = numbers & ((1 << each) - 1) | numbers >> (each + 1) << each
            return numbers

        for file in self.files.values():
            file.lines = {number: left for number, each in file.lines.items() if (left := left_of(each))}
            file.branches = {number: left for number, each in file.branches.items() if (left := left_of(each))}
        for each in dropped:
            del self.items[each]
        self.__post_init__()

    def __post_init__(self) -> None:
        self._numbers = {item: number for number, item in enumerate(self.items)}

    def number(self, case: str, target: str) -> int | None:
        """The number of an item; None if the map has not recorded it."""
        return self._numbers.get((case, target))


def _add(mapped: dict[int, int], numbers: Iterable[int], items: int) -> None:
    for each in numbers:
        mapped[each] = mapped.get(each, 0) | items


def bits(items: int) -> Iterator[int]:
    """The numbers of the items of a set, ascending."""
    number = 0
    while items:
        skipped = (items & -items).bit_length() - 1
        number += skipped
        yield number
        items >>= skipped + 1
        number += 1


def ranges(numbers: Sequence[int]) -> str:
    """`3-5,9` of sorted numbers."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def numbers_of(text: str) -> list[int]:
    """The numbers of `3-5,9`."""
    result: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        result += range(int(first), int(last or first) + 1)
    return result
