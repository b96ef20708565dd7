"""Which lines of torch's files each item executes while it is compiled, and the text that it generates.

A trace function notes the lines. One process takes half of the items; each process warms up alike, so that what torch
makes once a process (the patterns of a pass, for example) is in no item's lines, as it is before a mutant is planted.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np


@contextmanager
def lines_traced(files: Sequence[str]) -> Iterator[set[tuple[str, int]]]:
    """Yields the set that gets (file, line) for each line of `files` that this process executes inside."""
    wanted = frozenset(files)
    seen: dict[CodeType, set[int]] = {}
    whole: dict[CodeType, int] = {}

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if code.co_filename not in wanted:
            return None
        lines = seen.get(code)
        if lines is None:
            lines = seen[code] = set()
            whole[code] = len({line for _, _, line in code.co_lines() if line})
        elif len(lines) >= whole[code]:
            return None

        def on_line(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any]:
            lines.add(frame.f_lineno)
            return on_line

        lines.add(frame.f_lineno)
        return on_line

    result: set[tuple[str, int]] = set()
    before = sys.gettrace()
    threading.settrace(on_call)
    sys.settrace(on_call)
    try:
        yield result
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
        result.update((code.co_filename, line) for code, lines in seen.items() for line in lines)


@dataclass
class Reached:
    """The map from lines to items.

    `items`: [case id, target name]. `texts`: of each item; "" where compiling it raises. `seconds`: that generating
    each took, traced. `digests`: of the file of each item's case.
    `bits`: a row for each item, a bit for each line; `first`: file → the number of its first line's bit.
    """

    items: list[tuple[str, str]]
    texts: list[str]
    seconds: list[float]
    digests: list[str]
    first: dict[str, int]
    bits: np.ndarray

    def of_line(self, file: str, line: int) -> list[int]:
        """The numbers of the items that execute a line, in order."""
        bit = self.first[file] + line
        return np.flatnonzero(self.bits[:, bit >> 3] & (128 >> (bit & 7))).tolist()

    def only(self, items: Collection[tuple[str, str]]) -> Reached:
        """The same map with these items alone."""
        wanted = set(items)
        rows = [row for row, item in enumerate(self.items) if item in wanted]
        return Reached(
            [self.items[row] for row in rows],
            [self.texts[row] for row in rows],
            [self.seconds[row] for row in rows],
            [self.digests[row] for row in rows],
            self.first,
            self.bits[rows],
        )

    def save(self, path: Path) -> None:
        data = {
            "items": self.items,
            "texts": self.texts,
            "seconds": self.seconds,
            "digests": self.digests,
            "first": self.first,
        }
        with gzip.open(path.with_suffix(".json.gz"), "wt", compresslevel=5) as file:
            json.dump(data, file)
        np.savez_compressed(path.with_suffix(".npz"), bits=self.bits)

    @classmethod
    def load(cls, path: Path) -> Reached:
        """Raises OSError or ValueError where the files are missing or broken."""
        with gzip.open(path.with_suffix(".json.gz"), "rt") as file:
            data = json.load(file)
        with np.load(path.with_suffix(".npz")) as arrays:
            bits = arrays["bits"]
        return cls([(case, target) for case, target in data.pop("items")], **data, bits=bits)


class Collector:
    """Puts a Reached together, an item after the other. `lengths`: file → number of its lines."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self.first: dict[str, int] = {}
        self._size = 0
        for file, length in lengths.items():
            self.first[file] = self._size
            self._size += length + 1
        self._rows: list[np.ndarray] = []
        self._items: list[tuple[str, str]] = []
        self._texts: list[str] = []
        self._seconds: list[float] = []
        self._digests: list[str] = []

    def add(self, item: tuple[str, str], text: str, seconds: float, digest: str, lines: set[tuple[str, int]]) -> None:
        row = np.zeros(self._size, dtype=bool)
        row[[self.first[file] + line for file, line in lines]] = True
        self._rows.append(np.packbits(row))
        self._items.append(item)
        self._texts.append(text)
        self._seconds.append(round(seconds, 3))
        self._digests.append(digest)

    def reached(self) -> Reached:
        bits = np.stack(self._rows) if self._rows else np.zeros((0, (self._size + 7) // 8), dtype=np.uint8)
        return Reached(self._items, self._texts, self._seconds, self._digests, self.first, bits)


def joined(parts: Sequence[Reached]) -> Reached:
    """One map of the maps of several processes."""
    order = sorted((item, part, row) for part, each in enumerate(parts) for row, item in enumerate(each.items))
    pick = [(parts[part], row) for _, part, row in order]
    return Reached(
        [item for item, _, _ in order],
        [part.texts[row] for part, row in pick],
        [part.seconds[row] for part, row in pick],
        [part.digests[row] for part, row in pick],
        parts[0].first,
        np.stack([part.bits[row] for part, row in pick]),
    )
