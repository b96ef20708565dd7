"""The end of a run, and what is refused before it begins: one process looks at all items together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import facts
from conformance.cases import numerics_policy
from conformance.cases.case import Case, CaseError
from conformance.devices.environment import triton_version
from conformance.expectations import known_failures, requirements
from conformance.facts.binary import PARTLY
from conformance.harness.session import Session
from conformance.review import overview
from conformance.review.review import Review, compared, of_run, stored
from conformance.storage import binaries
from conformance.storage.accept import accept
from conformance.storage.check_results import Outcome
from conformance.storage.runs import EVIDENCE, ItemRecord, Run
from conformance.storage.unused import all_collected


@dataclass
class Summary:
    """`lines`: what to say at the end. `failed`: what no item could fail for, such as snapshots not written.

    `review`: what differs, grouped.
    """

    run: Run
    lines: list[str] = field(default_factory=list)
    failed: bool = False
    review: Review = field(default_factory=Review)


def refuse_wrong_declarations(
    session: Session,
    cases: Sequence[Case],
    folders: Iterable[Path] = (),
    combined: Callable[[], Iterable[Case]] = tuple,
) -> None:
    """Two cases with one id, requirements that can never apply, malformed numerics, impossible known failures.

    `cases`: all of the files that were collected, selected or not. `folders`: those of which every file was collected.
    `combined`: those of --thorough, which known failures may name as well; called only where that matters.
    Raises CaseError, DeclarationError, KnownFailureError, or SettingsError for an unknown backend.
    """
    if session.settings.backend != "inductor":
        session.settle_torch()  # only it knows which backends there are; else, collecting needs no torch
    known: dict[str, Case] = {}
    for case in cases:
        first = known.setdefault(case.id, case)
        if first is not case:
            raise CaseError(
                f"two cases have the id {first.id}: in {first.file} and in {case.file}; "
                "an id begins with the file's name, so rename one of the files"
            )
    targets = session.machine.targets()
    requirements.validate(cases, targets.values(), facts.NAMES)
    numerics_policy.validate(cases)
    collected = [folder.resolve() for folder in folders]
    for folder in {session.known_folder(case) for case in cases}:
        failures = known_failures.load(folder)
        if all_collected(folder.resolve().parent, collected):
            ids = [case.id for case in (*cases, *combined()) if session.known_folder(case) == folder]
            failures.validate(ids, targets)


def finish(session: Session, *, interrupted: bool = False) -> Summary:
    """Accepts where asked to, and counts what the items came to. `interrupted`: not all that was asked for ran."""
    summary = Summary(session.run)
    items = list(session.run.items())
    if not items:
        return summary
    generated = Counter(item.mode for item in items if item.text)
    skipped = sum(_skipped(item) for item in items)
    counts = [f"{count} {mode}" for mode, count in sorted(generated.items())]
    counts += [f"{skipped} skipped"] if skipped else []
    summary.lines.append(f"{len(items)} items: {', '.join(counts) or 'none compiled'}")
    passed = Counter(item.evidence for item in items if item.outcome("numerics") is Outcome.PASSED)
    if passed:
        summary.lines.append("numerics: " + ", ".join(f"{passed[kind]} {kind}" for kind in EVIDENCE if passed[kind]))
    summary.lines += compiled_lines(items)
    if skipped == len(items) and not interrupted:
        summary.lines.append("nothing was checked, so this run fails")
        summary.lines += sorted({result.detail for item in items for result in item.checks.values()})
        summary.failed = True
    else:
        summary.lines += _impossible(items)
    summary.review = _differing(session, items)  # before anything is accepted
    summary.lines += overview.summary_lines(summary.review)
    if summary.review.groups and not session.settings.accept:
        against = f" --baseline {session.settings.baseline}" if session.baseline else ""
        summary.lines.append(f"review them, without running again: python -m conformance review{against}")
    if session.settings.accept and interrupted:
        summary.lines.append("the run was interrupted: nothing was accepted")
    elif session.settings.accept:
        _accept(session, items, summary)
    summary.lines += _remarks(items)
    if missed := sum(len(item.missed) for item in items):
        summary.lines.append(
            f"missed optimisations: {missed}; `python -m conformance missed` lists them with Inductor's reasons"
        )
    summary.lines += _unconfirmed(items)
    summary.lines += _unused(session.run)
    _say_idle(items, summary, session.settings.backend_option)
    failed = [item for item in items if any(result.outcome is Outcome.FAILED for result in item.checks.values())]
    if failed:
        summary.lines.append(f"evidence of {len(failed)} failing items: {session.run.folder / 'failures'}")
    return summary


def _accept(session: Session, items: Sequence[ItemRecord], summary: Summary) -> None:
    """Code, unless binaries alone were looked at, and binaries where they were."""
    targets = [target.name for target in session.machine.targets().values() if not target.local]
    if session.settings.checks != ("binary",):
        accepted = accept(items, session.settings.accept, targets)
        summary.lines += accepted.lines()
        summary.failed |= bool(accepted.problems)
    try:
        with_binaries = [name for name in targets if session.machine.targets()[name].device == "cuda"]
        summary.lines += binaries.accept(items, session.settings.accept, with_binaries)
    except binaries.BinaryFileError as error:
        summary.lines.append(f"not accepted: {error}")
        summary.failed = True


def _impossible(items: Sequence[ItemRecord]) -> list[str]:
    """Why something could not be generated at all, such as for a torch that replaces what capturing looks at."""
    return sorted({item.checks["compile"].detail for item in items if item.outcome("compile") is Outcome.SKIPPED})


def _differing(session: Session, items: Sequence[ItemRecord]) -> Review:
    """Items whose code is not what is stored, or what the baseline gave: they failed, drifted, or are accepted."""
    taken = session.settings.accept == "all"
    wanted = [
        item
        for item in items
        if item.drift or item.outcome("code") is Outcome.FAILED or (taken and "code" in item.checks)
    ]
    if session.baseline:
        return compared(wanted, of_run(session.baseline, session.settings.baseline or ""))
    return compared(wanted, stored(list(session.machine.targets())))


def _unconfirmed(items: Sequence[ItemRecord]) -> list[str]:
    """How much of the stored gpu code that was compared no real device has given yet."""
    compared = [item.confirmed for item in items if item.confirmed is not None]
    missing = len(compared) - sum(compared)
    return [f"not confirmed on hardware: {missing} of {len(compared)} gpu texts compared"] if missing else []


def _unused(run: Run) -> list[str]:
    names, prune = run.unused()
    if not names:
        return []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"{len(names)} unused snapshots, of cases that are gone: {', '.join(names[:3])}{more}; `{prune}`"]


def _skipped(item: ItemRecord) -> bool:
    return all(result.outcome is Outcome.SKIPPED for result in item.checks.values())


def _remarks(items: Sequence[ItemRecord]) -> list[str]:
    """Drift and notices, which fail nothing."""
    drift = [f"drift: {item.name}: {item.drift}" for item in items if item.drift]
    shown = drift[:3] + ([f"drift: {len(drift) - 3} more items"] if len(drift) > 3 else [])
    return shown + [notice for item in items for notice in item.notices]


def _say_idle(items: Sequence[ItemRecord], summary: Summary, way: str) -> None:
    """Known failures that excused nothing although their items ran; those that passed have said so themselves."""
    for folder in sorted({item.known for item in items if item.known}):
        mine = [item for item in items if item.known == folder]
        try:
            failures = known_failures.load(Path(folder), way)
        except known_failures.KnownFailureError as error:  # it has changed since the run began
            summary.lines.append(f"known failure: {error}")
            summary.failed = True
            continue
        failures.add_used(_of(mine, Outcome.KNOWN))
        ran = [*_of(mine, Outcome.FAILED), *((item.case, "compile", item.target) for item in mine if item.text)]
        modes = {(item.case, item.target): item.mode for item in mine}
        for problem in failures.unused_entries(ran, mine[0].torch, modes):
            summary.lines.append(f"known failure: {problem.message}")
            summary.failed |= problem.severity == "error"


def _of(items: Sequence[ItemRecord], outcome: Outcome) -> list[known_failures.ItemCheck]:
    return [
        (item.case, check, item.target)
        for item in items
        for check, result in item.checks.items()
        if result.outcome is outcome
    ]


def compiled_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many items compiled, and how far."""
    compiled = [item for item in items if item.binaries]
    short = sum(PARTLY in item.binaries[0] for item in compiled)
    said = [f"of {len(compiled) - short} items to a binary"] if short < len(compiled) else []
    said += [f"of {short} items as far as Triton {triton_version()} can"] if short else []
    return [f"compiled: every kernel {', '.join(said)}"] if said else []
