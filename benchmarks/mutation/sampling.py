"""Which mutants there are, which of them some item executes, and the order in which a seed takes them."""

from __future__ import annotations

import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType

from mutation.making import Mutant, Tree
from mutation.reached import Reached
from mutation.sources import Source


@dataclass
class Population:
    """All mutants that some item executes, by area. `unreached`: how many others there are, by area."""

    by_area: dict[str, list[Mutant]]
    unreached: dict[str, int]
    trees: dict[str, Tree]
    reached: Reached

    def rows(self, mutant: Mutant) -> list[int]:
        """The items that execute the mutant's line."""
        return _rows(self.trees[mutant.file].source, self.reached, mutant.line, mutant.statement)

    def order(self, seed: int) -> Iterator[Mutant]:
        """All mutants in the order of a seed: the areas take turns, and inside each area the operators do."""
        return _in_turn([_in_turn(_by_operator(mutants, f"{seed} {area}")) for area, mutants in self.by_area.items()])


def _by_operator(mutants: Sequence[Mutant], seed: str) -> list[list[Mutant]]:
    """A shuffled list for each operator, the lists shuffled too."""
    queues: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        queues[mutant.operator].append(mutant)
    source = random.Random(seed)
    for queue in queues.values():
        source.shuffle(queue)
    result = list(queues.values())
    source.shuffle(result)
    return result


def _in_turn(queues: Iterable[Iterable[Mutant]]) -> Iterator[Mutant]:
    return (mutant for turn in itertools.zip_longest(*queues) for mutant in turn if mutant is not None)


def population(sources: Sequence[Source], reached: Reached) -> Population:
    """Makes all mutants. It takes ten seconds."""
    by_area: dict[str, list[Mutant]] = defaultdict(list)
    unreached: dict[str, int] = defaultdict(int)
    trees = {}
    for source in sources:
        tree = trees[source.name] = Tree(source)
        executed = functools.cache(lambda line, statement, source=source: bool(_rows(source, reached, line, statement)))
        by_area[source.area] += tree.mutants(executed)
        unreached[source.area] += tree.skipped
    return Population(dict(by_area), dict(unreached), trees, reached)


def _rows(source: Source, reached: Reached, line: int, statement: int) -> list[int]:
    """A line without an instruction of its own, such as one with a part of a constant, counts as its statement's."""
    file = str(source.path)
    return reached.of_line(file, line if line in _lines_with_code(source) else statement)


@functools.cache
def _lines_with_code(source: Source) -> frozenset[int]:
    code = SourceFileLoader(source.path.stem, str(source.path)).get_code(source.path.stem)
    lines: set[int] = set()
    pending = [code]
    while pending:
        each = pending.pop()
        lines.update(line for _, _, line in each.co_lines() if line)
        pending += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return frozenset(lines)
