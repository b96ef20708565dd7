"""A trial: one compile of a program in a process of its own, and what our check then finds."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from conformance.capture.compiler_parts import LeftOut
from conformance.capture.json_worker import JsonWorker, WorkerError
from conformance.cases import run_values
from conformance.errors import ConformanceError
from conformance.minimisation.program import Program
from conformance.numerics.problem import Problem

#: The backends of torch.compile that leave out more and more of the compiler, the one that leaves out most first.
INDUCTOR = "inductor"
BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", INDUCTOR)
#: Seconds for one trial. A compile that takes longer counts as a hang.
TIME_LIMIT = 180.0
#: Seconds that the worker gets on top, to kill its child and to answer.
_GRACE = 60.0


class TrialError(ConformanceError, RuntimeError):
    """No trial can be made: the message says why."""


@dataclass(frozen=True)
class Call:
    """How the failing call was made. `kind`, `name`: see numerics.check.Call. `mode`: the case's call mode.

    `config`: options of the compiler. `numerics`: what the case declares about limits. `values`: False where compiled
    draws other random numbers than eager, so that values decide nothing; dtypes and strides do.
    """

    kind: str = "ordinary"
    name: str = "first"
    mode: str = "plain"
    dynamic: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    numerics: Mapping[str, Any] = field(default_factory=dict)
    values: bool = True


@dataclass(frozen=True)
class Outcome:
    """`problems`: what the check found. `error`: why nothing was compared: a crash, a hang, or eager raises.

    `applied`: part of the compiler → the names of its applications, see capture/compiler_parts.py. `new_lines`: of
    the compiler, that no case executes, see coverage/new_lines.py; only where they were asked for.
    """

    problems: tuple[Problem, ...] = ()
    error: str = ""
    applied: Mapping[str, Sequence[str]] = field(default_factory=dict)
    new_lines: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        problems = tuple(map(Problem.from_json, data["problems"]))
        return cls(problems, data["error"], data["applied"], tuple(data["new_lines"]))


class Trials:
    """Makes trials for one target, each in a forked process of one worker. A context: its end stops the worker.

    `call`: may be changed between trials. `count`: how many trials were made; a program that was tried before is not
    tried again.
    """

    def __init__(self, target: str, call: Call, *, tables: Sequence[str] = (), time_limit: float = TIME_LIMIT) -> None:
        self.target, self.call, self.time_limit = target, call, time_limit
        self._tables = list(tables)
        self.count = 0
        self._known: dict[str, Outcome] = {}
        self._worker = JsonWorker("conformance.minimisation.trial_process", os.environ)

    def __enter__(self) -> Trials:
        self._folder = tempfile.TemporaryDirectory(prefix="conformance-minimise-")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._worker.close()
        self._folder.cleanup()

    def end(self) -> None:
        """Kills the worker. A trial that another thread waits for raises TrialError."""
        self._worker.close()

    def run(
        self,
        program: Program,
        backend: str = INDUCTOR,
        which: LeftOut | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        raises: str = "",
        lines: bool = False,
    ) -> Outcome:
        """Compiles and checks a program, and calls it again with the same inputs. `which`: the applications to leave
        out. `options`: of the compiler, besides the case's. `raises`: the exception that eager raises. `lines`: ask
        for new lines.
        """
        import torch

        saved = io.BytesIO()
        torch.save(dict(program.inputs), saved)
        key = hashlib.sha256(
            repr(
                (self.call, program.text, saved.getvalue(), backend, which, sorted((options or {}).items()), raises)
            ).encode()
        ).hexdigest()
        if key in self._known:
            return self._known[key]
        inputs, text = Path(self._folder.name, "inputs.pt"), Path(self._folder.name, f"program_{key[:12]}.py")
        inputs.write_bytes(saved.getvalue())
        text.write_text(program.text, encoding="utf-8")
        answer = self._ask(
            {
                "program": str(text),
                "inputs": str(inputs),
                "backend": backend,
                "left_out": dataclasses.asdict(which or LeftOut()),
                "call": dataclasses.asdict(self.call),
                "options": dict(options or {}),
                "raises": raises,
                "lines": lines,
            }
        )
        self._known[key] = answer
        return answer

    def check_case(self, word: str, options: Mapping[str, Any]) -> Outcome:
        """The whole numerics check of a case. `word`, `options`: see cases.adhoc.resolve_case."""
        return self._ask({"case": word, "adhoc": dict(options)})

    def _ask(self, request: Mapping[str, Any]) -> Outcome:
        self.count += 1
        whole = {**request, "target": self.target, "tables": self._tables, "time_limit": self.time_limit}
        whole["run_values"] = run_values.sent()
        try:
            answer = self._worker.ask(whole, self.time_limit + _GRACE)
        except WorkerError as error:
            raise TrialError(f"the process that makes the trials ended: {error}") from error
        if problem := answer.get("refused"):
            raise TrialError(problem)
        return Outcome.from_json(answer)
