"""Blames: finds the functions of another torch whose new form makes the changes in what is generated for a case."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.bisection.delta_debugging import Outcome, minimise
from conformance.bisection.differences import Difference
from conformance.bisection.file_differences import delete_unused, file_differences
from conformance.bisection.observation import Observation, Question
from conformance.bisection.observer import Observed, Observer
from conformance.bisection.sides import Side, changed_files
from conformance.capture.json_worker import JsonWorker, WorkerError
from conformance.compiler.gpu_free_worker import COUNTING
from conformance.errors import ConformanceError
from conformance.words import pluralise

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")
#: Below torch/: what compiles. The rest makes the case's inputs, or is imported and not used.
_COMPILER = (
    "_inductor/",
    "_dynamo/",
    "_decomp/",
    "_functorch/",
    "_higher_order_ops/",
    "_meta_registrations.py",
    "_ops.py",
    "_prims",
    "_refs/",
    "_subclasses/",
    "fx/",
    "utils/_sympy/",
)
#: How many of the likeliest functions are tried alone, and how large the groups of likely ones are that are tried next.
_ALONE, _GROUPS = 16, (4, 8)
#: Of more functions, files that do not matter are left out first.
_FEW = 8
#: Which files as much as fits is taken from, one stage after the other: most changes of code come from Inductor alone,
#: and few from Dynamo, of which most does not fit the binaries of another torch.
_STAGES = (("_inductor/",), ("_decomp/", "_functorch/", "_prims", "_refs/", "_subclasses/", "fx/"), ("",))
#: Seconds for the first capture of the process, and for each later one.
_START_LIMIT, _LIMIT = 600.0, 180.0


#: Beginnings of paths below torch/.
Stage = tuple[str, ...]


class BlameError(ConformanceError, RuntimeError):
    """Nothing can be blamed: a side cannot be observed, or both give the same answer."""


@dataclass(frozen=True)
class Change:
    """One change of the answer. `title`: in one line.

    `removed`, `added`: lines of the code; or of a fact, numerics or requirements the answer. `is_order`: the same lines
    stand in another order.
    """

    title: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    is_order: bool = False


@dataclass(frozen=True)
class Blamed:
    """`functions`: the fewest whose new form makes the change; empty if `stopped` says why none was found.

    `is_cut_off`: the captures were used up before it was known that these are the fewest.
    `placeholders`: names that these functions use and that the binaries of the old torch lack.
    """

    change: Change
    functions: tuple[Difference, ...] = ()
    stopped: str = ""
    is_cut_off: bool = False
    placeholders: tuple[str, ...] = ()


@dataclass
class Blamer:
    """Blames what changed from `old` to `new`.

    `limit`: of captures for one change: so many to find functions that make it, and twice as many to leave out the
    others.
    """

    old: Side
    new: Side
    observer: Observer
    question: Question
    limit: int = 150
    captures: int = 0
    candidates: list[Difference] = field(default_factory=list)
    found: list[Difference] = field(default_factory=list)
    _members: list[tuple[str, str]] = field(default_factory=list)
    _sides: list[Observed] = field(default_factory=list)
    _answers: dict[tuple[str, frozenset[Difference]], Observation] = field(default_factory=dict)
    _shared_captures: int = 0
    _fitting: dict[tuple[str, Stage], list[Difference]] = field(default_factory=dict)
    _worker: JsonWorker | None = None

    def observe_sides(self) -> None:
        """Observes all cases with both, a process each. Raises BlameError where one cannot be observed."""
        for name, side in (("--old", self.old), ("--new", self.new)):
            observed = self.observer.observe(side.packages)
            for case, one in observed.observations.items():
                if one.misfit:
                    raise BlameError(f"{case}: {name} {side.name} cannot be observed: {one.misfit}")
            self._sides.append(observed)
        self.candidates = self._executed_differences(*self._sides)

    def observations(self, case: str) -> tuple[Observation, Observation]:
        """What was observed on both sides. Raises BlameError where the answers are the same."""
        old, new = (each.observations[case] for each in self._sides)
        if self.question.is_same(self.question.answer(old), self.question.answer(new)):
            raise BlameError(f"{case}: {self.question.name} of --old and --new are the same: there is nothing to blame")
        return old, new

    def _executed_differences(self, old: Observed, new: Observed) -> list[Difference]:
        """The differences of functions that one of the two executes, and of constants of modules that both import."""
        found = []
        for path in changed_files(self.old, self.new):
            if not path.startswith(_COMPILER) or (path not in old.functions and path not in new.functions):
                continue
            try:
                differ = file_differences(path, self.old.text(path), self.new.text(path))
            except SyntaxError:
                continue
            methods = (each for each in differ.found if each.kind == "new function" and "." in each.name)
            self._members += [(path, each.name) for each in methods]
            found += differ.executed(old.functions.get(path, ()), new.functions.get(path, ()))
        delete_unused()
        return found

    def changes(self, old: Observation, new: Observation) -> list[Change]:
        """What changed: of the code each hunk of its diff, equal ones once; else the answer as a whole."""
        if self.question.kind != "code" or old.error or new.error:
            one, other = (self.question.answer(each) for each in (old, new))
            return [Change(f"{self.question.name}: {one} → {other}", (one,), (other,))]
        return list(dict.fromkeys(_hunks(old.code, new.code)))

    def blame(self, case: str) -> Iterator[Blamed]:
        """Yields the functions of each change of a case. Raises BlameError as `observations` does."""
        old, new = self.observations(case)
        changes = self.changes(old, new)
        for change in changes:
            yield self.blame_change(case, change, old)

    def blame_change(self, case: str, change: Change, old: Observation) -> Blamed:
        """Blames one of `changes`. `old`: what was observed on the old side."""
        likely = sorted(self.candidates, key=lambda each: -_likeness(each, change))
        ranked = [*dict.fromkeys([*self.found, *likely])]  # what made another change comes first
        before, end = self.captures, self._own_captures + self.limit
        for part in self._parts(case, ranked, end):
            if self._own_captures >= end:
                break
            if self._shows(case, change, old, part) == "yes":
                return self._minimised(case, change, old, part)
        misfits = Counter(each.misfit for each in self._answers.values() if each.misfit)
        most = f"; the commonest reason not to fit: {misfits.most_common(1)[0][0]}" if misfits else ""
        spent = self.captures - before
        return Blamed(change, stopped=f"no group of functions that fits makes it, after {spent} captures{most}")

    def _minimised(self, case: str, change: Change, old: Observation, part: Sequence[Difference]) -> Blamed:
        """`part`: functions that make the change."""
        end = self._own_captures + 2 * self.limit
        is_cut_off = False

        def test(chosen: Sequence[Difference]) -> Outcome:
            nonlocal is_cut_off
            if self._own_captures >= end:
                is_cut_off = True
                return "unresolved"
            return self._shows(case, change, old, chosen)

        if len(part) > _FEW:  # whole files fit together better than functions of many files
            files = minimise(
                list(dict.fromkeys(each.path for each in part)),
                lambda chosen: test([each for each in part if each.path in set(chosen)]),
            )
            part = [each for each in part if each.path in set(files)]
        functions = tuple(minimise(part, test))
        self.found = list(dict.fromkeys([*functions, *self.found]))
        return Blamed(
            change, functions, is_cut_off=is_cut_off, placeholders=self._observe(case, functions).placeholders
        )

    @property
    def _own_captures(self) -> int:
        """Without those that found what fits, which all changes share."""
        return self.captures - self._shared_captures

    def _parts(self, case: str, ranked: Sequence[Difference], end: int) -> Iterator[Sequence[Difference]]:
        """What is tried, in this order: the likeliest alone and in groups, then as much of the new torch as fits.

        `end`: the number of own captures at which nothing more is captured for this change.
        """
        yield from ([one] for one in ranked[: _ALONE + len(self.found)])
        yield from (ranked[:size] for size in _GROUPS if size <= len(ranked))
        for stage in _STAGES:
            fitting = set(self._fitting_differences(case, stage))
            yield [each for each in ranked if each in fitting]
            unfit = [each for each in ranked if each not in fitting and each.path.startswith(stage)]
            if more := self._fitting_with(case, stage, unfit[:_ALONE], end):
                fitting |= more
                yield [each for each in ranked if each in fitting]

    def _fitting_with(self, case: str, stage: Stage, unfit: Sequence[Difference], end: int) -> set[Difference]:
        """Which of these fit now that all others are there: one may need what was added after it did not fit."""
        chosen, added = list(self._fitting_differences(case, stage)), set[Difference]()
        for each in unfit:
            if self._own_captures < end and self._fits(case, [*chosen, each]):
                chosen.append(each)
                added.add(each)
        self._fitting[case, stage] = chosen
        return added

    def _fits(self, case: str, chosen: Sequence[Difference]) -> bool:
        observed = self._observe(case, chosen)
        return not (observed.misfit or observed.error)

    def _fitting_differences(self, case: str, stage: Stage) -> list[Difference]:
        """As many of the candidates below `stage` as fit the old torch together, after those of the stage before it.

        The first case pays for it, others start from it.
        """
        if (case, stage) not in self._fitting:
            before, chosen = self.captures, list[Difference]()
            end = before + self.limit
            earlier = _STAGES[: _STAGES.index(stage)]
            chosen += self._fitting.get((case, earlier[-1]), []) if earlier else []
            of_others = next((each for (_, its_stage), each in self._fitting.items() if its_stage == stage), [])
            rest = of_others or [each for each in self.candidates if each.path.startswith(stage)]
            if not of_others:
                rest = [each for each in rest if not any(each.path.startswith(one) for one in earlier)]
            self._add_fitting(case, chosen, [each for each in rest if each not in chosen], end)
            self._fitting[case, stage] = chosen
            self._shared_captures += self.captures - before
        return self._fitting[case, stage]

    def _add_fitting(self, case: str, chosen: list[Difference], part: Sequence[Difference], end: int) -> None:
        """Adds those of `part` that fit with `chosen`: without what raised, else half by half.

        `end`: the number of captures at which nothing more is captured for this.
        """
        while part and self.captures < end:
            observed = self._observe(case, [*chosen, *part])
            if not (observed.misfit or observed.error):
                chosen.extend(part)
                return
            others = [each for each in part if each.title != observed.culprit]
            if len(others) == len(part):
                break
            part = others
        if len(part) > 1 and self.captures < end:
            half = len(part) // 2
            self._add_fitting(case, chosen, part[:half], end)
            self._add_fitting(case, chosen, part[half:], end)

    def _shows(self, case: str, change: Change, old: Observation, chosen: Sequence[Difference]) -> Outcome:
        observed = self._observe(case, chosen)
        if observed.misfit or (observed.error and not old.error and self.question.kind == "code"):
            return "unresolved"
        if self.question.kind != "code" or not observed.code:
            answer = self._as_on_a_side(case, change, self.question.answer(observed))
            return "yes" if self.question.is_same(change.added[0], answer) else "no"
        if change.is_order:
            moved = set(change.added)
            order = tuple(line for line in _stripped(observed.code) if line in moved)
            return "yes" if order == change.added else "no"
        now, before = Counter(_stripped(observed.code)), Counter(_stripped(old.code))
        gained = all(now[line] > before[line] for line in change.added)
        lost = all(now[line] < before[line] for line in change.removed)
        return "yes" if gained and lost else "no"

    def _as_on_a_side(self, case: str, change: Change, answer: str) -> str:
        """An answer of the process that exchanges functions as the process of a side gives it: that counts other calls.

        The two differ by what they count of the old torch.
        """
        here = self._observe(case, ()).facts.get(self.question.fact, "") if self.question.counts_work else ""
        if not all(each.isdecimal() for each in (here, answer, change.removed[0])):
            return answer
        return str(int(answer) - int(here) + int(change.removed[0]))

    def _observe(self, case: str, chosen: Sequence[Difference]) -> Observation:
        key = case, frozenset(chosen)
        if key not in self._answers:
            self.captures += 1
            request = {"case": case, "chosen": [each.to_json() for each in chosen]}
            try:
                self._answers[key] = Observation.from_json(self._running().ask(request, _LIMIT))
            except WorkerError as error:  # the process has ended; the next request starts another
                self._answers[key] = Observation(misfit=str(error).partition("\n")[0])
                self.close()
        return self._answers[key]

    def _running(self) -> JsonWorker:
        """The process that captures with exchanged functions, with the old side's torch."""
        if self._worker is None:
            path = os.pathsep.join(filter(None, [str(self.old.packages), os.environ.get("PYTHONPATH", "")]))
            environment = os.environ | (COUNTING if self.observer.work else {}) | {"PYTHONPATH": path}
            self._worker = JsonWorker("conformance.bisection.exchange_process", environment)
            request: dict[str, Any] = {
                "options": dataclasses.asdict(self.observer.options),
                "target": self.observer.target,
                "tables": list(self.observer.tables),
                "numerics": self.observer.numerics,
                "work": self.observer.work,
                "packages": str(self.new.packages),
                "members": self._members,
            }
            if misfit := self._worker.ask(request, _START_LIMIT).get("misfit"):
                raise BlameError(f"--old {self.old.name} cannot be observed: {misfit}")
        return self._worker

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _likeness(difference: Difference, change: Change) -> float:
    """How many rare words the lines of a function's difference share with those of a change."""
    words = {word for line in _only_different(change) for word in _WORD.findall(line)}
    shared = len(words & difference.words)
    place = {"_inductor/codegen": 0.5, "_inductor": 0.3, "_decomp": 0.2}
    return shared / (1 + len(difference.words) / 60) + next(
        (value for start, value in place.items() if difference.path.startswith(start)), 0.0
    )


