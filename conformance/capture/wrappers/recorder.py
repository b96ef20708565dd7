"""Records each wrapper module when Inductor generates it.

Private parts of torch: torch._inductor.virtualized.V, which gives the graph that Inductor
works on; and what the patches replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from conformance.capture.model import Module, ModuleKind
from conformance.capture.observers import kernels
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.toolchain import cpu_isa
from conformance.capture.wrappers.deferred import DeferredModules
from conformance.capture.wrappers.unloaded import generate_module

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation


class Recorder:
    """Records each wrapper module when Inductor generates it, and the joint graph before it is partitioned.

    `closed`: record no more. Later code comes from recompiles for other inputs, or from a capture inside this one.
    """

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.joint_graph = ""
        self.closed = False

    def patches(
        self, *, run: bool, emulation: Emulation | None = None, deferred: DeferredModules | None = None
    ) -> list[Patch]:
        """The patches that record. `run`: Inductor compiles and loads each module; with `deferred`, later."""
        graph = "torch._inductor.graph:GraphLowering"
        patches = [
            Patch(f"{graph}.codegen", self._wrap_codegen, "the text of each module, before it is written and compiled"),
            Patch(
                f"{graph}.codegen_with_cpp_wrapper",
                self._wrap_codegen_with_cpp_wrapper,
                "with cpp_wrapper, this returns the module's text",
            ),
            Patch(
                "torch._inductor.compile_fx:_recursive_joint_graph_passes",
                self._wrap_joint_graph_passes,
                "the joint graph as AOTAutograd traced it",
            ),
        ]
        if deferred is not None:
            patches.append(deferred.patch(lambda: self.closed))
        elif not run:

            def generate(graph: Any) -> Any:
                return generate_module(graph, emulation)

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


PRE_FUSION = Patch(
    "torch._inductor.debug:log_ir_pre_fusion",
    _wrap_log_ir_pre_fusion,
    "the scheduler's nodes before fusion: fusion replaces them",
    optional=True,
)


def _nodes_text(nodes: Iterable[Any]) -> str:
    """The scheduler's nodes, as in Inductor's own debug folder."""
    return "\n".join(node.debug_str() for node in nodes)


def _generated_nodes(graph: Any) -> str:
    from torch._inductor.virtualized import V

    with V.set_graph_handler(graph):
        return _nodes_text(graph.scheduler.nodes)
