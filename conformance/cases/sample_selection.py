"""Which of PyTorch's sample inputs are cases of the sweep: how many of each entry, and of which dtypes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from conformance.settings import SAMPLE_DTYPES, SWEEP_DTYPES

#: Holds the selection, so that a module of the sweep and the processes that this one starts have the same one.
VARIABLE = "CONFORMANCE_SWEEP"


@dataclass(frozen=True)
class SampleSelection:
    """`samples`: at most so many samples of each entry and dtype; 0 for all. `dtypes`: short names.

    `special_values`: whether numerics also try special values. `entries`: the only entries, by the names of their
    functions; empty for all.
    """

    samples: int = 1
    dtypes: tuple[str, ...] = SWEEP_DTYPES
    special_values: bool = False
    entries: tuple[str, ...] = ()


def use(selection: SampleSelection) -> None:
    """Sets the selection, for modules of the sweep that are imported later and for processes that start later."""
    special = "special" if selection.special_values else ""
    os.environ[VARIABLE] = ";".join(
        [str(selection.samples), ",".join(selection.dtypes), special, ",".join(selection.entries)]
    )


def current() -> SampleSelection:
    """What `use` has set; else the default."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return SampleSelection()
    samples, dtypes, special, entries = text.split(";")
    names = tuple(entries.split(",")) if entries else ()
    return SampleSelection(int(samples), tuple(dtypes.split(",")), bool(special), names)


def of_case(case_id: str) -> SampleSelection | None:
    """The selection that has the case of a name, such as `opinfo/abs-f32-backward-sample0`; None for another name.

    `case_id`: may lack its operator, and may end in a target. The rest is as in the current selection.
    """
    name, *labels = case_id.rpartition("/")[2].split("-")
    if len(labels) < 3 or labels[0] not in SAMPLE_DTYPES or not labels[2].removeprefix("sample").isdigit():
        return None
    number = int(labels[2].removeprefix("sample"))
    return replace(current(), samples=number + 1, dtypes=(labels[0],), entries=(name,))
