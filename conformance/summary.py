"""The end of a run, and what is refused before it begins: one process looks at all items together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance import requirements
from conformance.acceptance import accept
from conformance.case import CaseError
from conformance.checks import Item
from conformance.run import ItemRecord, Run
from conformance.session import Session


@dataclass
class Summary:
    """`lines`: what to say at the end. `failed`: what no item could fail for, such as snapshots not written."""

    run: Run
    lines: list[str] = field(default_factory=list)
    failed: bool = False


def refuse_wrong_declarations(session: Session, items: Sequence[Item]) -> None:
    """Two cases with one id, requirements that can never apply, malformed known failures.

    Raises CaseError, RequirementDeclarationError or KnownFailureError.
    """
    cases = {item.case.id: item.case for item in items}
    for item in items:
        first = cases[item.case.id]
        if first is not item.case:
            raise CaseError(f"two cases have the id {first.id}: in {first.file} and in {item.case.file}")
    requirements.validate(cases.values(), session.machine.targets().values())
    for case in cases.values():
        session.known(case)


def finish(session: Session) -> Summary:
    """Accepts where asked to, and counts what the items came to."""
    summary = Summary(session.run)
    items = list(session.run.items())
    if not items:
        return summary
    modes = Counter(f"{item.mode}" for item in items)
    summary.lines.append(
        f"{len(items)} items: " + ", ".join(f"{count} {mode}" for mode, count in sorted(modes.items()))
    )
    if session.settings.accept:
        accepted = accept(items, session.settings.accept, list(session.machine.targets()))
        summary.lines += accepted.lines()
        summary.failed = bool(accepted.problems)
    summary.lines += _remarks(items)
    failed = [item for item in items if any(said.startswith("failed") for said in item.checks.values())]
    if failed:
        summary.lines.append(f"evidence of {len(failed)} failing items: {session.run.folder / 'failures'}")
    return summary


def _remarks(items: Sequence[ItemRecord]) -> list[str]:
    """Drift and notices, which fail nothing."""
    drift = [f"drift: {item.name}: {item.drift}" for item in items if item.drift]
    shown = drift[:10] + ([f"drift: {len(drift) - 10} more items"] if len(drift) > 10 else [])
    return shown + [notice for item in items for notice in item.notices]
