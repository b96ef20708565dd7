"""Compiler: a machine, its torch and the settings of captures. It captures cases without pytest and without a run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.prepare import prepare
from conformance.cases import other_inputs
from conformance.cases.case import Case
from conformance.cases.selectors import exclusion
from conformance.cases.target_selection import select_targets
from conformance.compiler import garbage_collection
from conformance.compiler.case_request import CaseRequest
from conformance.compiler.compiled_forms import CompiledFormError
from conformance.devices import environment, targets
from conformance.devices.cpp_compiler import compiler_problem
from conformance.devices.cross_compiler import emulation_problem
from conformance.devices.environment import PreparationError
from conformance.devices.machine import Machine
from conformance.devices.targets import Target
from conformance.devices.torch_releases import unsupported_message
from conformance.devices.vendor_devices import (
    VendorDevice,
    deviceless_problem,
    kernel_language,
    registration_problem,
    vendor_devices,
)
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult
    from conformance.compiler.gpu_free_worker import GpuFreeWorker


class GeneratingError(ConformanceError, RuntimeError):
    """A case that cannot be compiled; the message is what compiling raised."""

    status = 1


@dataclass
class Compiler:
    """What captures cases in this process.

    `threads`: how many torch uses here and in the GPU-free worker; 0: one for each core. `inductor_config`: options
    that were laid over those of all cases. `is_inductor`: False where another backend compiles: then nothing is
    captured, and this torch may be one that is not supported.
    `generation_problems`: device type → why no code can be generated for it here. `patch_problems`: those of them that
    torch's sources show before torch is imported. `notices`: what `prepare` has to say, a line each.
    """

    machine: Machine
    threads: int = 0
    inductor_config: Mapping[str, Any] = field(default_factory=dict)
    is_inductor: bool = True
    generation_problems: dict[str, str] = field(default_factory=dict)
    patch_problems: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    torch_is_set_up: bool = False

    def prepare(self) -> None:
        """Sets up this process before torch is imported, and finds out for which devices no code can be generated.

        Raises PreparationError for a torch that is not supported, unless another backend than Inductor compiles, and
        for an environment variable that looks like ours.
        """
        if problem := environment.variable_problem():
            raise PreparationError(problem)
        unsupported = unsupported_message(environment.torch_build().version)
        if unsupported and self.is_inductor:
            raise PreparationError(unsupported)
        prepared = prepare(targets.GPUS if self.machine.gpus else ())
        triton = environment.triton_version()
        for device in (*targets.GPUS, *vendor_devices()):
            if device in self.machine.gpus or deviceless_problem(device):
                continue
            if not triton and kernel_language(device) == "triton":
                self.generation_problems[device] = environment.missing_triton_message()
            elif prepared.problem:
                self.generation_problems[device] = prepared.problem
        if unsupported:
            self.generation_problems |= dict.fromkeys(targets.families(), unsupported)
        elif self.is_inductor:
            self._check_torch_sources()
        self.notices += ignored_variables()
        if reason := compiler_problem():
            self.notices.append(f"CPU code is generated but not run: {reason}")

    def _check_torch_sources(self) -> None:
        """Finds patches that no longer fit this torch in its sources: torch is not imported yet."""
        from conformance.capture import isolation
        from conformance.capture.observers import kernels

        rows, native = self.machine.targets().values(), tuple(self.machine.gpus)
        is_missing = isolation.missing_in_sources()
        self.patch_problems = isolation.patch_problems(rows, native, is_missing)
        self.notices += dict.fromkeys(self.patch_problems.values())
        self.notices += kernels.unknown_notices(is_missing)
        self.generation_problems = self.patch_problems | self.generation_problems

    def set_up_torch(self, vendors: Sequence[VendorDevice] | None = None) -> None:
        """Imports torch, sets its number of threads, registers the pretended devices and checks that all patches fit.

        Only the first call does anything. `vendors`: whose devices are used; default: all of this machine.
        """
        if self.torch_is_set_up:
            return
        self.torch_is_set_up = True
        with garbage_collection.off_while_loading():
            self._set_up_torch(self.vendors if vendors is None else vendors)

    def _set_up_torch(self, vendors: Sequence[VendorDevice]) -> None:
        import torch

        from conformance.capture import isolation

        environment.disable_trace_records()
        torch.set_num_threads(self._thread_count)
        pretended_device.register_operators(prepare().pretended_devices)
        for vendor in vendors:
            if problem := registration_problem(vendor):
                self.generation_problems[vendor.name] = problem
        if not self.is_inductor:
            return  # nothing is captured, and this torch may be too old for the patches
        for device, reason in self.patch_problems.items():
            if self.generation_problems.get(device) == reason:
                del self.generation_problems[device]  # the check below sees more than the sources show
        for device, reason in isolation.patch_problems(
            self.machine.targets().values(), tuple(self.machine.gpus)
        ).items():
            self.generation_problems.setdefault(device, reason)

    @property
    def _thread_count(self) -> int:
        return self.threads or max(1, self.machine.cores)

    @property
    def vendors(self) -> list[VendorDevice]:
        """The vendors' devices that are on this machine, or pretended."""
        here = self.machine.gpus
        return [device for name, device in vendor_devices().items() if name in here or not deviceless_problem(name)]

    def target(self, name: str) -> Target:
        """The target of that name. Raises TargetError, which names the known targets."""
        return select_targets(self.machine.targets().values(), None, name)[0]

    def is_native(self, target: Target, *, deviceless: bool = False, run: bool = False) -> bool:
        """Whether `generate` uses the device of this machine. A CPU is used only with `run`: the code is the same."""
        return self.machine.is_native(target) and not deviceless and (run or target.device != "cpu")

    def generation_problem(self, target: Target) -> str:
        """Why no code can be generated for the target here; "" where it can."""
        if not self.is_inductor:
            return ""  # no code is captured
        if (problem := deviceless_problem(target.device)) and not self.machine.is_native(target):
            return f"this machine has no {target.name}, and {problem}"
        if _is_built_for_another_platform(target):
            return "this torch is built for ROCm, where cuda means GPUs of AMD: install a torch without ROCm"
        return self.generation_problems.get(target.family) or self.generation_problems.get(target.device, "")

    def reason_not_run(self, target: Target) -> str:
        """Why code for the target does not run here; "" where it does."""
        if not self.machine.is_native(target):
            return f"this machine has no {target.name}: its code was generated but not run"
        return compiler_problem() if target.device == "cpu" else ""

    def reason_not_emulated(self, target: Target) -> str:
        """Why code for the target cannot run on the CPU with emulation; "" where it can."""
        vendor = vendor_devices().get(target.device)
        if vendor and "emulated" not in vendor.stages:
            return f"{vendor.package} emulates no code"
        if self.machine.is_native(target):
            return f"{target.name} is not emulated: only devices that this machine lacks are"
        return emulation_problem(target.isa) if target.device == "cpu" else ""

    def capture(self, request: CaseRequest) -> contextlib.AbstractContextManager[CaptureResult]:
        """Captures what `request` asks for. Raises what compiling raises.

        The GPU-free worker captures deviceless code for a GPU on a machine with a GPU, also with one of another device
        type: no PyTorch supports both cuda and xpu. And it counts calls: its sets have the same order in each run.
        """
        from conformance.compiler.case_request import capture

        if request.counts_calls:
            return contextlib.nullcontext(self.gpu_free_worker.capture(request))
        if request.mode == "deviceless" and request.target.device != "cpu" and self.machine.gpus:
            return contextlib.nullcontext(self.gpu_free_worker.capture(request))
        return capture(request)

    @contextlib.contextmanager
    def generate(
        self, case: Case, target: Target, *, deviceless: bool = False, run: bool = False, **options: Any
    ) -> Iterator[CaptureResult]:
        """Captures a case in the mode that fits this machine. `options`: the further ones of CaseRequest.

        With `run`, the compiled function can be called: natively, or emulated for a missing GPU.

        Raises PreparationError where this machine cannot generate code for the target, GeneratingError with what
        compiling raises, and CompiledFormError where the case has no such form.
        """
        self.set_up_torch()
        run, deviceless = run and not case.compared_as, deviceless or bool(case.compared_as)
        native = self.is_native(target, deviceless=deviceless, run=run)
        problem = self.generation_problem(target) or exclusion(case, target)
        if not problem and native and target.device == "cpu":
            problem = compiler_problem()
        if problem:
            raise PreparationError(f"{target.name}: {problem}")
        emulate = run and not native and not self.reason_not_emulated(target)
        request = CaseRequest(
            case,
            target,
            "native" if native else "deviceless",
            emulate=emulate,
            shares=True,
            other_inputs=other_inputs.are_compiled(case),
            **options,
        )
        with contextlib.ExitStack() as stack:
            try:
                captured = stack.enter_context(self.capture(request))
            except (PreparationError, CompiledFormError):
                raise
            except Exception as error:
                raise GeneratingError(f"{case.id} for {target.name}: {type(error).__name__}: {error}") from error
            yield captured

    @functools.cached_property
    def gpu_free_worker(self) -> GpuFreeWorker:
        from conformance.compiler.gpu_free_worker import GpuFreeWorker

        return GpuFreeWorker(self._thread_count, targets.further_tables(), self.inductor_config)

    def close(self) -> None:
        """Ends the GPU-free worker, if it was started."""
        if "gpu_free_worker" in vars(self):
            self.gpu_free_worker.close()


