"""Runs that are made of a few records, for the report's selftests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.storage.check_results import CheckResult, Outcome
from conformance.storage.runs import ItemRecord, Run

#: A text as a snapshot stores it: the facts, and the code of one module.
TEXT = """\
kernels       1: flip (pointwise 12)
vectorised    no: load index 11 - x0 is not contiguous in x0 (stride -1)

--- inference
# kernel cpp_fused_flip_0
extern "C"  void  kernel(const uint8_t* in_ptr0)
{
  auto tmp0 = in_ptr0[11L];
}

def call(args):
    arg0, = args
    return (buf0, )
"""

PASSED, FAILED = CheckResult(Outcome.PASSED), CheckResult(Outcome.FAILED, "NumericsError: 1 of 12 elements differ")
KNOWN, EXCLUDED = CheckResult(Outcome.KNOWN, "too large"), CheckResult(Outcome.EXCLUDED, "not for this target")
SKIPPED = CheckResult(Outcome.SKIPPED, "no Triton")


def record(case: str, target: str, numerics: CheckResult = PASSED, **changes: Any) -> ItemRecord:
    """A record of an item on torch 2.13, whose code is as stored. A case that is excluded is not compiled."""
    if numerics is EXCLUDED:
        changes = {"text": "", "checks": {"compile": EXCLUDED}} | changes
    values = {"mode": "deviceless", "torch": "2.13.0+cpu", "store": "", "text": TEXT, "evidence": "emulated"}
    return ItemRecord(case, target, **{**values, "checks": {"numerics": numerics, "code": PASSED}, **changes})


#: When a run is written that says nothing else.
TIME = "2026-11-24T07:00:00Z"


def made_run(
    folder: Path, records: Sequence[ItemRecord], selected: Sequence[str] = (), torch: str = "2.13.0", time: str = TIME
) -> Run:
    """Writes a run. `selected`: the names of further items that were selected, and that no worker recorded."""
    run = Run(folder)
    targets = sorted({each.target for each in records})
    run.begin({"torch": torch, "triton": "3.7.1", "targets": targets, "time": time})
    for each in records:
        run.write_item(each)
    names = [*(each.name for each in records), *selected]
    run.write_selected({f"ops/test_some.py::test_some[{name}]": name for name in names})
    return run
