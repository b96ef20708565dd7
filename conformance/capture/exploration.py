"""An explored capture: graphs at each stage, bytecode, guards and logs. They show how Inductor made the code.

No check needs them, so a normal capture does not record them. The patches here only record.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture import bytecode, repro_script, torch_logs
from conformance.capture.model import Exploration, Graph, Stage
from conformance.capture.patching.patch import Patch, applied


@contextlib.contextmanager
def explore(case: str, device: str) -> Iterator[Explorer]:
    """Records all compiles inside the context. Call `finish()` of the yielded Explorer before the context ends."""
    with torch_logs.record_logs() as log, bytecode.record_code_objects() as codes:
        explorer = Explorer(case, device, log, codes)
        with applied(explorer.patches()):
            yield explorer


class Explorer:
    """`log`, `codes`: lists that torch_logs and bytecode fill. `case`, `device`: for the repro script."""

    def __init__(self, case: str, device: str, log: list[tuple[str, str]], codes: list[Any]) -> None:
        self._case, self._device, self._log, self._codes = case, device, log, codes
        self._graphs: list[Graph] = []
        self._scripts: list[repro_script.GraphScript] = []
        self._depth = 0

    def patches(self) -> list[Patch]:
        """Four functions that torch._inductor.compile_fx calls by name."""
        module = "torch._inductor.compile_fx"
        return [
            Patch(f"{module}:compile_fx", self._wrap_compile_fx, "Dynamo's graph and its input values"),
            Patch(f"{module}:_recursive_pre_grad_passes", self._wrap_pre_grad, "Dynamo's graph around its passes"),
            Patch(f"{module}:_recursive_joint_graph_passes", self._wrap_joint, "the joint graph around its passes"),
            Patch(f"{module}:_recursive_post_grad_passes", self._wrap_post_grad, "the graphs around their passes"),
        ]

    def finish(self) -> Exploration:
        """All that was recorded. Dynamo forgets the guards when it is reset, so call it before that."""
        return Exploration(
            graphs=list(self._graphs),
            script=repro_script.script_text(self._case, self._device, self._scripts),
            frames=bytecode.frames(self._codes),
            log=[[artifact, message] for artifact, message in self._log],
        )

    def _add_graph(self, stage: Stage, when: str, gm: Any) -> None:
        self._graphs.append(Graph(stage, when, gm.print_readable(print_output=False, include_stride=True)))

    @contextlib.contextmanager
    def _outermost(self) -> Iterator[bool]:
        """Yields whether the call is the outermost one: a pass calls itself for subgraphs."""
        self._depth += 1
        try:
            yield self._depth == 1
        finally:
            self._depth -= 1

    def _wrap_compile_fx(self, original: Callable[..., Any]) -> Callable[..., Any]:
        nested = False  # compile_fx calls itself, with its options applied

        @functools.wraps(original)
        def compile_fx(gm: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal nested
            if nested or not hasattr(gm, "graph"):
                return original(gm, *args, **kwargs)
            script = repro_script.GraphScript(gm)
            self._scripts.append(script)
            nested = True
            try:
                compiled = original(gm, *args, **kwargs)
            finally:
                nested = False

            @functools.wraps(compiled)
            def call(*values: Any) -> Any:
                boxed = len(values) == 1 and isinstance(values[0], list)
                script.record_inputs(values[0] if boxed else values)
                return compiled(*values)

            return call

        return compile_fx

    def _wrap_pre_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def pre_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                if outermost:
                    self._add_graph("captured", "as Dynamo captured it", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._add_graph("captured", "after pre-grad passes", result)
            return result

        return pre_grad_passes

    def _wrap_joint(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                # without gradients, the forward graph goes through these passes too
                stage: Stage = "joint" if _has_tangents(gm) else "forward"
                if outermost:
                    self._add_graph(stage, "as AOTAutograd traced it", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._add_graph(stage, "after joint-graph passes", result)
            return result

        return joint_graph_passes

    def _wrap_post_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def post_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                stage: Stage = "backward" if _has_tangents(gm) else "forward"
                inference = args[0] if args else kwargs.get("is_inference", False)
                if outermost and not inference:
                    self._add_graph(stage, "as it was partitioned", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._add_graph(stage, "after post-grad passes", gm)
            return result

        return post_grad_passes


def _has_tangents(gm: Any) -> bool:
    return any(node.name.startswith("tangents") for node in gm.graph.nodes if node.op == "placeholder")
