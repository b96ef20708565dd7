"""The result of one check of one item, as a run stores it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Outcome(str, Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    #: It cannot be made here.
    SKIPPED = "skipped"
    #: The case says that it is not for this target.
    EXCLUDED = "excluded"
    #: It failed, and a known failure excuses it.
    KNOWN = "known"
    #: It passed, and a known failure says that it fails.
    STALE = "stale"


@dataclass(frozen=True)
class CheckResult:
    """An outcome and its detail: the error's type and first line, or the reason.

    A passed check has a detail only if it passed before and was not run: how, and in which run.
    """

    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.detail}" if self.detail else self.outcome.value

    def to_json(self) -> dict[str, str]:
        return {"outcome": self.outcome.value, "detail": self.detail}

    @classmethod
    def from_json(cls, data: Any) -> CheckResult:
        """Reads what to_json wrote. Raises ValueError for anything else."""
        if not isinstance(data, dict) or set(data) != {"outcome", "detail"}:
            raise ValueError(f"a check's result is {data!r}, not an outcome and its detail")
        return cls(Outcome(data["outcome"]), data["detail"])
