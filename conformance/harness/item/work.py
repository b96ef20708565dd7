"""The check "work" of an item: what its compile costs, as numbers that do not depend on the machine.

It counts without the device, also where the item runs natively. It fails nothing. The end of the run says the sum, and
with --baseline what became more.
"""

from __future__ import annotations

from conformance import facts
from conformance.cases.case import Case
from conformance.compiler.compile_growth import counted
from conformance.compiler.gpu_free_worker import GpuFreeWorkerError
from conformance.devices.targets import Target
from conformance.harness.item.errors import SkipError
from conformance.harness.session import Session
from conformance.storage.runs import ItemRecord

#: The facts that the check records, beside those of the snapshot.
_FACTS = ("memory", "guards", "compile_work")


def record_work(session: Session, case: Case, target: Target, record: ItemRecord) -> None:
    """Adds the facts to the record's. Raises SkipError where nothing can be counted."""
    try:
        found = facts.extract(counted(session.compiler.capture, case, target)).further()
    except GpuFreeWorkerError as error:
        raise SkipError(f"nothing was counted: {error}") from None
    values = found.values()
    record.fact_values |= {name: values[name] for name in values if name.partition(".")[0] in _FACTS}
