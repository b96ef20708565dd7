"""Follows the memory that a generated graph holds, from the wrapper's own allocations, reuses and frees.

Decisions: when the wrapper allocates, reuses and frees a buffer (torch/_inductor/codegen/wrapper.py). They are read
after the codegen; no patch is needed. A symbolic size counts as in the compiled call. Memory that a library call takes
and gives back within itself does not count.
"""

from __future__ import annotations

from typing import Any

from conformance.capture.observers.buffers import is_tensor

#: Lines of the wrapper that call something: what is alive then counts.
_CALLS = ("KernelCallLine", "ExternKernelAllocLine", "ExternKernelOutLine", "ExternKernelMultiOutLine")


def memory(graph: Any) -> dict[str, Any]:
    """Of a GraphLowering: `peak`, the most bytes at a time; `at`, what the wrapper calls then; `left`, when it returns.

    The inputs do not count, except those that the backward gets for itself and frees: they are alive when it begins.
    """
    held = _Held(graph)
    for line in graph.wrapper_code.lines:
        held.follow(line)
    return {"peak": held.peak, "at": held.at, "left": held.left()}


class _Held:
    """`live`: storage → bytes. `storage`: buffer → its storage: buffers that reuse or view one have the same."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.live: dict[str, int] = {}
        self.storage: dict[str, str] = {}
        self.peak, self.at, self.called = 0, "", ""
        if graph.is_backward:
            freed = {_name(line.node) for line in graph.wrapper_code.lines if _frees(line)}
            for name in freed & graph.graph_inputs.keys():
                self.allocate(name)

    def follow(self, line: Any) -> None:
        kind = type(line).__name__
        if kind == "AllocateLine":
            self.allocate(_name(line.node), line.node)
        elif kind == "MultiOutputLine" and not self.is_view(line.result_name):
            self.allocate(line.result_name)
        elif kind in ("ReuseLine", "ReinterpretLine"):
            self.storage[_name(line.reused_as)] = self.storage.get(_name(line.node), _name(line.node))
            if kind == "ReuseLine" and line.delete_old:
                self.storage.pop(_name(line.node), None)
        elif _frees(line):
            self.free(_name(line.node))
        if kind == "ExternKernelAllocLine" and not self.is_view(_name(line.node)):
            self.allocate(_name(line.node), line.node)
        if kind in _CALLS:
            self.called = _called(line)
        if sum(self.live.values()) > self.peak:  # a buffer is allocated for the call that follows
            self.peak, self.at = sum(self.live.values()), "" if kind == "AllocateLine" else self.called
        elif not self.at and kind in _CALLS and self.peak:
            self.at = self.called

    def allocate(self, name: str, node: Any = None) -> None:
        self.storage[name] = name
        self.live[name] = _bytes(self.graph, node if node is not None else self.graph.try_get_buffer(name))

    def free(self, name: str) -> None:
        storage = self.storage.pop(name, None)
        if storage is not None and storage not in self.storage.values():
            self.live.pop(storage, None)

    def left(self) -> int:
        """Bytes of the outputs: what else is alive at the end goes when the wrapper returns."""
        names = [_name(each) for each in self.graph.graph_outputs if is_tensor(each)]
        return sum(self.live.get(each, 0) for each in {self.storage.get(name, "") for name in names})

    def is_view(self, name: str) -> bool:
        """Whether a call returns a part of its input: then there is nothing to free."""
        buffer = self.graph.try_get_buffer(name)
        return bool(buffer is not None and buffer.get_inputs_that_alias_output())


def _frees(line: Any) -> bool:
    kind = type(line).__name__
    return kind == "FreeLine" or (kind == "FreeIfNotReusedLine" and not line.is_reused)


def _name(node: Any) -> str:
    return node.get_name()


def _called(line: Any) -> str:
    return getattr(line, "kernel_name", "") or line.node.get_kernel_name() or type(line.node).__name__


def _bytes(graph: Any, node: Any) -> int:
    """Bytes of a buffer's storage; 0 of what is no tensor."""
    if node is None or getattr(node, "maybe_get_dtype", node.get_dtype)() is None:
        return 0
    try:
        elements = graph.get_allocation_storage_size(node)
    except (AttributeError, NotImplementedError):  # a tuple of results has no size: its parts have
        return 0
    return int(graph.sizevars.optimization_hint(elements, fallback=0)) * node.get_dtype().itemsize
