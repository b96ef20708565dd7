"""The corpus: programs that executed lines of the compiler which no case and no program before them executed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

#: Programs of a round. Those of round n may begin with a program of the corpus of the rounds before n - 1: so a
#: search need not wait for its slowest program, and the corpus depends on no order in time.
ROUND = 40


class Corpus:
    """Notes what programs executed, from any thread."""

    def __init__(self) -> None:
        self._lines: dict[int, set[str]] = defaultdict(set)
        self._open: set[tuple[int, str]] = set()
        self._members: dict[int, tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def begin(self, number: int, target: str) -> None:
        """Program `number` is going to be checked on a target."""
        with self._lock:
            self._open.add((number, target))

    def end(self, number: int, target: str, lines: Iterable[str]) -> None:
        """Program `number` was checked on a target, and executed these lines; see coverage/new_lines.py."""
        with self._lock:
            self._lines[number].update(lines)
            self._open.discard((number, target))

    def is_ready(self, number: int) -> bool:
        """Whether all is known that the program with a number depends on."""
        first = _first_unknown(number)
        with self._lock:
            return all(open_number >= first for open_number, _ in self._open)

    def members(self, number: int) -> tuple[int, ...]:
        """The numbers of the programs that program `number` may begin with. Ask when it is ready."""
        first = _first_unknown(number)
        with self._lock:
            if first not in self._members:
                seen: set[str] = set()
                members = []
                for each in sorted(each for each in self._lines if each < first):
                    if self._lines[each] - seen:
                        members.append(each)
                        seen |= self._lines[each]
                self._members[first] = tuple(members)
            return self._members[first]


def _first_unknown(number: int) -> int:
    return max(number // ROUND - 1, 0) * ROUND
