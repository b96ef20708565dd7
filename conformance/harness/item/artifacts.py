"""Artifacts of a failing item: all generated code, graphs and IR, and a script that shows the failure again."""

from __future__ import annotations

import traceback
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.cases.case import Case
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.explanation import explained
from conformance.devices.targets import Target
from conformance.documentation import reference
from conformance.errors import ConformanceError
from conformance.harness.item.exception_text import short_form
from conformance.harness.reproduction import script
from conformance.harness.session import Session
from conformance.numerics.problem import OF_THE_DECLARATION
from conformance.storage.runs import message_file

if TYPE_CHECKING:
    from conformance.capture.model import Capture, Mode


class ItemArtifacts:
    """The artifacts of one item. Several of its checks may fail: they share a folder."""

    def __init__(self, session: Session, case: Case, target: Target) -> None:
        self._session, self._case, self._target = session, case, target
        self._has_script = False

    def of_check(self, check: str, error: AssertionError, capture: Capture) -> str:
        """Writes the artifacts of a failed check. Returns the last lines of its message."""
        write(self._folder, capture)
        (self._folder / message_file(check)).write_text(f"{error}\n", encoding="utf-8")
        if check == "numerics":
            return "\n".join([self._write_script(error), *self._to_minimise(error), f"artifacts: {self._folder}"])
        if not self._has_script:
            self._write_script(None)
        return f"artifacts: {self._folder}"

    def of_exception(self, check: str, error: Exception, *, with_script: bool = True) -> str:
        """Writes what compiling or a call raises, and the script for it. Returns its short form, and where the rest is.

        `with_script`: if the code may be wrong.
        """
        lines = short_form(error, self._case.file)
        whole = self._folder / f"{check}_traceback.txt"
        whole.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        if with_script and is_of_the_code(error):
            script_line = self._write_script(error)
            text = f"{type(error).__name__}: {error}\n"
            (self._folder / message_file(check)).write_text(text, encoding="utf-8")
            known = self._session.known_failures_folder(self._case) / f"{self._case.operator}.toml"
            excuse = f"an error of PyTorch can be excused in {known}: {reference('public-names', 'file-formats')}"
            lines += ["", script_line, *self._to_minimise(error), excuse]
        return "\n".join([*lines, f"the whole message and traceback: {whole}", f"artifacts: {self._folder}"])

    def explain(self) -> None:
        """Writes what explains the kernels into the run's folder: a second capture records it. Raises RunError."""
        mode: Mode = "deviceless" if self._target.device == "cpu" else self._session.mode(self._target)
        with self._session.capture(CaseRequest(self._case, self._target, mode, explore=True)) as again:
            found = explained(again.capture, self._case, self._target)
        self._session.run.write_explanation(f"{self._case.id}-{self._target.name}", found.to_json())

    def _to_minimise(self, error: Exception) -> list[str]:
        """The line that names the command for the smallest program; none where the command makes another call."""
        settings = self._session.settings
        problems = getattr(error, "problems", ())
        session, target = self._session, self._target
        runs = not (session.compiler.reason_not_run(target) and session.reason_not_emulated(target))
        if settings.seed or settings.backend_option or not runs:
            return []
        if problems and all(problem.rule in ("recompiles", *OF_THE_DECLARATION) for problem in problems):
            return []
        command = script.minimise_command(self._case, target, problems, settings.inductor_config)
        return [f"to find the smallest program that fails so, and the part of the compiler: {command}"]

    @cached_property
    def _folder(self) -> Path:
        return self._session.run.artifacts(f"{self._case.id}-{self._target.name}")

    def _write_script(self, error: Exception | None) -> str:
        self._has_script = True
        native = self._session.mode(self._target) == "native"
        chosen = self._session.settings.inductor_config
        return script.write(self._folder, self._case, self._target, error=error, native=native, chosen=chosen)


def write(folder: Path, capture: Capture) -> None:
    """Writes output code, graphs, and IR before and after fusion into the folder."""
    for number, module in enumerate(capture.complete().modules):
        parts = {
            "output_code.py": module.code,
            "graph.py": module.graph,
            "ir_pre_fusion.txt": module.ir_pre_fusion,
            "ir_post_fusion.txt": module.ir_post_fusion,
        }
        for name, text in parts.items():
            if text:
                (folder / f"{number}_{module.kind}_{name}").write_text(text, encoding="utf-8")
    if capture.joint_graph:
        (folder / "joint_graph.py").write_text(capture.joint_graph, encoding="utf-8")


def is_of_the_code(error: Exception) -> bool:
    """Whether an exception of a compile or a call may be Inductor's: not one of this package, of memory or the disk."""
    import torch

    from conformance.capture.emulation.errors import NotEmulatedError

    others = (ConformanceError, NotEmulatedError, MemoryError, torch.OutOfMemoryError, OSError)
    return not isinstance(error, others)
