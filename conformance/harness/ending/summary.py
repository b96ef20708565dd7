"""Checks the declarations of all collected cases before a run, and sums up all items after it, in one process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import facts
from conformance.cases import option_names, tolerance_policy
from conformance.cases.bit_variants import DIFFER, MAY_DIFFER, PROPERTIES, SAME
from conformance.cases.case import Case, CaseError
from conformance.devices.cache_folder import cache_folder
from conformance.devices.environment import triton_version
from conformance.expectations import known_failures, requirements
from conformance.expectations.known_failure_entry import ItemCheck, KnownFailureError
from conformance.facts.binary import INCOMPLETE
from conformance.harness import accounting
from conformance.harness.ending.audit_report import audit_report
from conformance.harness.ending.work_lines import work_lines
from conformance.harness.item.known_failure_lines import known_failure_lines
from conformance.harness.overlay import chosen_options, subset_selection, written_failures
from conformance.harness.overlay import report as overlay_report
from conformance.harness.session import Session
from conformance.numerics.problem import Problem
from conformance.review import overview
from conformance.review.cost_causes import WORK
from conformance.review.review import Review, review_items, run_text_finder, stored_text_finder
from conformance.settings import option_name
from conformance.storage import binaries, compiled_objects, passed_numerics
from conformance.storage.accept import accept_snapshots, note_source
from conformance.storage.check_results import Outcome
from conformance.storage.installed import refuse_installed
from conformance.storage.locations import overlay_root
from conformance.storage.runs import EVIDENCE, ItemRecord, Run, RunError
from conformance.storage.unused import all_collected
from conformance.words import pluralise

#: How many drifting items and unused snapshots the summary names.
_NAMED = 3


@dataclass
class Summary:
    """What pytest prints at the end of a run: `lines`, then `ending`, which is nearest to the prompt.

    `ending`: the causes of changes, the failures that they do not explain, and one line that accounts for all items.
    `review`: the changed texts and their causes. `failed`: the run fails for a reason that is no item's, such as
    snapshots that could not be written.
    """

    run: Run
    lines: list[str] = field(default_factory=list)
    ending: list[str] = field(default_factory=list)
    failed: bool = False
    review: Review = field(default_factory=Review)


def refuse_wrong_declarations(
    session: Session,
    cases: Sequence[Case],
    folders: Iterable[Path] = (),
    combined: Callable[[], Iterable[Case]] = tuple,
    *,
    all_imported: bool = True,
) -> None:
    """Refuses two cases with one id, wrong requirements, wrong numerics, and known failures of unknown cases.

    `cases`: all cases of the collected files, selected or not. `folders`: those of which every file was collected.
    `combined`: returns the cases of --thorough, which known failures may name too. It is called only if needed.
    `all_imported`: whether every file could be imported, so that a name of no case is wrong.
    Raises CaseError, DeclarationError, KnownFailureError, SubsetError, InstalledError, or SettingsError for an unknown
    backend.
    """
    if session.settings.backend != "inductor":
        session.set_up_torch()  # only torch knows its backends; otherwise collecting needs no torch
    by_id: dict[str, Case] = {}
    for case in cases:
        first = by_id.setdefault(case.id, case)
        if first is not case:
            raise CaseError(
                f"two cases have the id {first.id}: in {first.file} and in {case.file}; "
                "an id begins with the file's name, so rename one of the files"
            )
    _refuse_installed_stores(session, cases)
    targets = session.machine.targets()
    if session.settings.subset and all_imported:
        subset_selection.refuse_unknown_lines(session.settings.subset, cases, list(targets), combined)
    requirements.validate(cases, targets.values(), facts.NAMES)
    tolerance_policy.validate(cases)
    if not session.settings.backend_option:
        option_names.validate(cases)
    collected = [folder.resolve() for folder in folders]
    overlays = session.settings.overlay.known_failures
    complete: list[str] = []
    for folder, files in _files_by_folder(session, cases).items():
        entries = known_failures.load(folder, overlays=overlays)
        if all_collected(folder.resolve().parent, collected):
            ids = [case.id for case in (*cases, *combined()) if case.file in files]
            (known_failures.load(folder) if overlays else entries).validate(ids, targets)
            complete += ids
    operators = {case.partition("/")[0] for case in complete}
    known_failures.load(None, overlays=overlays).validate(complete, targets, operators)


def _files_by_folder(session: Session, cases: Iterable[Case]) -> dict[Path, set[Path]]:
    """The folder of known failures → the files of the cases that it is for."""
    found: dict[Path, set[Path]] = defaultdict(set)
    for file, case in {case.file: case for case in cases}.items():
        found[session.known_failures_folder(case)].add(file)
    return found


def _refuse_installed_stores(session: Session, cases: Iterable[Case]) -> None:
    """Raises InstalledError where this run would store something in an installed package."""
    if session.settings.accept:
        for root in {session.store(case).root for case in cases}:
            refuse_installed(root)


def finish(session: Session, *, interrupted: bool = False) -> Summary:
    """Sums up a run, and accepts its texts if the user asked for it. `interrupted`: not all items ran."""
    summary = Summary(session.run)
    items = list(session.run.items())
    passed_numerics.merge(session.passed_numerics.folder)
    compiled_objects.prune_if_due(cache_folder())
    less = accounting.shortcomings(session.run, items)
    if not items:
        summary.lines += less
        return summary
    summary.lines += _count_lines(items) + less
    if all(map(_is_skipped, items)) and not interrupted:
        summary.lines.append("nothing was checked, so this run fails; the reasons:")
        summary.lines += sorted({result.detail for item in items for result in item.checks.values()})
        summary.failed = True
    elif less and session.settings.strict_run:
        summary.lines.append(
            f"{option_name('strict-run')}: this run fails, because it compared less than it was asked to"
        )
        summary.failed = True
    summary.lines += chosen_options.summary_lines(items, session.settings)
    if session.settings.audit:
        _add_audit(items, summary)
    summary.review = _review(session, items)  # before anything is accepted
    if session.settings.accept and interrupted:
        summary.lines.append("the run was interrupted: nothing was accepted; run the same command again")
    elif session.settings.accept:
        _accept(session, items, summary)
    summary.lines += _drift_lines(items)
    summary.lines += [notice for item in items for notice in item.notices]
    if missed := sum(len(item.missed) for item in items):
        summary.lines.append(
            f"missed optimisations: {missed}; `python -m conformance list --missed` lists them with Inductor's reasons"
        )
    summary.lines += unconfirmed_lines(items)
    summary.lines += _fp64_lines(items)
    summary.lines += work_lines(items, summary.review, session.settings.baseline or "")
    summary.lines += _unused_snapshot_lines(session.run)
    summary.lines += overlay_report.summary_lines(items, session.settings.overlay)
    _add_known_failures(items, summary, session)  # before new ones are written
    _write_known_failures(session, items, summary, interrupted=interrupted)
    summary.ending = _ending(session, items, summary.review)
    return summary


def _add_audit(items: Sequence[ItemRecord], summary: Summary) -> None:
    report = audit_report(items)
    summary.lines += report.lines
    summary.failed |= report.failed
    try:
        summary.run.write_audit(report.data)
    except RunError as error:
        summary.lines.append(str(error))
        summary.failed = True


def refuse_contradictions(summary: Summary, failed_node_ids: Sequence[str]) -> None:
    """Lets the run fail if pytest's reports and the run's record disagree about which items failed."""
    lines = accounting.contradictions(summary.run, list(summary.run.items()), failed_node_ids)
    if lines:
        summary.lines += [*lines[:_NAMED], *([f"and {len(lines) - _NAMED} more items"] if len(lines) > _NAMED else [])]
        summary.failed = True


def _ending(session: Session, items: Sequence[ItemRecord], review: Review) -> list[str]:
    """The causes, the failures that they do not explain, and the line that accounts for all items."""
    unstored = accounting.unstored_lines(items)
    lines = [*overview.summary_lines(review), *accounting.failure_lines(items, review), *unstored]
    last = accounting.account(session.run, items)
    failed = sum(accounting.ending(item) == "failed" for item in items)
    if review.causes and not session.settings.accept:
        baseline = f" --baseline {session.settings.baseline}" if session.baseline else ""
        last += f"; next: python -m conformance review{baseline}"
    elif failed and not unstored:
        last += f"; next: run reproduce.py of a failed item below {session.run.folder / 'failures'}"
    return [*lines, last]


def _count_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many items there were, how they were captured, and what their numerics and binaries come from."""
    captured = Counter(item.mode for item in items if item.facts)
    counts = [f"{count} {mode}" for mode, count in sorted(captured.items())]
    if skipped := sum(map(_is_skipped, items)):
        counts.append(f"{skipped} skipped")
    lines = [f"{pluralise(len(items), 'item')}: {', '.join(counts) or 'none compiled'}"]
    ran = [item for item in items if not item.reused]
    passed = Counter(item.evidence for item in ran if item.outcome("numerics") is Outcome.PASSED)
    if passed:
        short = _shortfall_lines(ran)
        counts = [f"{passed[kind]} {kind}" for kind in EVIDENCE if passed[kind]]
        lines.append("numerics passed: " + ", ".join(counts) + (f" ({short[0]})" if short else ""))
        lines += short[1:]
    if shared := sum(bool(item.shared_with) for item in items):
        count = pluralise(shared, "item")
        lines.append(
            f"shared the capture of another target: {count}; {option_name('captures')} alone captures each target"
        )
    if reused := len(items) - len(ran):
        count = f"{reused:,} item{'s' * (reused != 1)}"
        lines.append(f"numerics passed before and were not run: {count}; {option_name('fresh')} runs them")
    return lines + accounting.left_out_lines(items) + _binary_lines(items) + _bits_lines(items)


