"""Records where each line of a kernel comes from: the operation of a loop body, and the FX node that was lowered to it.

Decisions: the lowering of an FX node to the function of a loop body (torch/_inductor/ir.py: Loops, ComputedBuffer), the
trace of that function (loop_body.py: LightTracer), and the lines that it is generated to (utils.py: IndentedBuffer;
codegen/common.py: CSE). Torch's own provenance (torch/_inductor/debug.py) links a whole kernel to its FX nodes.

Only an explored capture has the records. Private parts of torch: torch._inductor.virtualized.V, and what the patches
replace.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from conformance.capture.patching.patch import Patch, applied

#: On an IR node: the FX node that was lowered to it. In the meta of a loop body's operation: the FX node's name.
_LOWERED = "_conformance_lowered"
#: On a graph: (number of the kernel object, text, scheduler node, operation) of each line, in order.
_LINES = "_conformance_lines"
_NUMBER = "_conformance_number"
_FRAME = re.compile(r'File "([^"]*)", line (\d+)')

#: Not empty during `recording`.
_recording: list[None] = []
#: The names of the FX nodes whose loop functions run now, the innermost one last.
_running: list[str] = []


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records the provenance of all that is compiled during the context."""
    with applied(_patches()):
        _recording.append(None)
        try:
            yield
        finally:
            _recording.pop()


def _patches() -> list[Patch]:
    """A torch without one of the names gives fewer links: each patch is optional."""
    reasons = {
        "ir:Loops.__post_init__": (_loops, "records which FX node a loop's function was lowered from"),
        "ir:ComputedBuffer.get_store_function": (_store_function, "the same for reductions and stores"),
        "loop_body:LightTracer.create_node": (_create_node, "records the FX node of an operation"),
        "utils:IndentedBuffer.writeline": (_writeline, "records the operation that a line is generated from"),
        "codegen.common:CSE.generate": (_generate, "records the other operations whose value is in the line already"),
    }
    return [Patch(f"torch._inductor.{name}", make, why, optional=True) for name, (make, why) in reasons.items()]


def provenance(graph: Any, records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The provenance of `graph` after its codegen: JSON-able. Empty outside of `recording`.

    `records`: its calls, as kernels.py keeps them. `sources`: FX node → [file, line] of each frame, innermost last.
    `ops`: scheduler node → `origins`, its FX nodes; `buffers`; `body`, operation → the FX node that it comes from.
    `calls`: of each call, the scheduler nodes of each loop nest. `lines`: [kernel object, text, scheduler node,
    operation] of each line, in the order in which they were written.
    """
    if not _recording:
        return {}
    nodes = {
        inner.get_name(): inner
        for record in records
        for each in record["nodes"]
        for inner in each.get_nodes()
        if getattr(inner, "node", None) is not None
    }
    return {
        "provenance": {
            "sources": _sources(graph.orig_gm.graph.nodes),
            "ops": {name: _operation(node) for name, node in nodes.items()},
            "calls": [[_names(nest["nodes"]) for nest in record.get("nests", [record])] for record in records],
            "lines": [list(line) for line in dict.fromkeys(graph.__dict__.get(_LINES, []))],
        }
    }


def _names(nodes: Iterable[Any]) -> list[str]:
    return [inner.get_name() for node in nodes for inner in node.get_nodes()]


def _sources(nodes: Iterable[Any]) -> dict[str, list[list[Any]]]:
    """The frames of each FX node. A node that a pass made without any has those of a node that takes its result."""
    found: dict[str, list[list[Any]]] = {}
    for node in reversed(list(nodes)):
        frames = _frames(node)
        if not frames and node.op == "call_function":
            frames = next((found[user.name] for user in node.users if user.name in found), [])
        if frames:
            found[node.name] = frames
    return found


def _frames(node: Any) -> list[list[Any]]:
    text = node.meta.get("stack_trace") or node.meta.get("fwd_stack_trace") or ""
    return [[file, int(line)] for file, line in _FRAME.findall(text)]


def _operation(node: Any) -> dict[str, Any]:
    body = getattr(node, "_body", None)
    blocks = [body.root_block, *body.subblocks.values()] if body is not None else []
    lowered: dict[Any, str] = {}
    for each in (each for block in blocks for each in block.graph.nodes):
        of_inputs = (lowered.get(node, "") for node in each.all_input_nodes)  # a pass has added it, such as a cast
        lowered[each] = each.meta.get(_LOWERED, "") or next(filter(None, of_inputs), "")
    # A library call also has the origins of its arguments.
    origin = node.node.get_origin_node() if body is None else None
    return {
        "origins": sorted(each.name for each in ([origin] if origin else node.node.get_origins())),
        "buffers": sorted(node.get_buffer_names()),
        "body": {each.name: name for each, name in lowered.items()},
    }


# Lowering -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _lowered_from(name: str) -> Iterator[None]:
    _running.append(name)
    try:
        yield
    finally:
        _running.pop()


def _within(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def of_node(*args: Any, **kwargs: Any) -> Any:
        with _lowered_from(name):
            return function(*args, **kwargs)

    return of_node


def _loops(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def post_init(self: Any) -> None:
        original(self)
        from torch._inductor.virtualized import V

        name = getattr(getattr(V, "current_node", None), "name", "")
        if name:
            object.__setattr__(self, _LOWERED, name)  # the class is frozen
            object.__setattr__(self, "inner_fn", _within(name, self.inner_fn))

    return post_init


def _store_function(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_store_function(self: Any) -> Any:
        name = getattr(self.data, _LOWERED, "")
        return _within(name, original(self)) if name else original(self)

    return get_store_function


def _create_node(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = original(self, *args, **kwargs)
        older = _operation_now()  # a body is traced again when its loops change
        name = older.meta.get(_LOWERED, "") if older is not None else ""
        if name or _running:
            node.meta[_LOWERED] = name or _running[-1]
        return node

    return create_node


# Codegen --------------------------------------------------------------------------------------------------------------

_numbers = itertools.count()


def _operation_now() -> Any:
    """The operation of a loop body that is traced or generated now; None outside of that."""
    from torch._inductor.virtualized import V

    return getattr(V.interpreter, "current_node", None)


def _record(texts: Sequence[str]) -> None:
    from torch._inductor.virtualized import V

    operation, scheduled = _operation_now(), getattr(V.kernel, "current_node", None)
    if operation is None or scheduled is None:
        return
    number = V.kernel.__dict__.setdefault(_NUMBER, next(_numbers))
    lines = V.graph.__dict__.setdefault(_LINES, [])
    lines += [(number, text.strip(), scheduled.get_name(), operation.name) for text in texts if text.strip()]


def _writeline(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def writeline(self: Any, line: Any) -> Any:
        text = line if isinstance(line, str) else getattr(line, "line", "")
        if isinstance(text, str):
            _record([text])
        return original(self, line)

    return writeline


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def generate(self: Any, buffer: Any, expr: Any, **kwargs: Any) -> Any:
        value = original(self, buffer, expr, **kwargs)
        if kwargs.get("assignment", True) and isinstance(expr, str):
            _record([f"{self.prefix}{value} = {expr}{self.suffix}"])
        return value

    return generate
