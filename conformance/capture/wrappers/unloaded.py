"""Wrapper modules that are not loaded: calls of them run the lowered graph eagerly.

Private parts of torch: what a GraphLowering has; schemas of operators; the mark of functions
that make IR; FakeTensorMode and tree_map.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.capture.emulation.wrapper import Emulation


#: Not empty within without_values.
_WITHOUT_VALUES: list[None] = []


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Within it, calls of modules that are not loaded compute nothing: their results are zeros.

    So a large function takes no longer than a small one. After a graph break, a function that looks at its values may
    take another way than it would with the right ones.
    """
    _WITHOUT_VALUES.append(None)
    try:
        yield
    finally:
        _WITHOUT_VALUES.pop()


def unrecorded_runner() -> Any:
    """Instead of a wrapper's `runner`: with CUDA graphs, Inductor would wrap each partition in its recorder."""
    return types.SimpleNamespace(partitions=[], recursively_apply_fns=lambda fns: None)


def generate_module(graph: Any, emulation: Emulation | None = None) -> Any:
    """Replaces GraphLowering.compile_to_module: generates code without compiling it.

    Calls of the returned module run the lowered graph eagerly, or the emulated code while the emulation runs.
    """
    code, _ = graph.codegen_with_cpp_wrapper() if graph.cpp_wrapper else graph.codegen()
    _write_output_code(code.value)
    eager = eager_function(graph)
    emulated = emulation.load(code.value, graph) if emulation else None

    def call(args: list[Any]) -> Any:
        if emulation is not None and emulated is not None and emulation.is_running:
            return emulated(args)
        return eager(args)

    return types.SimpleNamespace(__file__="generated.py", __name__="generated", call=call, runner=unrecorded_runner())


def eager_function(graph: Any) -> Callable[[list[Any]], Any]:
    """A function that runs the lowered graph of a GraphLowering eagerly, with the calling convention of its wrapper.

    Where eager cannot run the graph, it returns uninitialised tensors; inside without_values, zeros.
    """
    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError

    lowered = _graph_to_call(graph.orig_gm)

    def call(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        if _WITHOUT_VALUES:
            return _uninitialised_results(lowered, values, zeros=True)
        try:
            return lowered(*values)
        except (RuntimeError, EmulationError, NotEmulatedError):
            # NotImplementedError: the device has the operator, the CPU does not, such as flash attention. Other
            # errors: eager refuses what Inductor allows, such as copying between overlapping parts of one tensor.
            # Errors of a kernel that the user wrote show up when the case runs.
            return _uninitialised_results(lowered, values)

    return call


def _graph_to_call(gm: Any) -> Any:
    """A copy of the graph to call eagerly.

    Inductor lets in-place foreach operators return their results, and unpacks them. Eagerly, these operators return
    nothing: a result is the tensor that the operator has changed, the one of its first argument.

    A pattern can be replaced by a function that makes Inductor's IR. Eager cannot call it: its result is uninitialised.
    So is that of an operator whose weight is gone: a template that packs it anew removes the old one from the module.
    """
    import torch

    gone = {node.name for node in gm.graph.nodes if node.op == "get_attr" and not hasattr(gm, node.target)}
    if not gone and not any(_changed_tensor(node) is not None or _is_lowering(node) for node in gm.graph.nodes):
        return copy.copy(gm)
    graph = copy.deepcopy(gm.graph)
    for node in reversed(list(graph.nodes)):
        if node.name in gone:
            for user in list(node.users):
                user.target, user.args, user.kwargs = _uninitialised_result(user.meta["val"]), (), {}
            graph.erase_node(node)
    rewritten = torch.fx.GraphModule(gm, graph)
    for node in list(rewritten.graph.nodes):
        if (changed := _changed_tensor(node)) is not None:
            node.replace_all_uses_with(changed)
            rewritten.graph.erase_node(node)
        elif _is_lowering(node):
            node.target = _uninitialised_result(node.meta["val"])
    rewritten.recompile()
    return rewritten


def _is_lowering(node: Any) -> bool:
    """Whether the node calls a function that makes IR: what LoweringPatternEntry replaces a pattern by."""
    return node.op == "call_function" and hasattr(node.target, "_inductor_lowering_function")


def _uninitialised_result(example: Any) -> Callable[..., Any]:
    """A function that returns uninitialised tensors like those of `example`."""
    return lambda *_arguments, **_options: _uninitialised(example)


def _changed_tensor(node: Any) -> Any:
    """If `node` unpacks a result of an in-place foreach operator, the node of the tensor that this result is."""
    if node.op != "call_function" or node.target is not operator.getitem:
        return None
    source, place = node.args
    schema = getattr(getattr(source, "target", None), "_schema", None)
    if schema is None or not schema.name.startswith("aten::_foreach_") or schema.returns:
        return None
    return source.args[0][place]


def _uninitialised_results(lowered: Any, values: list[Any], *, zeros: bool = False) -> Any:
    """Uninitialised tensors like the graph's results: enough to compile what follows after a graph break.

    Private: torch._subclasses.fake_tensor and torch.utils._pytree, which torch.compile itself uses.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return _uninitialised(lowered(*values), zeros=zeros)


def _uninitialised(values: Any, *, zeros: bool = False) -> Any:
    """Tensors like these; where a size is a symbol, of its hint."""
    import torch
    from torch.utils._pytree import tree_map

    def size(number: Any) -> int:
        return int(number.node.hint) if isinstance(number, torch.SymInt) else int(number)

    def uninitialised(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        sizes, strides = map(size, value.size()), map(size, value.stride())
        made = torch.empty_strided(tuple(sizes), tuple(strides), dtype=value.dtype, device=value.device)
        return made.zero_() if zeros else made

    return tree_map(uninitialised, values)


def _write_output_code(code: str) -> None:
    """Writes generated code to the log (TORCH_LOGS=output_code) and the debug folder (TORCH_COMPILE_DEBUG).

    GraphLowering.compile_to_module does the same for code that it compiles.
    """
    from torch._inductor import config
    from torch._inductor.codecache import output_code_log  # TORCH_LOGS=output_code enables this logger
    from torch._inductor.virtualized import V

    output_code_log.debug("Output code: \n%s", code)
    if config.trace.enabled:  # TORCH_COMPILE_DEBUG sets it
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "output_code.py")
            path.write_text(code, encoding="utf-8")
            debug: Any = V.debug
            debug.output_code(str(path))
