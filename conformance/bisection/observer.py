"""Observes cases with a laid tree, or with another folder of packages, in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.bisection.observation import Observation
from conformance.bisection.observing_process import ANSWER
from conformance.cases.adhoc import AdhocOptions
from conformance.errors import ConformanceError

#: Seconds for one process. A compile that takes longer hangs.
_LIMIT = 1800


class ObserverError(ConformanceError, RuntimeError):
    """The process could not observe: a wrong case, or a crash before it had an answer."""


@dataclass(frozen=True)
class Observed:
    """What one process observed. `functions`, `lines`: path below torch/ → line numbers, see executed_code.py."""

    observations: dict[str, Observation]
    functions: dict[str, list[int]] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"observations": {name: each.to_json() for name, each in self.observations.items()},
                "functions": self.functions, "lines": self.lines}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observed:
        observations = {name: Observation.from_json(each) for name, each in data["observations"].items()}
        return cls(observations, data["functions"], data.get("lines", {}))


@dataclass(frozen=True)
class Observer:
    """What is observed: `cases` as typed, on `target`. `tables`: files of further targets. `numerics`: run the code.
    `work`: count the calls of the compile.
    """

    cases: tuple[str, ...]
    target: str
    options: AdhocOptions = field(default_factory=AdhocOptions)
    tables: tuple[str, ...] = ()
    numerics: bool = False
    work: bool = False

    def observe(
        self, packages: Path, *, functions: bool = True, ranges: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> Observed:
        """Observes with the torch in a folder, which comes first on the path. `ranges`: see recorded_lines.

        Raises ObserverError. A process that crashes is a misfit.
        """
        request = {
            "cases": list(self.cases),
            "target": self.target,
            "options": dataclasses.asdict(self.options),
            "tables": list(self.tables),
            "numerics": self.numerics,
            "work": self.work,
            "functions": functions,
            "ranges": ranges or {},
        }
        before = os.environ.get("PYTHONPATH", "")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(packages), before]))}
        command = [sys.executable, "-m", "conformance.bisection.observing_process"]
        try:
            ran = subprocess.run(
                command,
                input=json.dumps(request),
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return self._misfit(f"the process took longer than {_LIMIT} s")
        answers = [line for line in ran.stdout.splitlines() if line.startswith(ANSWER)]
        if not answers:
            if ran.returncode in (-2, 130):
                raise KeyboardInterrupt
            last = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return self._misfit(f"the process ended with status {ran.returncode}: {last}")
        answer = json.loads(answers[-1].removeprefix(ANSWER))
        if "error" in answer:
            raise ObserverError(answer["error"])
        return Observed.from_json(answer)

    def _misfit(self, reason: str) -> Observed:
        return Observed(dict.fromkeys(self.cases, Observation(misfit=reason)))
