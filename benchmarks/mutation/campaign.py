"""Judges the mutants of a sample, several at a time, and gives them in the order of the sample."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mutation.judging import Judgement
from mutation.making import Mutant
from mutation.pool import Note, Pool

#: A slow mutant holds up those that follow it in the sample. So many of them for each worker are judged meanwhile.
AHEAD = 4


class Checks(Protocol):
    """What items do without a mutant: see Baseline."""

    passing: set[str]
    failing: set[str]

    def run(self, name: str, note: Note) -> dict[str, Any]: ...

    def add(self, name: str, result: dict[str, Any] | None, how: str) -> None: ...


def judged(
    mutants: Iterator[Mutant], judge: Callable[[Mutant, Note], dict[str, Any]], baseline: Checks, pool: Pool
) -> Iterator[tuple[Mutant, Judgement]]:
    """Yields mutants in order, each with its judgement.

    An item that found a mutant runs once without one. If it fails then too, the mutant is judged again; `judge` leaves
    out the items in `baseline.failing`.
    """
    with pool:
        campaign = _Campaign(pool, judge, baseline)
        following = 0
        waiting = enumerate(mutants)
        while True:
            while len(campaign.open) < AHEAD * pool.workers and (each := next(waiting, None)) is not None:
                campaign.add(*each)
            if not campaign.open:
                return
            campaign.step()
            while following in campaign.settled:
                yield campaign.open.pop(following), campaign.settled.pop(following)
                following += 1


class _Campaign:
    """`open`: mutants that were not given yet, by their number in the sample. `settled`: judgements of some of them."""

    def __init__(self, pool: Pool, judge: Callable[[Mutant, Note], dict[str, Any]], baseline: Checks) -> None:
        self._pool, self._judge, self._baseline = pool, judge, baseline
        self.open: dict[int, Mutant] = {}
        self.settled: dict[int, Judgement] = {}
        self._waiting_for: dict[str, list[tuple[int, Judgement]]] = {}

    def add(self, number: int, mutant: Mutant) -> None:
        self.open[number] = mutant
        self._pool.submit(number, functools.partial(self._judge, mutant))

    def step(self) -> None:
        """Waits until a job ends."""
        key, result, how = self._pool.next()
        if isinstance(key, int):
            self._settle(key, judgement(result, how))
        else:
            self._baseline.add(key, result, how)
            for number, found in self._waiting_for.pop(key):
                self._settle(number, found)

    def _settle(self, number: int, found: Judgement) -> None:
        """Takes a judgement, or runs the item that it rests on without a mutant, or judges again."""
        item = found.item
        if found.outcome != "found" or item in self._baseline.passing:
            self.settled[number] = found
        elif item in self._baseline.failing:
            self._pool.submit(number, functools.partial(self._judge, self.open[number]), first=True)
        else:
            if item not in self._waiting_for:
                self._pool.submit(item, functools.partial(self._baseline.run, item), first=True)
            self._waiting_for.setdefault(item, []).append((number, found))


def judgement(result: dict[str, Any] | None, how: str) -> Judgement:
    """What a process said, or, where it did not end by itself, what follows from that."""
    if result is None:
        raise RuntimeError(f"the process of a mutant ended before it said anything: {how}")
    found = Judgement(**result)
    if not how:
        return found
    found.message = f"{how} while {found.message}"
    if found.changed:
        found.outcome, found.how = "found", ["timeout" if how.startswith("killed") else "error"]
    else:
        found.outcome = "does not compile"
    return found
