"""The known failures of one item: what they excuse, and which of their problems do not occur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.devices.targets import Target
from conformance.expectations import known_failures
from conformance.harness.session import Session
from conformance.settings import KNOWN_CAUSES, option_name

if TYPE_CHECKING:
    from conformance.expectations.known_failure_entry import KnownFailure
    from conformance.expectations.known_failures import EntryProblem, KnownFailures
    from conformance.numerics.problem import Problem


class ItemKnownFailures:
    """Raises KnownFailureError for a malformed file, from each method."""

    def __init__(self, session: Session, case: Case, target: Target) -> None:
        self._session, self._case, self._target = session, case, target

    def entry_that_leaves_out(self, check: str) -> KnownFailure | None:
        """The known failure that says that the check must not run."""
        return self._all.entry_that_leaves_out(self._case.id, check, *self._run)

    def entry_for(self, check: str, error: Exception) -> KnownFailure | None:
        """The known failure that excuses an error of a check."""
        name, torch, mode = self._run
        message = f"{type(error).__name__}: {error}"
        return self._all.match(self._case.id, check, name, torch, message, mode, problems_of(error))

    def idle_problem(self, error: Exception) -> EntryProblem | None:
        """For excused numerics: a problem that an entry names and that does not occur."""
        name, torch, mode = self._run
        problems = problems_of(error)
        return self._all.idle_problem(self._case.id, name, torch, problems, mode) if problems else None

    def stale_entry(self, check: str) -> EntryProblem | None:
        """For a check that passed: the known failure that says that it fails."""
        return self._all.stale_entry(self._case.id, check, *self._run)

    def reason(self, check: str) -> str:
        """Why the check is known to fail; "" if it is not."""
        return self._all.reason(self._case.id, check, *self._run)

    def text_of_new_problems(self, error: Exception) -> str:
        """A paragraph that lists the problems which no entry names, if entries name others; else ""."""
        name, torch, mode = self._run
        problems = problems_of(error)
        new = self._all.unexcused(self._case.id, name, torch, problems, mode)
        if len(new) == len(problems):
            return ""
        listed = "".join(f"  {problem.name}\n" for problem in new)
        return f"known failures name {len(problems) - len(new)} of {len(problems)} problems, and not these:\n{listed}\n"

    def text_of_causes(self, error: Exception) -> str:
        """A line for each known cause that some new problem shows: bugs that any case may meet."""
        name, torch, mode = self._run
        new, lines = self.new_problems(error), []
        for folder in sorted(KNOWN_CAUSES.iterdir()):
            for cause in known_failures.load(None, overlays=[str(folder)]).failures:
                applies = name in cause.targets and cause.applies_to(torch, mode)
                if applies and any(each.matches(problem) for each in cause.excuses for problem in new):
                    right = f"; right: {cause.triage.right}" if cause.triage else ""
                    lines.append(
                        f"known cause: {cause.reason} ({cause.issue}{right}); "
                        f"`{option_name('known-failures')} {folder.name}` takes it for all cases\n"
                    )
        return "".join(lines)

    def new_problems(self, error: Exception) -> list[Problem]:
        """The numerics problems of an error that no entry names."""
        name, torch, mode = self._run
        return self._all.unexcused(self._case.id, name, torch, problems_of(error), mode)

    def unexcused(self, problems: Sequence[Problem]) -> list[Problem]:
        """The numerics problems that no entry excuses, by naming them or by the error that compiled raises."""
        name, torch, mode = self._run
        new = self._all.unexcused(self._case.id, name, torch, problems, mode)
        errors = self._all.errors(self._case.id, "numerics", name, torch, mode)
        return [each for each in new if each.rule != "raises" or not any(error in each.text for error in errors)]

    @property
    def _all(self) -> KnownFailures:
        return self._session.known_failures_of(self._case)

    @property
    def _run(self) -> tuple[str, str, str]:
        return self._target.name, self._session.torch, self._session.mode(self._target)


def problems_of(error: Exception) -> Sequence[Problem]:
    """The problems of a NumericsError; none of another error."""
    problems: Sequence[Problem] = getattr(error, "problems", ())
    return problems
