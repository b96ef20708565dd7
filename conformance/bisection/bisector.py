"""Bisects: finds the commit that changed the answer of each case, and what in it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from conformance.bisection import changed_functions, commit_search
from conformance.bisection.changed_functions import ChangedFunction
from conformance.bisection.commit_search import Found, NoCauseError, Verdict
from conformance.bisection.history import History
from conformance.bisection.observation import Observation, Question
from conformance.bisection.observer import Observed, Observer
from conformance.bisection.saved_observations import SavedObservations
from conformance.devices.environment import torch_build
from conformance.errors import ConformanceError
from conformance.sources.laid_tree import lay
from conformance.sources.torch_source import TorchSource


class BisectError(ConformanceError, RuntimeError):
    """Nothing can be searched: an end does not fit the binaries, or both ends give the same answer."""


@dataclass(frozen=True)
class Cause:
    """What was found for a case. `before`, `after`: what was observed on the two sides of the commits in `found`.

    `functions`: without those if several commits are left.
    """

    case: str
    found: Found
    before: Observation
    after: Observation
    functions: list[ChangedFunction] = field(default_factory=list)
    is_last_answer: bool = True


class Bisector:
    """Bisects the history of a repository. `say`: prints a line of progress."""

    def __init__(self, history: History, observer: Observer, question: Question, say: Callable[[str], None]) -> None:
        self.history, self.observer, self.question, self._say = history, observer, question, say
        self._source = TorchSource(history.repository)
        self.saved = SavedObservations(history.repository, observer)
        self.reused = len(self.saved)
        self.processes = 0

    def observe(self, commit: str, name: str = "") -> Observed:
        """What was observed at a commit, now or before. `name`: what a line of progress calls it."""
        observed = self.saved.get(commit)
        if observed is None:
            tree = lay(self._source.at(commit), torch_build())
            ranges = changed_functions.ranges(self.history) if commit == self.history.bad else None
            observed = self.observer.observe(tree.folder, ranges=ranges)
            self.processes += 1
            self.saved.add(commit, observed)
        self._say_observed(commit, observed, name)
        return observed

    def _say_observed(self, commit: str, observed: Observed, name: str) -> None:
        if name:
            misfits = {each.misfit for each in observed.observations.values() if each.misfit}
            about = f"does not fit: {min(misfits)}" if misfits else self.history.subject(commit)
            self._say(f"  {name:7} {commit[:12]}  {about}")

    def check_ends(self, case: str) -> None:
        """Raises BisectError where the two ends cannot be compared, or give the same answer; and QuestionError."""
        answers = {}
        for name, commit in (("good", self.history.good), ("bad", self.history.bad)):
            observed = self.observe(commit).observations[case]
            if observed.misfit:
                raise BisectError(
                    f"--{name} {commit[:12]} cannot be observed with torch {torch_build().version}: {observed.misfit}; "
                    "name a commit nearer to that release, or install a torch nearer to the commit"
                )
            answers[name] = self.question.answer(observed)
        if self.question.is_same(answers["good"], answers["bad"]):
            values = dict.fromkeys(answers.values())
            shown = f": {' and '.join(values)}" if "\n" not in answers["good"] else ""
            raise BisectError(
                f"{case}: {self.question.name} of --good and --bad are the same{shown}: there is nothing to find"
            )

    def find(self, case: str) -> Cause:
        """Finds the commit for one case. Raises BisectError, and what observing raises."""
        history = self.history
        ends = [self.observe(end).observations[case] for end in (history.good, history.bad)]
        wanted, has_error = self.question.answer(ends[0]), any(each.error for each in ends)

        def verdict(commit: str) -> Verdict:
            observed = self.observe(commit).observations[case]
            reason = observed.misfit
            if observed.error and not has_error:  # broken for a time, by another commit than the one that is wanted
                reason = f"compiling raises {observed.error}"
            if reason:
                self._say(f"  skipped {commit[:12]}  {history.subject(commit)}: {reason}")
                return "skipped"
            result: Verdict = "good" if self.question.is_same(wanted, self.question.answer(observed)) else "changed"
            self._say(f"  {result:7} {commit[:12]}  {history.subject(commit)}")
            return result

        def is_relevant(commit: str, one: str, other: str) -> bool:
            return any(history.touches(commit, self.observe(end).functions, end) for end in (one, self._end(other)))

        try:
            found = commit_search.search(history.commits, history.good, verdict, is_relevant)
        except NoCauseError:
            raise BisectError(
                f"{case}: {self.question.name} of the two ends differ, and no commit between changes Python code that "
                "the case executes: the compile is not repeatable, or it reads something that is no Python"
            ) from None
        after = self.observe(self._end(found.after)).observations[case]
        last = self.question.answer(self.observe(history.bad).observations[case])
        before = self.observe(found.before).observations[case]
        functions = self._functions(found) if len(found.suspects) == 1 else []
        return Cause(case, found, before, after, functions, self.question.is_same(last, self.question.answer(after)))

    def _end(self, commit: str) -> str:
        """The last commit that changes torch behaves as `bad`, which is measured already."""
        return self.history.bad if commit == self.history.commits[-1] else commit

    def _functions(self, found: Found) -> list[ChangedFunction]:
        """The functions that the commit changes and that are executed before or after it."""
        after = self._end(found.after)
        ends = [(end, self.observe(end).functions) for end in (found.before, after)]
        lines = self.observe(self.history.bad).lines
        return changed_functions.executed_functions(self.history, found.suspects[0], ends, lines)
