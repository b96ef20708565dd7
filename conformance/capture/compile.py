"""Compiles a program once for a target, natively or without the device, and records all that Inductor generates.

Private parts of torch: torch._dynamo.utils.counters, which nothing public returns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from conformance.capture import exploration, invoke, unread
from conformance.capture.call_counts import counting
from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.device_queries import DeviceQueries
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.emulation.extents import Report
from conformance.capture.isolation import isolated
from conformance.capture.model import Capture
from conformance.capture.observers import dynamo, kernels, provenance
from conformance.capture.observers.pattern_matches import PatternMatches
from conformance.capture.patching.patch import applied
from conformance.capture.request import CaptureRequest
from conformance.capture.result import CaptureResult, build_nothing
from conformance.capture.wrappers.deferred import DeferredModules
from conformance.capture.wrappers.recorder import PRE_FUSION, Recorder
from conformance.devices import environment
from conformance.devices.targets import GPUS, Target
from conformance.devices.vendor_devices import kernel_language

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation


@contextlib.contextmanager
def capture(request: CaptureRequest, emulation: Emulation | None = None) -> Iterator[CaptureResult]:
    """Captures what `request` asks for. Inside the context, the compiled function can be called if the code runs here.

    With gradients, the backward is lowered together with the forward. `emulation`: what emulates the code, where the
    caller has made it.

    Raises PreparationError where the target needs a device that cannot be pretended. Raises what compiling raises; but
    where the program may raise and there is no code, the capture's `error` holds the exception's text.
    """
    if request.counts_calls:
        with capture(dataclasses.replace(request, counts_calls=False)):
            pass  # what is imported and cached once does not count
    later = _later_compiles(request) if request.program.later_calls else {}
    compilation = Compilation(request, emulation=emulation)
    with compilation.context() as stack:
        compilation.compile()
        compilation.capture.counters |= later
        if compilation.emulation is not None:
            stack.enter_context(compilation.emulation.running())
        yield compilation.result()


def _later_compiles(request: CaptureRequest) -> dict[str, dict[str, int]]:
    """What the calls after the first one compile, as groups of counters. Compiles the program for them and forgets it.

    In the capture itself, they would leave code that its caller must not find. Empty where compiling raises.
    """
    request = dataclasses.replace(request, explore=False, emulate=False, texts=False, defer_build=True)
    compilation = Compilation(request)
    with contextlib.suppress(Exception), compilation.context():  # the capture raises the same
        compilation.compile()
        return compilation.call_again()
    return {}


class Compilation:
    """One compile of a program. Call `compile` inside `context`.

    `emulation`: see `capture`. `deferred`: the wrapper
    modules, if the build is deferred.
    """

    def __init__(self, request: CaptureRequest, *, emulation: Emulation | None = None) -> None:
        import torch

        program, target, mode = request.program, request.target, request.mode
        prepare()
        pretended_device.register_operators(prepare().pretended_devices)
        if mode == "deviceless" and target.device != "cpu" and target.device not in prepare().pretended_devices:
            reason = prepare().problem
            raise environment.PreparationError(f"{target.name} cannot be generated without the device: {reason}")
        self._request = request
        self.emulation = _new_emulation(target) if request.emulate and emulation is None else emulation
        asks = (target.device in GPUS and mode == "deviceless") or target.device == "cpu"
        self.queries = DeviceQueries(target) if asks else None
        self._recorder = Recorder()
        defers = request.defer_build and mode == "native" and kernel_language(target.device) == "cpp"
        self.deferred = DeferredModules() if defers else None
        self.capture = Capture(
            case=program.name,
            target=target.name,
            mode=mode,
            torch=torch.__version__,
            triton=environment.triton_version(),
            modules=self._recorder.modules,
        )
        self._matches = PatternMatches(program.patterns, program.config)
        self._patches = [
            *self._recorder.patches(run=mode == "native", emulation=self.emulation, deferred=self.deferred),
            *unread.patches(explore=request.explore),
            *([PRE_FUSION] if request.texts else []),
            *self._matches.patches(),
        ]
        self._compiled: Callable[..., Any] | None = None

    @contextlib.contextmanager
    def context(self) -> Iterator[contextlib.ExitStack]:
        """The context of compiling, and of calling the compiled function. It may be entered again after it ended."""
        with contextlib.ExitStack() as stack:
            if self.emulation is not None:
                stack.enter_context(self.emulation.on_one_thread())
            request = self._request
            stack.enter_context(isolated(request.target, request.mode, dict(request.program.config), self.queries))
            stack.enter_context(applied(self._patches))
            stack.enter_context(kernels.observing())
            if request.explore:
                stack.enter_context(provenance.recording())
            yield stack

    def compile(self) -> None:
        """Compiles the program by calling it once. Raises what compiling raises."""
        import torch

        program, device = self._request.program, self._request.target.device
        with contextlib.ExitStack() as stack:
            explorer = None
            if self._request.explore:
                explorer = stack.enter_context(exploration.explore(program.name, device))
            torch._dynamo.utils.counters.clear()
            start, result = time.perf_counter(), self.capture
            with contextlib.ExitStack() as counter:
                calls = counter.enter_context(counting()) if self._request.counts_calls else {}
                self._compiled = program.compile(program, program.fn, device)
                raised = invoke.call(program, self._compiled, device)
            result.seconds, result.calls = time.perf_counter() - start, calls
            if not self._recorder.modules:
                result.error = raised.partition("\n")[0]
            result.joint_graph = self._recorder.joint_graph
            result.counters = {group: dict(counts) for group, counts in torch._dynamo.utils.counters.items()}
            result.matches = self._matches.results()
            result.unknown = kernels.unknown_facts(others=self._patches)
            result.exploration = explorer.finish() if explorer else None
            self._recorder.closed = True

    def call_again(self) -> dict[str, dict[str, int]]:
        """Makes the calls after the first one. Returns the groups of counters LATER_CALLS and LATER_REASONS."""
        program, compiled = self._request.program, self._compiled
        if compiled is None or program.later_calls is None:
            return {}
        made: dict[str, int] = {}
        reasons: dict[str, int] = {}
        for name, arguments in program.later_calls():
            before = dynamo.compiles()
            with contextlib.suppress(Exception):  # eager raises too for these sizes, or the numerics check says so
                invoke.call_with(program, compiled, arguments, self._request.target.device)
                found = dynamo.compiles().since(before)
                made[name] = sum(found.functions.values())
                reasons |= {f"{name}\t{reason}": 1 for reason in found.reasons()}
        return {dynamo.LATER_CALLS: made, dynamo.LATER_REASONS: reasons}

    def result(self) -> CaptureResult:
        runs = self._request.mode == "native" or self.emulation is not None
        build = self._build if self.deferred is not None else build_nothing
        extents = self.emulation.extents.report if self.emulation is not None else Report
        compiled = self._compiled if runs else None
        return CaptureResult(self.capture, compiled, build=build, queries=self.queries, extents=extents)

    def _build(self) -> None:
        """Loads the wrapper modules and makes the first call of their code. Raises what both raise."""
        if self.deferred is not None and self._compiled is not None:
            self.deferred.load()
            invoke.call(self._request.program, self._compiled, self._request.target.device)


def _new_emulation(target: Target) -> Emulation:
    from conformance.capture.emulation.wrapper import Emulation
    from conformance.capture.qemu.wrapper import ProcessorEmulation

    return ProcessorEmulation(target) if target.device == "cpu" else Emulation(target)
