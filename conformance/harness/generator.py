"""Captures for the command line, without pytest; and the texts of a capture."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.capture.compiled_forms import CompiledFormError
from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.environment import HIDE_DEVICES, PreparationError, torch_build, triton_version
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, select_targets
from conformance.errors import ConformanceError
from conformance.harness.session import Session
from conformance.settings import Settings
from conformance.storage.runs import Run

if TYPE_CHECKING:
    from conformance.capture.compile import CaptureResult
    from conformance.capture.model import Capture, Mode


class GeneratingError(ConformanceError, RuntimeError):
    """A case that cannot be compiled; the message is what compiling raised."""

    status = 1


class Generator:
    """Captures cases. Make it before torch is imported. Raises PreparationError without torch."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine.detect()
        self.session = Session(Settings(), self.machine, Run(Path(os.devnull)))
        self.session.prepare()
        if dropped := prepare().dropped_variables:
            print(
                f"ignored environment variables, because they change generated code: {', '.join(dropped)}",
                file=sys.stderr,
            )

    @classmethod
    def in_this_process(cls, target: str) -> Generator:
        """One that captures for a target in this process, where a GPU of the machine would make another one do it.

        For who watches or changes the compiler itself. `target`: its name.
        """
        machine = Machine.detect()
        row = machine.targets().get(target)
        if machine.gpus and row and row.device != "cpu" and not machine.is_native(row):
            os.environ.update(HIDE_DEVICES)
            machine = dataclasses.replace(machine, gpus={})
        return cls(machine)

    def target(self, name: str) -> Target:
        """The target of that name. Raises TargetError, which names the known targets."""
        return select_targets(self.machine.targets().values(), None, name)[0]

    def is_native(self, target: Target, *, deviceless: bool = False, run: bool = False) -> bool:
        """Whether `capture` uses the device of this machine. A CPU is used only with `run`: the code is the same."""
        return self.machine.is_native(target) and not deviceless and (run or target.device != "cpu")

    @contextlib.contextmanager
    def capture(
        self,
        case: Case,
        target: Target,
        *,
        deviceless: bool = False,
        run: bool = False,
        explore: bool = False,
        form: str = "whole",
    ) -> Iterator[CaptureResult]:
        """Captures a case. With `run`, the compiled function can be called: natively, or emulated for a missing GPU.

        `explore`, `form`: see conformance.capture.compile.capture. Raises PreparationError where this machine cannot
        generate code for the target, GeneratingError with what compiling raises, and CompiledFormError where the case
        has no such form.
        """
        self.session.set_up_torch()
        native = self.is_native(target, deviceless=deviceless, run=run)
        problem = self.session.generation_problem(target) or exclusion(case, target)
        if not problem and native and target.device == "cpu":
            problem = compiler_problem()
        if problem:
            raise PreparationError(f"{target.name}: {problem}")
        with contextlib.ExitStack() as stack:
            try:
                mode: Mode = "native" if native else "deviceless"
                emulate = run and not native and not self.session.reason_not_emulated(target)
                captured = stack.enter_context(
                    self.session.capture(case, target, mode, explore=explore, emulate=emulate, form=form)
                )
            except (PreparationError, CompiledFormError):
                raise
            except Exception as error:
                raise GeneratingError(f"{case.id} for {target.name}: {type(error).__name__}: {error}") from error
            yield captured

    def close(self) -> None:
        self.session.close()


def checked_numerics(case: Case, result: CaptureResult, target: Target, *, native: bool) -> list[str]:
    """Returns what was compared, in lines; none if the compiled code cannot run here."""
    from conformance.capture.emulation.fake_strides import with_device_strides
    from conformance.numerics.check import check_numerics

    if result.worker_numerics is not None:
        return result.worker_numerics()
    if result.compiled is None:
        return []
    checked = case if native else with_device_strides(case)
    return check_numerics(checked, result.compiled, target.device, target.name).summary()


def origin(capture: Capture, target: Target) -> str:
    """How a capture was made, and with which versions: `compiled and run here; torch 2.13.0`."""
    if capture.mode == "native":
        how = "compiled and run here"
    else:
        how = "generated, not run" if target.device == "cpu" else "generated without the device"
    triton = f", Triton {triton_version()}" if triton_version() and target.device != "cpu" else ""
    return f"{how}; torch {torch_build().version}{triton}"


def facts_text(capture: Capture) -> str:
    """`kernels     1: flip`, a fact a line."""
    from conformance.facts import extract
    from conformance.normalize.text import facts_block

    return facts_block(extract(capture).lines()).rstrip("\n")


def whole_text(capture: Capture, target: Target) -> str:
    """The text of a snapshot: facts, joint graph, normalised code."""
    from conformance.facts import extract
    from conformance.normalize.text import snapshot_text
    from conformance.storage.snapshots import canonical_text

    return canonical_text(snapshot_text(capture, extract(capture).lines(), target.device)).rstrip("\n")


def graph_text(capture: Capture, target: Target) -> str:
    """The joint graph where the case has gradients, otherwise the forward graphs: one for each part of the function."""
    from conformance.normalize.text import normalised_graph

    graphs = [capture.joint_graph] if capture.joint_graph else [m.graph for m in capture.complete().modules]
    return "\n\n".join(normalised_graph(text, target.device).strip("\n") for text in graphs)


def code_text(capture: Capture, target: Target) -> str:
    """The normalised kernels and calls of all modules."""
    from conformance.harness.item import code_text as text

    return text(capture, target).strip("\n")
