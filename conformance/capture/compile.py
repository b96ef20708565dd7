"""Compiles a case once for a target, natively or without the device, and records all that Inductor generates.

Private parts of torch, checked with 2.11 to 2.15: torch._dynamo.utils.counters, which nothing public returns.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.capture import exploration, invoke, unread
from conformance.capture.compiled_forms import compiled_function
from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.device_queries import DeviceQueries
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.emulation.extents import Report
from conformance.capture.isolation import isolated
from conformance.capture.model import Capture, Mode
from conformance.capture.observers import kernels
from conformance.capture.observers.pattern_matches import PatternMatches
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.wrappers.deferred import DeferredModules
from conformance.capture.wrappers.recorder import PRE_FUSION, Recorder
from conformance.capture.wrappers.unloaded import generate_module
from conformance.cases.case import Case
from conformance.cases.wanted_matches import wanted_matches_of
from conformance.devices import environment
from conformance.devices.targets import Target
from conformance.devices.vendor_devices import kernel_language

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation


def _nothing() -> None: ...


@dataclass
class CaptureResult:
    """A capture and, if the code runs here, the compiled function.

    `compiled`: call it with the case's arguments. None if the code runs neither natively nor emulated in this process.
    `worker_numerics`: only where the GPU-free worker emulated the code. Returns the lines that say what the numerics
    check compared there, or raises what the check raised.
    `build`: compiles and loads the kernels and calls them once, if `capture` has deferred that. Raises what that
    raises. Before it is called, `compiled` runs the lowered graph eagerly.
    `queries`: what torch has asked the pretended device so far. None without one.
    `shared_with`: the target that the capture was made for, if it is the same for this one; see shared_captures.py.
    `extents`: returns what the emulated kernels ran so far; nothing without emulation.
    `judgements`: of the case's opt-outs, where the GPU-free worker judged them; see numerics/audit.py.
    `error_profiles`: where that worker checked numerics, see numerics/error_profile.py.
    """

    capture: Capture
    compiled: Callable[..., Any] | None
    worker_numerics: Callable[[], list[str]] | None = None
    build: Callable[[], None] = _nothing
    queries: DeviceQueries | None = None
    shared_with: str = ""
    extents: Callable[[], Report] = Report
    judgements: Sequence[Any] = ()
    error_profiles: Sequence[Any] = ()


@contextlib.contextmanager
def capture(
    case: Case,
    target: Target,
    mode: Mode,
    *,
    explore: bool = False,
    emulation: Emulation | None = None,
    ir_pre_fusion: bool = True,
    defer_build: bool = False,
    form: str = "whole",
) -> Iterator[CaptureResult]:
    """Compiles `case` for `target`. Inside the context, the compiled function can be called if the code runs here.

    With gradients, the backward is lowered together with the forward. `explore`: also record each graph at each stage,
    bytecode, guards and torch's logs. `emulation`: runs the code for a missing GPU on the CPU. `ir_pre_fusion`: record
    the nodes before fusion, which takes 5 % of the time and cannot be done later. `defer_build`: the caller calls the
    result's `build` before it calls the compiled function. Only native captures with C++ kernels defer. `form`: what of
    the case torch.compile gets, one of compiled_forms.FORMS.

    Raises PreparationError where `target` needs a device that cannot be pretended. Raises what compiling raises; but
    where the case says that eager raises and there is no code, the capture's `error` holds the exception's text.
    """
    compilation = Compilation(
        case,
        target,
        mode,
        emulation,
        explore=explore,
        ir_pre_fusion=ir_pre_fusion,
        defer_build=defer_build,
        form=form,
    )
    with compilation.context() as stack:
        compilation.compile()
        if emulation is not None:
            stack.enter_context(emulation.running())
        yield compilation.result()


class Compilation:
    """One compile of a case. Call `compile` inside `context`.

    `fn`: the function to compile instead of the case's own. The others: see `capture`. `deferred`: the wrapper modules,
    if the build is deferred.
    """

    def __init__(
        self,
        case: Case,
        target: Target,
        mode: Mode,
        emulation: Emulation | None = None,
        *,
        fn: Callable[..., Any] | None = None,
        explore: bool = False,
        ir_pre_fusion: bool = True,
        defer_build: bool = False,
        form: str = "whole",
    ) -> None:
        import torch

        prepare()
        pretended_device.register_operators(prepare().pretended_devices)
        if mode == "deviceless" and target.device != "cpu" and target.device not in prepare().pretended_devices:
            reason = prepare().problem
            raise environment.PreparationError(f"{target.name} cannot be generated without the device: {reason}")
        self.case, self.target, self.mode, self.emulation = case, target, mode, emulation
        self.queries = DeviceQueries(target) if mode == "deviceless" and target.device != "cpu" else None
        self._recorder = Recorder()
        defers = defer_build and mode == "native" and kernel_language(target.device) == "cpp"
        self.deferred = DeferredModules() if defers else None
        self.capture = Capture(
            case=case.id,
            target=target.name,
            mode=mode,
            torch=torch.__version__,
            triton=environment.triton_version(),
            modules=self._recorder.modules,
        )
        self._fn, self._explore, self._form = fn or case.fn, explore, form
        self._matches = PatternMatches(wanted_matches_of(case), case.config)
        self._patches = [
            *self._recorder.patches(run=mode == "native", emulation=emulation, deferred=self.deferred),
            *unread.patches(explore=explore),
            *([PRE_FUSION] if ir_pre_fusion else []),
            *self._matches.patches(),
        ]
        self._compiled: Callable[..., Any] | None = None

    @contextlib.contextmanager
    def context(self) -> Iterator[contextlib.ExitStack]:
        """The context of compiling, and of calling the compiled function. It may be entered again after it ended."""
        with contextlib.ExitStack() as stack:
            if self.emulation is not None:
                stack.enter_context(self.emulation.on_one_thread())
            stack.enter_context(isolated(self.target, self.mode, dict(self.case.config), self.queries))
            stack.enter_context(applied(self._patches))
            stack.enter_context(kernels.observing())
            yield stack

    def compile(self) -> None:
        """Compiles the case by calling it once. Raises what compiling raises."""
        import torch

        with contextlib.ExitStack() as stack:
            explorer = None
            if self._explore:
                explorer = stack.enter_context(exploration.explore(self.case.id, self.target.device))
            torch._dynamo.utils.counters.clear()
            start = time.perf_counter()
            self._compiled = compiled_function(self.case, self._fn, self._form, self.target.device)
            raised = invoke.call(self.case, self._compiled, self.target.device, self.target.name)
            result = self.capture
            result.seconds = time.perf_counter() - start
            if not self._recorder.modules:
                result.error = raised.partition("\n")[0]
            result.joint_graph = self._recorder.joint_graph
            result.counters = {group: dict(counts) for group, counts in torch._dynamo.utils.counters.items()}
            result.matches = self._matches.results()
            result.exploration = explorer.finish() if explorer else None
            self._recorder.closed = True

    def result(self) -> CaptureResult:
        runs = self.mode == "native" or self.emulation is not None
        build = self._build if self.deferred is not None else _nothing
        extents = self.emulation.extents.report if self.emulation is not None else Report
        compiled = self._compiled if runs else None
        return CaptureResult(self.capture, compiled, build=build, queries=self.queries, extents=extents)

    def _build(self) -> None:
        """Loads the wrapper modules and makes the first call of their code. Raises what both raise."""
        if self.deferred is not None and self._compiled is not None:
            self.deferred.load()
            invoke.call(self.case, self._compiled, self.target.device, self.target.name)


def generate_only(case: Case, target: Target) -> None:
    """Generates code without the device and records nothing. benchmarks/overhead.py compares `capture` with it."""
    import torch

    where = "torch._inductor.graph:GraphLowering.compile_to_module"
    generate = Patch(where, lambda _: generate_module, "nothing is compiled or loaded")
    with isolated(target, "deviceless", dict(case.config)), applied([generate]):
        invoke.call(case, torch.compile(case.fn, dynamic=case.dynamic), target.device, target.name)