def _only_different(change: Change) -> list[str]:
    """The parts of the lines that differ: a changed word within equal lines tells more than the rest of them."""
    old, new = (" ".join(lines) for lines in (change.removed, change.added))
    one, other = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    words = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            words += [*one[a:b], *other[c:d]]
    return words or [old, new]


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in code.splitlines()]


def _hunks(old: str, new: str) -> Iterator[Change]:
    """Each place where lines differ, and as one change the lines that only stand in another order."""
    one, other = old.splitlines(), new.splitlines()
    before, after = Counter(_stripped(old)), Counter(_stripped(new))
    moved: set[str] = set()
    for tag, i, j, k, m in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        removed, added = (tuple(line.strip() for line in lines if line.strip()) for lines in (one[i:j], other[k:m]))
        moved |= {line for line in (*removed, *added) if before[line] == after[line]}
        lost = tuple(each for each in removed if after[each] < before[each])
        gained = tuple(each for each in added if after[each] > before[each])
        if len(lost) == len(gained):  # line by line
            yield from (Change(_title([a], [b]), (a,), (b,)) for a, b in zip(lost, gained, strict=True))
        elif lost or gained:
            yield Change(_title(lost, gained), lost, gained)
    common = {line for line in before if line and before[line] == after[line]}
    orders = [tuple(line for line in _stripped(text) if line in common) for text in (old, new)]
    if orders[0] != orders[1]:
        yield Change(f"another order of {_shown(sorted(moved))}", orders[0], orders[1], is_order=True)


def _title(removed: Sequence[str], added: Sequence[str]) -> str:
    if not removed:
        return f"added {_shown(added)}"
    return f"{_shown(removed)} → {_shown(added)}" if added else f"removed {_shown(removed)}"


def _shown(lines: Sequence[str]) -> str:
    return f"`{lines[0]}`" + (f" and {pluralise(len(lines) - 1, 'more line')}" if len(lines) > 1 else "")
