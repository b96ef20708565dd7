"""One compile of a case for a target, natively or without the device, with everything watched that it generates."""

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
from conformance.capture.model import Capture, Mode, Module
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
    """A capture, and the compiled function (to be called with the case's arguments) where it runs: natively, or
    emulated. `worker_numerics`: where another process emulated it, says what its numerics compared there, or raises.
    """

    capture: Capture
    compiled: Callable[..., Any] | None
    worker_numerics: Callable[[], list[str]] | None = None


@contextlib.contextmanager
def capture(
    case: Case, target: Target, mode: Mode, *, explore: bool = False, emulation: Emulation | None = None
) -> Iterator[CaptureResult]:
    """Compiles `case` for `target`. Inside the context a native compiled function may be called again,
    and with `emulation` one for a gpu that is not there.

    Gradients: the backward is lowered together with the forward. `explore`: also each stage of each graph, bytecode,
    guards and torch's logs. Raises what compiling raises, unless the case says that eager raises: then the capture's
    `error` says it, where there is no code.
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
        stack.enter_context(kernels.watching())
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
    """Generates code without the device and keeps nothing: what benchmarks/overhead.py holds `capture` to."""
    import torch

    generate = Patch("torch._inductor.graph:GraphLowering.compile_to_module", lambda _: _generate_module, "as above")
    with isolated(target, "deviceless", dict(case.config)), applied([generate]):
        invoke.call(case, torch.compile(case.fn, dynamic=case.dynamic), target.device, target.name)


class Recorder:
    """Takes down each wrapper module as it is generated, and the joint graph before it is partitioned.

    `closed`: takes down nothing more, such as what is compiled again for other inputs, or by a capture inside this one.
    """

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.joint_graph = ""
        self.closed = False

    def patches(self, *, run: bool, emulation: Emulation | None = None) -> list[Patch]:
        graph = "torch._inductor.graph:GraphLowering"
        found = [
            Patch(f"{graph}.codegen", self._codegen, "the text of each module, before it is written and compiled"),
            Patch(
                f"{graph}.codegen_with_cpp_wrapper", self._outermost, "with cpp_wrapper, the text is what this returns"
            ),
            Patch(
                "torch._inductor.debug:log_ir_pre_fusion",
                _before_fusion,
                "the scheduler's nodes as they were before fusion: they are gone when the code is there",
                optional=True,
            ),
            Patch(
                "torch._inductor.compile_fx:_recursive_joint_graph_passes",
                self._joint,
                "the joint graph as AOTAutograd traced it",
            ),
        ]
        if "TORCH_TRACE" not in os.environ:
            found.append(
                Patch(
                    "torch._dynamo.repro.after_aot:save_graph_repro",
                    lambda _: lambda *args, **kwargs: None,
                    "a script for torch's trace, written for each graph whether or not there is a trace",
                    optional=True,
                )
            )
        if not run:

            def generate(graph: Any) -> Any:
                return _generate_module(graph, emulation)

            found.append(Patch(f"{graph}.compile_to_module", lambda _: generate, "nothing is compiled or loaded"))
        return found

    def _codegen(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen(graph: Any) -> Any:
            if type(graph).__name__ == "SubgraphLowering":
                return original(graph)  # of torch.cond and the like: its text stands in its parent's
            if self.closed:
                with applied(cpu_isa.CODEGEN_PATCHES):
                    return original(graph)
            kernels.start()
            with applied(cpu_isa.CODEGEN_PATCHES):
                result = original(graph)
            kind = "backward" if graph.is_backward else "inference" if graph.is_inference else "forward"
            module = Module(kind=kind, code=result[0].value, observed=kernels.module(graph))
            module.ir_pre_fusion = graph.__dict__.pop(_BEFORE_FUSION, "")
            module.defer("graph", lambda: _readable(graph.orig_gm))
            module.defer("ir_post_fusion", lambda: _generated_nodes(graph))
            self.modules.append(module)
            return result

        return codegen

    def _outermost(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def codegen_with_cpp_wrapper(graph: Any) -> Any:
            if self.closed:
                return original(graph)
            start = len(self.modules)
            result = original(graph)
            del self.modules[start + 1 :]
            self.modules[start].code = result[0].value
            return result

        return codegen_with_cpp_wrapper

    def _joint(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = (node for node in gm.graph.nodes if node.op == "placeholder")
            if not self.closed and any(node.name.startswith("tangents") for node in inputs):
                self.joint_graph = _readable(gm)
            return original(gm, *args, **kwargs)

        return joint_graph_passes


def _readable(gm: Any) -> str:
    return gm.print_readable(print_output=False, include_stride=True)


_BEFORE_FUSION = "_conformance_before_fusion"


def _before_fusion(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_ir_pre_fusion(nodes: Any) -> Any:
        from torch._inductor.virtualized import V

        V.graph.__dict__[_BEFORE_FUSION] = _nodes(nodes)
        return original(nodes)

    return log_ir_pre_fusion


def _nodes(nodes: Iterable[Any]) -> str:
    """The scheduler's nodes as Inductor's own debug folder shows them."""
    return "\n".join(node.debug_str() for node in nodes)


def _generated_nodes(graph: Any) -> str:
    from torch._inductor.virtualized import V

    with V.set_graph_handler(graph):
        return _nodes(graph.scheduler.nodes)


def _generate_module(graph: Any, emulation: Emulation | None = None) -> Any:
    """In place of GraphLowering.compile_to_module: generate, and answer calls with the graph that was lowered, or with
    what was generated while the emulation runs.
    """
    import types

    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError

    code, _ = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
    debug_output.write_output_code(code.value)
    lowered = _callable(graph.orig_gm)
    emulated = emulation.load(code.value, graph) if emulation else None

    def call(args: list[Any]) -> Any:
        if emulated is not None and emulation.runs:
            return emulated(args)
        values = list(args)
        args.clear()
        try:
            return lowered(*values)
        except (RuntimeError, EmulationError, NotEmulatedError):
            # NotImplementedError: an operator of the device's alone, such as flash attention. Others: what eager
            # refuses and Inductor does not, such as to copy between parts of one tensor that overlap. Of a kernel that
            # the user wrote, what is wrong with it is found when the case runs.
            return _unset(lowered, values)

    # of CUDA graphs: would wrap each partition in what records it
    unrecorded = types.SimpleNamespace(partitions=[], recursively_apply_fns=lambda fns: None)
    return types.SimpleNamespace(__file__="generated.py", __name__="generated", call=call, runner=unrecorded)


def _callable(gm: Any) -> Any:
    """The graph to be called eagerly, without what unpacks in-place foreach operators, which return nothing there."""
    import torch

    if not any(node.op == "call_function" and str(node.target).startswith("aten._foreach") for node in gm.graph.nodes):
        return copy.copy(gm)
    found = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    found.graph.eliminate_dead_code()
    found.recompile()
    return found


def _unset(lowered: Any, values: list[Any]) -> Any:
    """Tensors like the results, with no values in them: enough for what is compiled after a graph break."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_map

    with FakeTensorMode(allow_non_fake_inputs=True):
        results = lowered(*values)

    def unset(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)

    return tree_map(unset, results)