def compiler_here() -> Compiler:
    """The compiler of a command: prepares this process, and says on stderr which variables it ignores.

    Call it before torch is imported. Raises PreparationError without torch.
    """
    return _prepared(Machine.detect())


def compiler_for(target: str) -> Compiler:
    """The compiler that captures for a target in this process, where a GPU would make another process do it.

    For who watches or changes the compiler itself. `target`: its name. Else like compiler_here().
    """
    machine = Machine.detect()
    row = machine.targets().get(target)
    if machine.gpus and row and row.device != "cpu" and not machine.is_native(row):
        os.environ.update(environment.HIDE_DEVICES)
        machine = dataclasses.replace(machine, gpus={})
    return _prepared(machine)


def _prepared(machine: Machine) -> Compiler:
    compiler = Compiler(machine)
    compiler.prepare()
    for notice in ignored_variables():
        print(notice, file=sys.stderr)
    return compiler


def ignored_variables() -> list[str]:
    """The notice of the environment variables that preparing this process has removed; none if there were none."""
    names = ", ".join(prepare().dropped_variables)
    return [f"ignored environment variables, because they change generated code: {names}"] if names else []


def _is_built_for_another_platform(target: Target) -> bool:
    """Whether torch decided for GPUs of AMD when it was built, or imported, and the target is none of them.

    The other way round works: rocm_build.py changes what a torch built without ROCm decided.
    """
    return target.device == "cuda" and not target.platform and environment.torch_build().hip


