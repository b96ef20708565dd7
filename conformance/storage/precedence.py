"""Which record counts where several runs have an item: `merge` keeps it, and a report shows it.

One that ended counts before one that did not, one with a result before a skipped one, then the one with more evidence,
then that of the newer run, then that of the run that is named later.
"""

from __future__ import annotations

from typing import NamedTuple

from conformance.storage.check_results import Outcome
from conformance.storage.runs import NOT_ENDED, ItemRecord, Run

#: The evidence of a record, the strongest first.
EVIDENCE = ("native", "emulated", "compiled", "generated", "none")


class Precedence(NamedTuple):
    """What two records of one item are compared by; the greater one counts. `time`, `number`: of the run."""

    ended: bool
    has_result: bool
    evidence: int
    time: str
    number: int


def time_of(run: Run) -> str:
    """When a run was written. Raises RunError. Of a run of format 1, which does not say it, "": any other is newer."""
    return str(run.description()["time"])


def precedence(record: ItemRecord | None, time: str, number: int) -> Precedence:
    """`record`: None if the run selected the item and did not record it. `time`: that of the run, see time_of.

    `number`: the place of the run in the order in which the user named the runs.
    """
    if record is None:
        return Precedence(ended=False, has_result=False, evidence=_rank("none"), time=time, number=number)
    ended = not any(result.detail == NOT_ENDED for result in record.checks.values())
    return Precedence(ended, _has_result(record), _rank(evidence(record)), time, number)


def evidence(record: ItemRecord) -> str:
    """One of EVIDENCE: "none" if no code was generated."""
    return record.evidence if record.text else "none"


def _rank(kind: str) -> int:
    return -EVIDENCE.index(kind)


def _has_result(record: ItemRecord) -> bool:
    """Whether a check was made. An item can be skipped on one machine and run on another."""
    return any(result.outcome not in (Outcome.SKIPPED, Outcome.EXCLUDED) for result in record.checks.values())
