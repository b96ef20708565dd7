"""How many programs and loop iterations each kernel ran, at most, over the calls of a case.

If a kernel ran one program only, or only the first iteration of its loop, an error in the place of the other blocks did
not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from conformance.words import pluralise


@dataclass
class Extent:
    """What one kernel ran at most.

    `programs`: of one launch. `iterations`: line of a `for` loop in the kernel's source → iterations. `shared_out`:
    elements that blocks of several programs could have shared. `looped_over`: elements that iterations could have
    shared. Both are 0 where the number of blocks is not a matter of choice: in kernels of users and of templates.
    """

    name: str
    programs: int = 0
    iterations: dict[int, int] = field(default_factory=dict)
    shared_out: int = 0
    looped_over: int = 0

    def add(self, programs: int, iterations: Mapping[int, int], shared_out: int, looped_over: int) -> None:
        """Adds a launch."""
        self.programs = max(self.programs, programs)
        self.shared_out = max(self.shared_out, shared_out)
        self.looped_over = max(self.looped_over, looped_over)
        for line, count in iterations.items():
            self.iterations[line] = max(self.iterations.get(line, 0), count)

    @property
    def shortfall(self) -> str:
        """What did not run although it could have; "" if nothing."""
        missing = []
        if self.programs == 1 < self.shared_out:
            missing.append(f"one program for {self.shared_out} elements")
        if self.looped_over > 1 and any(count <= 1 for count in self.iterations.values()):
            missing.append(f"one iteration for {self.looped_over} elements")
        return " and ".join(missing)

    def __str__(self) -> str:
        counts = sorted(set(self.iterations.values()), reverse=True)
        loops = [f"{pluralise(count, 'iteration')}" for count in counts]
        return f"{self.name}: {', '.join([pluralise(self.programs, 'program'), *loops])}"


class Extents:
    """The extents of all kernels of a capture."""

    def __init__(self) -> None:
        self._kernels: dict[str, Extent] = {}

    def of(self, name: str, file: str) -> Extent:
        """The extent of the kernel in the source `file`, to add its launches to."""
        return self._kernels.setdefault(file, Extent(name))

    def report(self) -> Report:
        extents = self._kernels.values()
        short = [f"{each.name} ran {each.shortfall}" for each in extents if each.shortfall]
        return Report([str(each) for each in extents], short)


@dataclass(frozen=True)
class Report:
    """The extents in words. `kernels`: a line for each kernel. `shortfalls`: a line for each that ran too little."""

    kernels: list[str] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        return cls(**data)
