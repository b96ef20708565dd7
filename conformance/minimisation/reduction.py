"""Reduces a program: fewer steps, then smaller and simpler inputs, while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from conformance.bisection.delta_debugging import Outcome as Answer
from conformance.bisection.delta_debugging import minimise
from conformance.minimisation.input_reduction import simpler_inputs
from conformance.minimisation.program import CutError, EagerRun, Program, names_of_tensor
from conformance.numerics.problem import Problem

#: Returns the problem if the program fails in the same way, else None. Raises OutOfTrialsError.
Fails = Callable[[Program], Problem | None]


class OutOfTrialsError(Exception):
    """No more trials may be made. The smallest program so far counts."""


@dataclass
class Reduction:
    """Reduces `program`, which fails with `problem`. Both are replaced by smaller ones as they are found.

    `fails`: makes a trial.
    """

    program: Program
    problem: Problem
    fails: Fails

    def run(self) -> None:
        """Reduces until nothing helps any more, or until there are no more trials."""
        try:
            self._reduce_changes()
            self._reduce_outputs()
            self._reduce_steps()
            self._reduce_outputs()
            self._simplify_inputs()
        except OutOfTrialsError:
            return

    def _try(self, program: Program) -> bool:
        problem = self.fails(program)
        if problem is not None:
            self.program, self.problem = program, problem
        return problem is not None

    def _reduce_changes(self) -> None:
        """Leaves out what changes between two calls, or a part of it."""
        between, context = self.program.between, self.program.context
        choices = [((), ""), (between, ""), ((), context), *(((line,), context) for line in between)]
        for lines, mode in dict.fromkeys(choices):
            if (lines, mode) != (between, context) and self._try(replace(self.program, between=lines, context=mode)):
                self._reduce_changes()
                return

    def _reduce_outputs(self) -> None:
        """Keeps only the output that fails, and what it needs; or drops one output after the other."""
        eager = EagerRun(self.program)
        failing = list(names_of_tensor(self.problem.tensor, self.program.outputs))
        for outputs in ([failing] if failing else []) + [[each] for each in self.program.outputs]:
            if len(self.program.outputs) == 1 and len(eager.needed_for(outputs)) == len(self.program.steps):
                return
            cut = _cut(eager, eager.needed_for(outputs), outputs)
            if cut is not None and len(cut.outputs) <= len(self.program.outputs) and self._try(cut):
                return

    def _reduce_steps(self) -> None:
        """First the end, then the beginning, in halves; then by delta debugging."""
        eager = EagerRun(self.program)
        names = [step.name for step in self.program.steps]
        if eager.raised is not None:  # what comes after the step that raises is not reached
            names = names[: next(place for place, name in enumerate(names) if name not in eager.values) + 1]
            self._attempt(eager, names)
        stop = self._least(len(names), lambda count: self._attempt(eager, names[:count]))
        names = names[:stop]
        dropped = len(names) - self._least(len(names), lambda count: self._attempt(eager, names[len(names) - count :]))
        names = names[dropped:]

        def answer(kept: Sequence[str]) -> Answer:
            cut = _cut(eager, kept)
            return "unresolved" if cut is None else "yes" if self._try(cut) else "no"

        if len(names) > 1:
            minimise(names, answer)

    def _least(self, count: int, fails: Callable[[int], bool]) -> int:
        """The least count from 1 that fails, if all above it do too: else some count that fails."""
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fails(middle) else (middle, high)
        return high

    def _attempt(self, eager: EagerRun, kept: Collection[str]) -> bool:
        cut = _cut(eager, kept)
        return cut is not None and self._try(cut)

    def _simplify_inputs(self) -> None:
        for simplify in simpler_inputs():
            while any(self._try(each) for each in simplify(self.program)):
                pass


def _cut(eager: EagerRun, kept: Collection[str], outputs: Sequence[str] | None = None) -> Program | None:
    try:
        cut = eager.cut(kept, outputs)
    except CutError:
        return None
    return cut if cut.steps else None
