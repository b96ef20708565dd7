"""The kernels of two captures, compared as sets: which kernel text both have, and which only one has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conformance.terminal import diff_line


@dataclass(frozen=True)
class KernelSets:
    """Kernels by name, in the order of the code. A name is there as often as its kernel.

    `same`: kernels of the first capture with a kernel of the same text in the second one. `first`, `second`: those that
    only this capture has.
    """

    same: list[str]
    first: list[str]
    second: list[str]

    @property
    def differ(self) -> bool:
        return bool(self.first or self.second)


def compared_kernels(first: Iterable[tuple[str, str]], second: Iterable[tuple[str, str]]) -> KernelSets:
    """Compares two lists of (name, text); see normalize.wrapper_modules.kernel_texts."""
    first, second = list(first), list(second)
    both = Counter(text for _, text in first) & Counter(text for _, text in second)
    same, only_first = _divided(first, both)
    _, only_second = _divided(second, both)
    return KernelSets(same, only_first, only_second)


def lines(sets: KernelSets) -> Iterator[str]:
    """Yields a line for each kernel, with how often it is there. Marks: - only in the first, + only in the second."""
    for mark, names in ((" ", sets.same), ("-", sets.first), ("+", sets.second)):
        for name, times in Counter(names).items():
            yield diff_line(f"{mark} {name}{f' ({times} times)' if times > 1 else ''}")


def _divided(kernels: Iterable[tuple[str, str]], both: Counter[str]) -> tuple[list[str], list[str]]:
    """The names of the kernels that both have, and those of the others."""
    left = Counter(both)
    same, only = [], []
    for name, text in kernels:
        if left[text]:
            left[text] -= 1
            same.append(name)
        else:
            only.append(name)
    return same, only
