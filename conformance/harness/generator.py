"""Captures outside of a test run, for the command line and for stories; and a capture's texts."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.capture.deviceless.prepare import prepare
from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.environment import PreparationError, torch_build, triton_version
from conformance.devices.machine import Machine
from conformance.devices.targets import Target, select_targets
from conformance.errors import ConformanceError
from conformance.harness.session import Session
from conformance.settings import Settings
from conformance.storage.runs import Run

if TYPE_CHECKING:
    from conformance.capture.compile import CaptureResult
    from conformance.capture.model import Capture


class GeneratingError(ConformanceError, RuntimeError):
    """A case that cannot be compiled; the message is what compiling raised."""

    status = 1


class Generator:
    """This process, prepared for capturing: make it before torch is imported. Raises PreparationError without torch."""

    def __init__(self) -> None:
        self.machine = Machine.detect()
        self.session = Session(Settings(), self.machine, Run(Path(os.devnull)))
        self.session.prepare()
        if dropped := prepare().dropped_variables:
            print(f"ignored, because they change generated code: {', '.join(dropped)}", file=sys.stderr)

    def target(self, name: str) -> Target:
        """Raises TargetError naming those that are known."""
        return select_targets(self.machine.targets().values(), None, name)[0]

    def is_native(self, target: Target, *, deviceless: bool = False, run: bool = False) -> bool:
        """Whether `captured` compiles for the device at hand. On cpu only to run it: the code is the same."""
        return self.machine.is_native(target) and not deviceless and (run or target.device != "cpu")

    @contextlib.contextmanager
    def captured(
        self, case: Case, target: Target, *, deviceless: bool = False, run: bool = False, explore: bool = False
    ) -> Iterator[CaptureResult]:
        """The capture, with its compiled function where it is native, or emulated: with `run`, what is generated for a
        gpu that is not here runs on the cpu. `explore`: as in `conformance.capture.capture`.

        Raises PreparationError where this machine cannot, and GeneratingError with what compiling raises.
        """
        self.session.settle_torch()
        native = self.is_native(target, deviceless=deviceless, run=run)
        missing = self.session.cannot(target) or exclusion(case, target)
        if why := missing or (native and target.device == "cpu" and compiler_problem()):
            raise PreparationError(f"{target.name}: {why}")
        with contextlib.ExitStack() as stack:
            try:
                mode = "native" if native else "deviceless"
                emulate = run and not native and not self.session.not_emulated(target)
                made = stack.enter_context(self.session.captured(case, target, mode, explore=explore, emulate=emulate))
            except PreparationError:
                raise
            except Exception as error:
                raise GeneratingError(f"{case.id} for {target.name}: {type(error).__name__}: {error}") from error
            yield made

    def close(self) -> None:
        self.session.close()


def origin(capture: Capture, target: Target) -> str:
    """Where a capture came from, in words, and from which versions."""
    if capture.mode == "native":
        how = "compiled and run here"
    else:
        how = "generated, not run" if target.device == "cpu" else "generated without the device"
    triton = f", Triton {triton_version()}" if triton_version() and target.device != "cpu" else ""
    return f"{how}; torch {torch_build().version}{triton}"


def facts_text(capture: Capture) -> str:
    """`kernels     1: flip`, a fact a line."""
    from conformance.facts import facts
    from conformance.normalize.text import facts_block

    return facts_block(facts(capture).lines()).rstrip("\n")


def whole_text(capture: Capture, target: Target) -> str:
    """What a snapshot stores: facts, joint graph, normalised code."""
    from conformance.facts import facts
    from conformance.normalize.text import snapshot_text
    from conformance.storage.snapshots import canonical

    return canonical(snapshot_text(capture, facts(capture).lines(), target.device)).rstrip("\n")


def graph_text(capture: Capture, target: Target) -> str:
    """The joint graph where there are gradients, else the forward graph; several where the function was broken up."""
    from conformance.normalize.text import normalised_graph

    graphs = [capture.joint_graph] if capture.joint_graph else [m.graph for m in capture.complete().modules]
    return "\n\n".join(normalised_graph(text, target.device).strip("\n") for text in graphs)


def code_text(capture: Capture, target: Target) -> str:
    """The normalised kernels and calls, a module after the other."""
    from conformance.harness.item import code_text as text

    return text(capture, target).strip("\n")
