"""How a program fails, and whether another one fails in the same way. Nothing here imports torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.numerics.problem import Problem, WrongValues

#: An error of at least this share of the former one is of the same order.
SAME_ORDER = 0.1
_NUMBER_TO_NUMBER = "number → number"


@dataclass(frozen=True)
class Failure:
    """`kinds`: of the tensors: output, gradient, input; none for the whole call. `rule`: see Problem.

    `change`: for values, the kind of the wrong elements: "NaN → number", where 0 is a number too; of several kinds, the
    most frequent one that is not "number → number". `error`: in ulp, for numbers. `text`: what was raised, without
    numbers.
    """

    kinds: tuple[str, ...]
    rule: str
    change: str = ""
    error: float = 0.0
    text: str = ""

    @classmethod
    def of(cls, problem: Problem) -> Failure:
        values = problem.wrong_values
        change, error = "", 0.0
        if values is not None:
            others = {name: count for name, count in _changes(values).items() if name != _NUMBER_TO_NUMBER}
            change = max(others, key=lambda name: others[name]) if others else _NUMBER_TO_NUMBER
            error = 0.0 if others else problem.error
        text = _without_numbers(problem.text) if problem.rule == "raises" else ""
        return cls(_kinds(problem.tensor), problem.rule, change, error, text)

    def found_in(self, problems: Iterable[Problem]) -> Problem | None:
        """The first problem that is this failure."""
        return next((problem for problem in problems if self._is(problem)), None)

    def _is(self, problem: Problem) -> bool:
        other = Failure.of(problem)
        if (self.kinds, self.rule, self.text) != (other.kinds, other.rule, other.text):
            return False
        if not self.change:
            return True
        changes = _changes(problem.wrong_values) if problem.wrong_values is not None else {}
        large_enough = self.change != _NUMBER_TO_NUMBER or problem.error >= self.error * SAME_ORDER
        return self.change in changes and large_enough

    def __str__(self) -> str:
        where = " and ".join(self.kinds) or "the call"
        return ": ".join(part for part in (where, self.rule, self.change or self.text) if part)


def _changes(values: WrongValues) -> dict[str, int]:
    """The changes with their numbers of elements; 0 and -0 count as numbers."""
    found: dict[str, int] = {}
    for change, count in values.changes.items():
        name = " → ".join("number" if kind in ("0", "-0") else kind for kind in change.split(" → "))
        found[name] = found.get(name, 0) + count
    return found


def _kinds(tensor: str) -> tuple[str, ...]:
    """`output[1]` → output; "output, x" → both kinds."""
    kinds = (
        "gradient" if name.startswith("gradient of ") else "output" if name.startswith("output") else "input"
        for name in tensor.split(", ")
        if name
    )
    return tuple(sorted(set(kinds)))


def _without_numbers(text: str) -> str:
    """The first line of what was raised, with one N for each list of numbers and for each number of a name.

    Of an exception of eager, the type alone is kept. Which inputs were changed before is left out.
    """
    line = text.strip().splitlines()[0].partition(", after it changed ")[0] if text.strip() else ""
    line = re.sub(
        r"^(?:eager raises|numerics\['raises'\] is) '?(\w+).*, and (\w+) raised",
        r"eager raises \1, and \2 raised",
        line,
    )
    line = re.sub(r"0x[0-9a-f]+|\d+", "N", line)
    return re.sub(r"[\[(]?N(?:, ?N)*,?[\])]?", "N", line)