def _shortfall_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many emulated items have a kernel that ran too little, then the first of them; none without such items."""
    short = [item for item in items if item.shortfalls and item.outcome("numerics") is Outcome.PASSED]
    if not short:
        return []
    named = [f"ran little: {item.name}: {'; '.join(item.shortfalls)}" for item in short]
    more = len(named) - _NAMED
    return [
        f"{len(short)} of them with a kernel that ran only one program or only one iteration of a loop",
        *named[:_NAMED],
        *(
            [f"ran little: {pluralise(more, 'more item')}; `shortfalls` in the item's record says which kernel"]
            if more > 0
            else []
        ),
    ]


def _binary_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many items' kernels were compiled to binaries, or as far as Triton can."""
    compiled = [item for item in items if item.binaries]
    incomplete = sum(INCOMPLETE in item.binaries[0] for item in compiled)
    complete = len(compiled) - incomplete
    lines = [f"compiled to binaries: every kernel of {pluralise(complete, 'item')}"] if complete else []
    if incomplete:
        count = pluralise(incomplete, "item")
        lines.append(f"compiled as far as Triton {triton_version()} can: every kernel of {count}")
    return lines


def _bits_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many items keep each property of same bits, of those where it is defined."""
    counts: Counter[tuple[str, str]] = Counter()
    for item in items:
        counts.update((kind, verdict["word"]) for kind, verdict in item.same_bits.items())
    if not counts:
        return []
    defined = {kind: sum(counts[kind, word] for word in (SAME, DIFFER, MAY_DIFFER)) for kind in PROPERTIES}
    return ["same bits: " + ", ".join(f"{kind} {counts[kind, SAME]} of {defined[kind]}" for kind in PROPERTIES)]


def _is_skipped(item: ItemRecord) -> bool:
    return all(result.outcome in (Outcome.SKIPPED, Outcome.EXCLUDED) for result in item.checks.values())


def _review(session: Session, items: Sequence[ItemRecord]) -> Review:
    """Compares items that failed the check "code", drifted, are to be accepted, or have costs that the baseline may
    have too, with the baseline or the store.
    """
    accepts_all = session.settings.accept == "all"
    changed = [
        item
        for item in items
        if item.drift
        or item.outcome("code") is Outcome.FAILED
        or (accepts_all and "code" in item.checks)
        or (session.baseline and WORK in item.fact_values)
    ]
    if session.baseline:
        return review_items(changed, run_text_finder(session.baseline, session.settings.baseline or ""))
    finder = stored_text_finder(list(session.machine.targets()), session.settings.overlay.store)
    return review_items(changed, finder)


def _write_known_failures(
    session: Session, items: Sequence[ItemRecord], summary: Summary, *, interrupted: bool
) -> None:
    if not session.settings.write_known_failures:
        return
    if interrupted:
        summary.lines.append("the run was interrupted: no known failures were written; run the same command again")
        return
    lines, went_wrong = written_failures.write(items, session.settings)
    summary.lines += lines
    summary.failed |= went_wrong


def _accept(session: Session, items: Sequence[ItemRecord], summary: Summary) -> None:
    """Accepts code, unless "binary" is the only check, and binaries, if they were checked."""
    targets = [each.name for each in session.machine.targets().values() if each.stores_code and not each.local]
    overlay = session.settings.overlay.store
    if session.settings.checks != ("binary",):
        accepted = accept_snapshots(items, session.settings.accept, targets, overlay)
        note_source(session.run, overlay)
        summary.lines += accepted.lines()
        summary.failed |= bool(accepted.problems)
    try:
        with_binaries = [name for name in targets if session.machine.targets()[name].device == "cuda"]
        root = str(overlay_root(overlay)) if overlay else ""
        summary.lines += binaries.accept_binaries(items, session.settings.accept, with_binaries, root)
    except binaries.BinaryFileError as error:
        summary.lines.append(f"not accepted: {error}")
        summary.failed = True


def _drift_lines(items: Sequence[ItemRecord]) -> list[str]:
    drift = [f"drift: {item.name}: {item.drift}" for item in items if item.drift]
    more = len(drift) - _NAMED
    return drift[:_NAMED] + ([f"drift: {pluralise(more, 'more item')}"] if more > 0 else [])


def unconfirmed_lines(items: Sequence[ItemRecord]) -> list[str]:
    """How many of the compared texts for GPUs no real GPU has confirmed yet; none where all are confirmed."""
    confirmed = [item.confirmed for item in items if item.confirmed is not None]
    missing = len(confirmed) - sum(confirmed)
    if not missing:
        return []
    count = f"{missing} of the {len(confirmed)} compared GPU texts"
    command = f"EXPECTTEST_ACCEPT=new pytest {option_name('verify-deviceless')}"
    return [f"no real GPU has confirmed {count}; on such a GPU, run {command}"]


def _fp64_lines(items: Sequence[ItemRecord]) -> list[str]:
    """For each target without double precision: how many items need it, and why the first ones do."""
    lines = []
    for target, count in Counter(item.target for item in items if item.needs_fp64).items():
        ran = sum(item.target == target for item in items)
        lines.append(f"{target} has no double precision (fp64); {count} of its {ran} items need it and would raise:")
        named = [item for item in items if item.target == target and item.needs_fp64]
        lines += [f"  {item.case}: {item.needs_fp64}" for item in named[:_NAMED]]
    return lines


def _unused_snapshot_lines(run: Run) -> list[str]:
    lines = []
    for names, command in run.unused_snapshots():
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        verb = "belongs" if len(names) == 1 else "belong"
        lines.append(f"{pluralise(len(names), 'snapshot')} {verb} to no case: {shown}; {command}")
    return lines


def _add_known_failures(items: Sequence[ItemRecord], summary: Summary, session: Session) -> None:
    """Adds known failures, and problems that they name, that excused nothing although their items ran.

    After them come those that excused something, by severity. Items themselves report stale entries. With another
    seed, a known failure of numerics need not occur, and with --inductor-config none need occur.
    """
    settings = session.settings
    may_be_missing = bool(settings.inductor_config)
    excused = []
    folders = sorted({item.known for item in items if item.known})
    layers: list[tuple[Path | None, Sequence[ItemRecord], Sequence[str]]]
    layers = [(Path(folder), [item for item in items if item.known == folder], ()) for folder in folders]
    layers += [(None, items, (layer,)) for layer in settings.overlay.known_failures]
    for folder, group, overlays in layers:
        try:
            strict = session.strict_release(folder)
            failures = known_failures.load(folder, settings.backend_option, strict, overlays, settings.strict_torch)
        except KnownFailureError as error:  # the file has changed since the run began
            summary.lines.append(f"known failure: {error}")
            summary.failed = True
            continue
        excused.append((group, failures))
        failures.add_used(_checks_with(group, Outcome.KNOWN))
        ran = [
            *(each for each in _checks_with(group, Outcome.FAILED) if each[1] != "numerics" or not settings.seed),
            *((item.case, "compile", item.target) for item in group if item.text),
        ]
        modes = {(item.case, item.target): item.mode for item in group}
        unused = failures.unused_entries(ran, group[0].torch, modes)
        if not settings.seed:
            unused += failures.unused_problems(_ran_numerics(group), group[0].torch, session.machine.foreign_targets())
        for problem in () if may_be_missing else unused:
            summary.lines.append(f"known failure: {problem.message}")
            summary.failed |= problem.severity == "error"
    summary.lines += known_failure_lines(excused)


def _ran_numerics(items: Sequence[ItemRecord]) -> dict[tuple[str, str], known_failures.RanNumerics]:
    """(case, target) → its numerics, if they ran and nothing else excused them."""
    ran = (Outcome.PASSED, Outcome.KNOWN)
    return {
        (item.case, item.target): known_failures.RanNumerics(
            item.mode, [Problem.from_json(each) for each in item.problems]
        )
        for item in items
        if item.outcome("numerics") in ran
    }


def _checks_with(items: Sequence[ItemRecord], outcome: Outcome) -> list[ItemCheck]:
    return [
        (item.case, check, item.target)
        for item in items
        for check, result in item.checks.items()
        if result.outcome is outcome
    ]
