"""The selection of the sweep that has a case, by the name of the case."""

from __future__ import annotations

from dataclasses import replace

from conformance.cases import run_values
from conformance.cases.run_values import SampleSelection
from conformance.settings import SAMPLE_DTYPES


def of_case(case_id: str) -> SampleSelection | None:
    """The selection that has the case of a name, such as `opinfo/abs-f32-backward-sample0`; None for another name.

    `case_id`: may lack its operator, and may end in a target. The rest is as in the current selection.
    """
    name, *labels = case_id.rpartition("/")[2].split("-")
    if len(labels) < 3 or labels[0] not in SAMPLE_DTYPES or not labels[2].removeprefix("sample").isdigit():
        return None
    number = int(labels[2].removeprefix("sample"))
    return replace(run_values.current().selection, samples=number + 1, dtypes=(labels[0],), entries=(name,))
