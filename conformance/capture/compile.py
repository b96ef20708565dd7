"""Compiles a case once for a target, natively or without the device, and records all that Inductor generates.

Private parts of torch, checked with 2.11 to 2.15: torch._dynamo.utils.counters, which nothing public returns;
torch._inductor.virtualized.V, which gives the graph that Inductor works on; and what the patches replace.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.capture import debug_output, exploration, invoke
from conformance.capture.deviceless import pretended_device
from conformance.capture.deviceless.prepare import prepare
from conformance.capture.isolation import isolated
from conformance.capture.model import Capture, Mode, Module, ModuleKind
from conformance.capture.observers import kernels
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.toolchain import cpu_isa
from conformance.cases.case import Case
from conformance.devices import environment
from conformance.devices.targets import Target

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation


@dataclass
class CaptureResult:
    """A capture and, if the code runs here, the compiled function.

    `compiled`: call it with the case's arguments. None if the code runs neither natively nor emulated in this process.
    `worker_numerics`: only where the GPU-free worker emulated the code. Returns the lines that say what the numerics
    check compared there, or raises what the check raised.
    """

    capture: Capture
    compiled: Callable[..., Any] | None
    worker_numerics: Callable[[], list[str]] | None = None


@contextlib.contextmanager
def capture(
    case: Case, target: Target, mode: Mode, *, explore: bool = False, emulation: Emulation | None = None
) -> Iterator[CaptureResult]:
    """Compiles `case` for `target`. Inside the context, the compiled function can be called if the code runs here.

    With gradients, the backward is lowered together with the forward. `explore`: also record each graph at each stage,
    bytecode, guards and torch's logs. `emulation`: runs the code for a missing GPU on the CPU.

    Raises PreparationError where `target` needs a device that cannot be pretended. Raises what compiling raises; but
    where the case says that eager raises and there is no code, the capture's `error` holds the exception's text.
    """
    import torch

    prepare()
    pretended_device.register_operators(prepare().pretended_devices)
    recorder = Recorder()
    result = Capture(
        case=case.id,
        target=target.name,
        mode=mode,
        torch=torch.__version__,
        triton=environment.triton_version(),
        modules=recorder.modules,
    )
    if mode == "deviceless" and target.device != "cpu" and target.device not in prepare().pretended_devices:
        raise environment.PreparationError(f"{target.name} cannot be generated without the device: {prepare().problem}")
    with contextlib.ExitStack() as stack:
        if emulation is not None:
            stack.enter_context(emulation.on_one_thread())
        stack.enter_context(isolated(target, mode, dict(case.config)))
        stack.enter_context(applied(recorder.patches(run=mode == "native", emulation=emulation)))
        stack.enter_context(kernels.observing())
        explorer = stack.enter_context(exploration.explore(case.id, target.device)) if explore else None
        torch._dynamo.utils.counters.clear()
        start = time.perf_counter()
        compiled = torch.compile(case.fn, dynamic=case.dynamic)
        raised = invoke.call(case, compiled, target.device, target.name)
        result.seconds = time.perf_counter() - start
        if not recorder.modules:
            result.error = raised.partition("\n")[0]
        result.joint_graph = recorder.joint_graph
        result.counters = {group: dict(counts) for group, counts in torch._dynamo.utils.counters.items()}
        result.exploration = explorer.finish() if explorer else None
        recorder.closed = True
        if emulation is not None:
            stack.enter_context(emulation.running())
        yield CaptureResult(result, compiled if mode == "native" or emulation is not None else None)


def generate_only(case: Case, target: Target) -> None:
    """Generates code without the device and records nothing. benchmarks/overhead.py compares `capture` with it."""
    import torch

    where = "torch._inductor.graph:GraphLowering.compile_to_module"
    generate = Patch(where, lambda _: _generate_module, "nothing is compiled or loaded")
    with isolated(target, "deviceless", dict(case.config)), applied([generate]):
        invoke.call(case, torch.compile(case.fn, dynamic=case.dynamic), target.device, target.name)


class Recorder:
    """Records each wrapper module when Inductor generates it, and the joint graph before it is partitioned.

    `closed`: record no more. Later code comes from recompiles for other inputs, or from a capture inside this one.
    """

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.joint_graph = ""
        self.closed = False

    def patches(self, *, run: bool, emulation: Emulation | None = None) -> list[Patch]:
        graph = "torch._inductor.graph:GraphLowering"
        patches = [
            Patch(f"{graph}.codegen", self._wrap_codegen, "the text of each module, before it is written and compiled"),
            Patch(
                f"{graph}.codegen_with_cpp_wrapper",
                self._wrap_codegen_with_cpp_wrapper,
                "with cpp_wrapper, this returns the module's text",
            ),
            Patch(
                "torch._inductor.debug:log_ir_pre_fusion",
                _wrap_log_ir_pre_fusion,
                "the scheduler's nodes before fusion: fusion replaces them",
                optional=True,
            ),
            Patch(
                "torch._inductor.compile_fx:_recursive_joint_graph_passes",
                self._wrap_joint_graph_passes,
                "the joint graph as AOTAutograd traced it",
            ),
        ]
        if "TORCH_TRACE" not in os.environ:
            patches.append(
                Patch(
                    "torch._dynamo.repro.after_aot:save_graph_repro",
                    lambda _: lambda *args, **kwargs: None,
                    "it writes a script for each graph into torch's trace, even without a trace: that costs time",
                    optional=True,
                )
            )
        if not run:

            def generate(graph: Any) -> Any:
                return _generate_module(graph, emulation)

            patches.append(Patch(f"{graph}.compile_to_module", lambda _: generate, "nothing is compiled or loaded"))
        return patches

    def _wrap_codegen(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen(graph: Any) -> Any:
            if type(graph).__name__ == "SubgraphLowering":
                return original(graph)  # of torch.cond etc.: its text is part of its parent's
            if self.closed:
                with applied(cpu_isa.CODEGEN_PATCHES):
                    return original(graph)
            kernels.reset()
            with applied(cpu_isa.CODEGEN_PATCHES):
                result = original(graph)
            kind: ModuleKind = "inference" if graph.is_inference else "forward"
            if graph.is_backward:
                kind = "backward"
            module = Module(kind=kind, code=result[0].value, observed=kernels.observations(graph))
            module.ir_pre_fusion = graph.__dict__.pop(_BEFORE_FUSION, "")
            module.defer("graph", lambda: _readable(graph.orig_gm))
            module.defer("ir_post_fusion", lambda: _generated_nodes(graph))
            self.modules.append(module)
            return result

        return codegen

    def _wrap_codegen_with_cpp_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen_with_cpp_wrapper(graph: Any) -> Any:
            if self.closed:
                return original(graph)
            start = len(self.modules)
            result = original(graph)
            del self.modules[start + 1 :]
            self.modules[start].code = result[0].value
            return result

        return codegen_with_cpp_wrapper

    def _wrap_joint_graph_passes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = (node for node in gm.graph.nodes if node.op == "placeholder")
            if not self.closed and any(node.name.startswith("tangents") for node in inputs):
                self.joint_graph = _readable(gm)
            return original(gm, *args, **kwargs)

        return joint_graph_passes


def _readable(gm: Any) -> str:
    return gm.print_readable(print_output=False, include_stride=True)


_BEFORE_FUSION = "_conformance_before_fusion"


def _wrap_log_ir_pre_fusion(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_ir_pre_fusion(nodes: Any) -> Any:
        from torch._inductor.virtualized import V

        V.graph.__dict__[_BEFORE_FUSION] = _nodes_text(nodes)
        return original(nodes)

    return log_ir_pre_fusion


def _nodes_text(nodes: Iterable[Any]) -> str:
    """The scheduler's nodes, as in Inductor's own debug folder."""
    return "\n".join(node.debug_str() for node in nodes)


def _generated_nodes(graph: Any) -> str:
    from torch._inductor.virtualized import V

    with V.set_graph_handler(graph):
        return _nodes_text(graph.scheduler.nodes)


def _generate_module(graph: Any, emulation: Emulation | None = None) -> Any:
    """Replaces GraphLowering.compile_to_module: generates code without compiling it.

    Calls of the returned module run the lowered graph eagerly, or the emulated code while the emulation runs.
    """
    import types

    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError

    code, _ = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
    debug_output.write_output_code(code.value)
    lowered = _eager_graph(graph.orig_gm)
    emulated = emulation.load(code.value, graph) if emulation else None

    def call(args: list[Any]) -> Any:
        if emulation is not None and emulated is not None and emulation.is_running:
            return emulated(args)
        values = list(args)
        args.clear()
        try:
            return lowered(*values)
        except (RuntimeError, EmulationError, NotEmulatedError):
            # NotImplementedError: the device has the operator, the CPU does not, such as flash attention. Other
            # errors: eager refuses what Inductor allows, such as copying between overlapping parts of one tensor.
            # Errors of a kernel that the user wrote show up when the case runs.
            return _uninitialised_results(lowered, values)

    # with CUDA graphs, Inductor would wrap each partition in its recorder
    unrecorded = types.SimpleNamespace(partitions=[], recursively_apply_fns=lambda fns: None)
    return types.SimpleNamespace(__file__="generated.py", __name__="generated", call=call, runner=unrecorded)


def _eager_graph(gm: Any) -> Any:
    """A copy of the graph to call eagerly.

    Without the nodes that unpack results of in-place foreach operators: eagerly, these return nothing.
    """
    import torch

    if not any(node.op == "call_function" and str(node.target).startswith("aten._foreach") for node in gm.graph.nodes):
        return copy.copy(gm)
    pruned = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    pruned.graph.eliminate_dead_code()
    pruned.recompile()
    return pruned


def _uninitialised_results(lowered: Any, values: list[Any]) -> Any:
    """Uninitialised tensors like the graph's results: enough to compile what follows after a graph break.

    Private: torch._subclasses.fake_tensor and torch.utils._pytree, which torch.compile itself uses (2.11 to 2.15).
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_map

    with FakeTensorMode(allow_non_fake_inputs=True):
        results = lowered(*values)

    def uninitialised(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)

    return tree_map(uninitialised, results)
