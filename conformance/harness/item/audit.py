"""The audit of one item: the verdict on each opt-out of its case, for the run's record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conformance.cases.opt_outs import opt_outs

if TYPE_CHECKING:
    from conformance.cases.case import Case
    from conformance.devices.targets import Target
    from conformance.harness.item.known_failures import ItemKnownFailures
    from conformance.numerics.audit import Judgement
    from conformance.numerics.problem import Problem

NEEDED, IDLE, NOT_JUDGED = "needed", "idle", "not judged"
#: Why an opt-out was not judged whose reason begins with opt_outs.ON_DEVICE.
ONLY_ON_DEVICE = "only a run on the device can judge it"


def verdicts(
    case: Case,
    target: Target,
    how: str,
    judgements: Sequence[Judgement],
    known_failures: ItemKnownFailures,
    reason: str,
) -> list[dict[str, Any]]:
    """One entry for each opt-out: as ItemRecord.audit has it.

    `how`: "native" or "emulated". Problems that known failures excuse do not count. `reason`: why an opt-out without a
    judgement has none.
    """
    judged = {judgement.opt_out.declaration: judgement for judgement in judgements}
    entries = []
    for opt_out in opt_outs(case, target.name, target.device):
        judgement = judged.get(opt_out.declaration)
        why = reason if judgement is None else judgement.not_judged
        problems = known_failures.unexcused(judgement.problems) if judgement else []
        if not why and not problems and opt_out.needs_device and how != "native":
            why = ONLY_ON_DEVICE
        entries.append({
            "file": os.path.relpath(case.file),
            "function": f"test_{case.name}",
            "labels": "-".join(case.labels),
            "declaration": opt_out.declaration,
            "reason": opt_out.reason,
            "how": how,
            "verdict": NOT_JUDGED if why else NEEDED if problems else IDLE,
            "excuses": [_excused(problem) for problem in problems],
            "why": why,
        })  # fmt: skip
    return entries


def _excused(problem: Problem) -> dict[str, Any]:
    values = problem.wrong_values
    return {
        "call": problem.call,
        "tensor": problem.tensor,
        "rule": problem.rule,
        "changes": list(values.changes) if values else [],
        "share": values.share if values else 0.0,
        "off_by": values.off_by if values else 0.0,
        "text": problem.text,
    }
