"""A search over declared cases: those that may be parts, what is known about them, and what the search found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.cases.roots import STORAGE_ROOTS
from conformance.devices.targets import TargetError, excused_like
from conformance.errors import ConformanceError
from conformance.settings import Overlay
from conformance.storage.locations import KNOWN_FAILURES, storage_folder
from conformance.storage.runs import hidden_folder
from conformance.terminal import heading
from conformance.words import pluralise

if TYPE_CHECKING:
    from conformance.compiler.compiler import Compiler
    from conformance.expectations.known_failure_entry import KnownFailure
    from conformance.fuzzer.search import Search


class ExploreError(ConformanceError, ValueError):
    """Options or cases of which no search can be made. The message says why."""


def search_cases(
    compiler: Compiler,
    cases: Sequence[Case],
    words: Sequence[str],
    targets: Sequence[str],
    *,
    seed: int,
    minutes: float,
    jobs: int,
    folder: Path | None,
    overlay: Overlay,
    say: Callable[[str], None],
) -> int:
    """Makes programs of cases for `minutes`, and prints the findings. Returns how many the folder has.

    `words`: files, folders or patterns of ids that select at least the cases, for the process that makes programs.
    `targets`: names. `jobs`: how many programs are checked at a time. `folder`: of the search; by default
    .conformance/explored/SEED. `say`: prints a line.
    Raises ExploreError, TargetError, SearchError and TrialError.
    """
    from conformance.fuzzer.generator_process import Programs
    from conformance.fuzzer.parts import Parts
    from conformance.fuzzer.search import Search

    end = time.monotonic() + 60 * minutes
    chosen = [compiler.target(name) for name in targets]
    for target in chosen:
        if problem := compiler.generation_problem(target):
            raise TargetError(f"{target.name}: {problem}")
    known = _known_failures(cases, overlay.known_failures)
    excused = _excused(known)
    parts = Parts(cases, lambda case: _why_left_out(case, targets, excused))
    if not parts.ids:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in parts.left_out.items())
        raise ExploreError(f"no case can be a part of a program: {reasons or 'there is none'}")
    say(heading(f"# programs of {pluralise(len(parts.ids), 'case')} on {', '.join(targets)}"))
    if left_out := sum(parts.left_out.values()):
        say(f"{left_out} left out: {_counted(parts.left_out)}")
    search = Search(
        folder or hidden_folder(Path.cwd()) / "explored" / str(seed),
        seed,
        chosen,
        _functions_of_bugs(known),
        say,
        cases=len(parts.ids),
        native=[target.name for target in chosen if compiler.is_native(target, run=True)],
        tables=overlay.targets,
    )
    try:
        with Programs(seed, search.corpus, words, parts.ids) as programs:
            search.run(programs, end, jobs)
    finally:
        _report(search, say)
    return len(search.findings)


def _known_failures(cases: Sequence[Case], overlays: Sequence[str]) -> list[KnownFailure]:
    """The known failures of the package, of the cases' projects and of overlays that are for the installed torch."""
    import torch

    from conformance.expectations.known_failures import load

    package = [root / KNOWN_FAILURES for root in STORAGE_ROOTS]
    folders = dict.fromkeys([*package, *(storage_folder(case.file, KNOWN_FAILURES) for case in cases)])
    loaded = [*map(load, folders), load(None, overlays=overlays)]
    return [failure for each in loaded for failure in each.failures if failure.applies_to(torch.__version__)]


def _why_left_out(case: Case, names: Sequence[str], excused: Collection[tuple[str, str]]) -> str:
    """A case with a known failure would find it again, in every program that it is a part of."""
    known = any((case.id, target) in excused for name in names for target in (name, excused_like(name)))
    return "with a known failure" if known else ""


def _excused(known: Sequence[KnownFailure]) -> set[tuple[str, str]]:
    """Cases and targets whose numerics or compile are known to fail."""
    return {
        (case, target)
        for failure in known
        for case, check, target in failure.items()
        if check in ("numerics", "compile")
    }


def _functions_of_bugs(known: Sequence[KnownFailure]) -> dict[str, list[str]]:
    """Reason → the functions that the script of the bug calls."""
    from conformance.expectations.known_bugs import bugs
    from conformance.fuzzer.finding import called

    return {bug.reason: called(bug.reproduction) for bug in bugs(known)}


def _report(search: Search, say: Callable[[str], None]) -> None:
    say(f"\n{search.counts}")
    for shows, title in (
        (True, "shown by torch alone"),
        (None, "for a device that is not here"),
        (False, "not shown by torch alone: read them first, each may be a false alarm"),
    ):
        chosen = [each for each in search.findings if each.shows is shows]
        if chosen:
            say(f"\n{pluralise(len(chosen), 'finding')}, {title}:")
        for each in sorted(chosen, key=lambda finding: bool(finding.known)):
            say(f"  {search.folder / each.name}")
            say(f"    {each.title} ({pluralise(len(each.numbers), 'program')}); {each.blamed}")
            if each.known:
                say(f"    perhaps known: {each.known}")


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common(4))
