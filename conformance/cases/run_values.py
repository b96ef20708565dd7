"""What a run sets for all of its cases: the seed, the factor of cases that name none, the samples of the sweep.

They belong to the process that sets them. A process that it starts is told them: `sent`, and `receive` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from conformance.settings import SWEEP_DTYPES


@dataclass(frozen=True)
class SampleSelection:
    """Which of PyTorch's sample inputs are cases of the sweep. `samples`: at most so many samples of each entry and
    dtype; 0 for all. `dtypes`: short names.

    `special_values`: whether numerics also try special values. `entries`: the only entries, by the names of their
    functions; empty for all.
    """

    samples: int = 1
    dtypes: tuple[str, ...] = SWEEP_DTYPES
    special_values: bool = False
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunValues:
    """`seed`: 0 by default. `factor`: of cases that name none; None for that of POLICY. `selection`: of the sweep."""

    seed: int = 0
    factor: float | None = None
    selection: SampleSelection = field(default_factory=SampleSelection)


_used = [RunValues()]


def current() -> RunValues:
    """What `use` has set; else the defaults."""
    return _used[0]


def use(**values: Any) -> None:
    """Sets some of the values, by the names of the fields."""
    _used[0] = replace(_used[0], **values)


def sent() -> dict[str, Any]:
    """The values as JSON, for a process that this one starts."""
    return asdict(_used[0])


def receive(message: Mapping[str, Any]) -> None:
    """Uses the values that `sent` gave in another process."""
    selection = dict(message["selection"])
    selection |= {name: tuple(selection[name]) for name in ("dtypes", "entries")}  # JSON has lists
    _used[0] = RunValues(message["seed"], message["factor"], SampleSelection(**selection))