def checked_numerics(
    compiler: Compiler, case: Case, result: CaptureResult, target: Target, *, native: bool
) -> list[str]:
    """Returns what was compared, in lines; none if the compiled code cannot run here.

    Raises NumericsError, and what eager or compiled raises.
    """
    from conformance.compiler.large_sizes import compared_form
    from conformance.compiler.other_inputs import OtherCompiles
    from conformance.compiler.random_functions import compared
    from conformance.numerics.check import Observed, check_numerics

    if case.compared_as:
        with compiler.generate(case.form_that_runs, target, run=True) as runs:
            note = compared_form(case, result.capture, runs.capture, target)
            lines = checked_numerics(compiler, case.form_that_runs, runs, target, native=native)
            return [*lines, note] if lines else []
    if result.worker_numerics is not None:
        return result.worker_numerics()
    if result.compiled is None:
        return []
    compiles = OtherCompiles(compiler.capture, case.fn, target, result.capture.mode, emulates=not native)
    others = compiles.problems if other_inputs.are_compiled(case) else None
    observed = Observed()
    comparing = compared(compiler.capture, case, target, result, observed.comparison, emulates=not native)
    with comparing as (checked, compiled, note):
        check_numerics(checked, compiled, target.device, target.name, observed=observed, others=others)
    summary = observed.comparison.summary()
    return [*summary, note] if note else summary
