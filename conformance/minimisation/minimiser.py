"""Minimises a program: makes the trials, counts them, and finds the part of the compiler that makes it wrong."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.capture.compiler_parts import LeftOut
from conformance.errors import ConformanceError
from conformance.minimisation.compiler_part import FoundPart, Tried, Try, find_part
from conformance.minimisation.failure import Failure
from conformance.minimisation.program import EagerRun, Program
from conformance.minimisation.reduction import OutOfTrialsError, Reduction
from conformance.minimisation.trial import BACKENDS, INDUCTOR, Call, Outcome, Trials
from conformance.numerics.problem import Problem
from conformance.words import pluralise


class NotFailingError(ConformanceError, RuntimeError):
    """No captured graph fails in the way that was asked for. The message says what it does."""

    status = 1


@dataclass(frozen=True)
class Minimised:
    """`program` fails with `problem`, which is `failure`. `backend`: the first one that fails. `before`: how many steps
    it had. `raises`: the exception that eager raises. `trials`, `seconds`: what it took.
    """

    program: Program
    problem: Problem
    failure: Failure
    backend: str
    before: int
    raises: str
    trials: int
    seconds: float


class Minimiser:
    """`most`: how many trials a reduction may make. `say`: prints a line of progress."""

    def __init__(self, trials: Trials, say: Callable[[str], None], most: int = 120) -> None:
        self._trials, self._say, self._most = trials, say, most
        self._end = most

    def failing(
        self, programs: Sequence[Program], wanted: Failure | None, calls: Sequence[Call] = ()
    ) -> tuple[Program, Problem]:
        """The first program that fails, in the wanted way, or in any. Raises NotFailingError.

        `calls`: ways to check, in order. The trials keep the one with which the program fails. None: theirs.
        """
        seen: list[str] = []
        for call, program in itertools.product(calls or [self._trials.call], programs):
            self._trials.call = call
            outcome = self._run(program, INDUCTOR)
            if problem := _found(outcome, wanted):
                return program, problem
            seen += [outcome.error] if outcome.error else [problem.name for problem in outcome.problems]
        graphs = "the graph" if len(programs) == 1 else f"each of the {len(programs)} graphs"
        how = f"does not show this failure ({wanted})" if wanted else "is right"
        more = f"; seen: {'; '.join(dict.fromkeys(seen))}" if seen else ""
        raise NotFailingError(
            f"{graphs} that Dynamo captures {how}, called once with these values{more}. So the failure, if there is "
            "one, is Dynamo's, or needs several graphs or several calls"
        )

    def minimise(self, program: Program, problem: Problem) -> Minimised:
        """The smallest program found that fails as `program` does with `problem`."""
        start, trials, before = time.perf_counter(), self._trials.count, len(program.steps)
        self._end = trials + self._most
        failure, raises = Failure.of(problem), _raises(program)
        backend = next((each for each in BACKENDS if failure.found_in(self._run(program, each).problems)), INDUCTOR)
        self._say(f"{len(program.steps)} steps fail: {failure}; the first backend that does is {backend}")

        def fails(candidate: Program) -> Problem | None:
            if _raises(candidate) != raises:
                return None
            if self._trials.count >= self._end:
                raise OutOfTrialsError
            outcome = self._run(candidate, backend)
            found = failure.found_in(outcome.problems)
            count = len(candidate.steps)
            self._say(f"{pluralise(count, 'step')}: {'fails too' if found else _why_not(outcome)}")
            return found

        reduction = Reduction(program, problem, fails)
        reduction.run()
        if backend != INDUCTOR:
            last = failure.found_in(self._run(reduction.program, INDUCTOR).problems)
            reduction.problem = last or reduction.problem
        return Minimised(
            reduction.program,
            reduction.problem,
            failure,
            backend,
            before,
            raises,
            self._trials.count - trials,
            time.perf_counter() - start,
        )

    def part(self, minimised: Minimised) -> FoundPart:
        """The part of the compiler that makes the smallest program wrong, and what switches the failure off."""
        from conformance.capture.compiler_options import is_option

        return find_part(self._try(minimised.program, minimised.failure), is_option)

    def part_of_program(self, program: Program, problem: Problem) -> FoundPart:
        """The part that makes a program wrong which nobody has reduced."""
        return find_part(self._try(program, Failure.of(problem)), lambda _option: False)

    def _try(self, program: Program, failure: Failure) -> Try:
        raises = _raises(program)

        def try_(backend: str, which: LeftOut | None, options: Mapping[str, Any]) -> Tried:
            outcome = self._trials.run(program, backend, which, {**options}, raises=raises)
            if failure.found_in(outcome.problems):
                return Tried(True, outcome.applied)
            return Tried(None if outcome.error or outcome.problems else False, outcome.applied)

        return try_

    def _run(self, program: Program, backend: str) -> Outcome:
        return self._trials.run(program, backend, raises=_raises(program))


def _found(outcome: Outcome, wanted: Failure | None) -> Problem | None:
    return wanted.found_in(outcome.problems) if wanted else next(iter(outcome.problems), None)


def _why_not(outcome: Outcome) -> str:
    if outcome.error:
        return f"nothing is compared: {outcome.error}"
    return f"another failure: {Failure.of(outcome.problems[0])}" if outcome.problems else "right"


def _raises(program: Program) -> str:
    raised = EagerRun(program).raised
    return type(raised).__name__ if raised is not None else ""
