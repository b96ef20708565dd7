"""An explored capture: what the checks do not need, and whoever asks how the code came about wants to see.

Every replacement watches and changes nothing. A normal capture pays for none of this.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture import bytecode, repro_script, torch_logs
from conformance.capture.model import Exploration, Graph
from conformance.capture.patching.patch import Patch, applied


@contextlib.contextmanager
def explore(case: str, device: str) -> Iterator[Explorer]:
    """Watches what is compiled inside; `finish()` of what it gives, called before the end, says what was seen."""
    with torch_logs.record_logs() as log, bytecode.record_code_objects() as codes:
        explorer = Explorer(case, device, log, codes)
        with applied(explorer.patches()):
            yield explorer


class Explorer:
    def __init__(self, case: str, device: str, log: list[tuple[str, str]], codes: list[Any]) -> None:
        self._case, self._device, self._log, self._codes = case, device, log, codes
        self._graphs: list[Graph] = []
        self._scripts: list[repro_script.GraphScript] = []
        self._depth = 0

    def patches(self) -> list[Patch]:
        """All in torch._inductor.compile_fx, as it calls them by name; the same four in 2.11, 2.13 and 2.15."""
        module = "torch._inductor.compile_fx"
        return [
            Patch(f"{module}:compile_fx", self._compile, "Dynamo's graph and the values that it is called with"),
            Patch(f"{module}:_recursive_pre_grad_passes", self._pre_grad, "Dynamo's graph before and after its passes"),
            Patch(
                f"{module}:_recursive_joint_graph_passes", self._joint, "the joint graph before and after its passes"
            ),
            Patch(f"{module}:_recursive_post_grad_passes", self._post_grad, "the graphs before and after their passes"),
        ]

    def finish(self) -> Exploration:
        return Exploration(
            graphs=list(self._graphs),
            script=repro_script.script_text(self._case, self._device, self._scripts),
            frames=bytecode.frames(self._codes),
            log=[[artifact, message] for artifact, message in self._log],
        )

    def _take(self, stage: Any, when: str, gm: Any) -> None:
        self._graphs.append(Graph(stage, when, gm.print_readable(print_output=False, include_stride=True)))

    @contextlib.contextmanager
    def _outermost(self) -> Iterator[bool]:
        """Whether this call is no call of its own kind from within: passes go into subgraphs by calling themselves."""
        self._depth += 1
        try:
            yield self._depth == 1
        finally:
            self._depth -= 1

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        nested = False  # it calls itself with options settled

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

    def _pre_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def pre_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                if outermost:
                    self._take("captured", "as Dynamo captured it", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._take("captured", "after pre-grad passes", result)
            return result

        return pre_grad_passes

    def _joint(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                # without gradients the forward graph goes through these passes as well
                stage = "joint" if _has_tangents(gm) else "forward"
                if outermost:
                    self._take(stage, "as AOTAutograd traced it", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._take(stage, "after joint-graph passes", result)
            return result

        return joint_graph_passes

    def _post_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def post_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as outermost:
                stage = "backward" if _has_tangents(gm) else "forward"
                inference = args[0] if args else kwargs.get("is_inference", False)
                if outermost and not inference:
                    self._take(stage, "as it was partitioned", gm)
                result = original(gm, *args, **kwargs)
                if outermost:
                    self._take(stage, "after post-grad passes", gm)
            return result

        return post_grad_passes


def _has_tangents(gm: Any) -> bool:
    return any(node.name.startswith("tangents") for node in gm.graph.nodes if node.op == "placeholder")
