"""Follows the memory that a generated graph holds, from the wrapper's own allocations, reuses and frees.

Decisions: when the wrapper allocates, reuses and frees a buffer (torch/_inductor/codegen/wrapper.py). They are read
after the codegen; no patch is needed. A symbolic size counts as in the compiled call. Memory that a library call takes
and gives back within itself does not count, and of a graph for a GPU what is on the CPU does not.

A subgraph is followed in each of its calls; of a condition, each branch. What lives within a loop is not known.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterable
from typing import Any

from conformance.capture.observers.buffers import is_tensor

#: The two lines that call a subgraph: its arguments, which the call takes away from the caller, and the call.
_ARGUMENTS, _CALL = re.compile(r"(\w+)_args = (\[.*\])"), re.compile(r"(\w+) = (\w+)\(\2_args\)")
#: Lines of the wrapper that call something: what is alive then counts.
_CALLS = ("KernelCallLine", "ExternKernelAllocLine", "ExternKernelOutLine", "ExternKernelMultiOutLine")


def memory(graph: Any) -> dict[str, Any]:
    """Of a GraphLowering: `peak`, the most bytes at a time; `at`, what the wrapper calls then; `alive`, what is alive
    then, the largest first. `begins`, `left`: bytes when it begins, and when it returns. `saved`: of the latter, what
    only the backward needs.

    `formula`: the peak as an expression of the symbols; "" without any. The inputs of the forward do not count. What
    the backward gets for itself and frees does: it is alive when it begins.
    """
    held = _Held(graph)
    begins = held.peak
    held.follow_all(graph)
    held.end_call()
    visible = _visible(graph)
    left, shown = held.storages(graph.graph_outputs), held.storages(visible)
    return {
        "peak": held.peak,
        "begins": begins,
        "at": held.at,
        "alive": held.alive(),
        "left": sum(held.live[storage] for storage in left),
        "saved": sum(held.live[storage] for storage in left - shown),
        "formula": held.formula(),
    }


#: The fake mode of a compile → the storages of its forward's inputs: the caller has them also in the backward.
_forward_inputs: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()


class _Held:
    """What is alive after each line. `live`: storage → bytes. `storage`: buffer → its storage: buffers that reuse or
    view one have the same. `at_peak`: `live` at the peak. `at`: what the wrapper calls then.
    """

    def __init__(self, graph: Any) -> None:
        self.graph, self.on_gpu = graph, bool(graph.device_types - {"cpu", "meta"})
        self.live: dict[str, int] = {}
        self.storage: dict[str, str] = {}
        self.peak, self.at, self.at_peak = 0, "", dict[str, int]()
        self._sizes: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._unnamed: dict[str, set[str]] = {}  # a call's buffer → its results that have no variable
        self._waits = False  # a buffer is allocated for the call that follows
        self._before_branches = dict[str, int](), dict[str, str]()
        storages, forwards = _input_storages(graph), _forward_inputs.setdefault(graph.fake_mode, set())
        if graph.is_backward:
            freed = {_name(line.node) for line in graph.wrapper_code.lines if _frees(line)}
            for name, storage in storages.items():
                if name in freed and storage not in forwards:
                    self.allocate(name)
        else:
            forwards.update(storages.values())

    def follow_all(self, graph: Any) -> None:
        for line in graph.wrapper_code.lines:
            if isinstance(line, str):
                self.follow_text(line)
            else:
                self.follow(line)

    def follow(self, line: Any) -> None:
        kind = type(line).__name__
        if kind == "AllocateLine":
            self.allocate(_name(line.node), line.node)
        elif kind == "AllocFromPoolLine":
            self.take_from_pool(line)
        elif kind == "DeallocFromPoolLine" and line.is_last_pool_usage:
            self.drop_pool(_pool(line))
        elif kind == "MultiOutputLine":
            self.name_part(line.result_name, f"{line.arg_name}[{line.indices[0][1]}]" if line.indices else "")
        elif kind in ("ReuseLine", "ReinterpretLine"):
            self.storage[_name(line.reused_as)] = self.storage.get(_name(line.node), _name(line.node))
            if kind == "ReuseLine" and line.delete_old:
                self.storage.pop(_name(line.node), None)
        elif _frees(line):
            for name in self._unnamed.pop(_name(line.node), {_name(line.node)}):
                self.free(name)
        if kind == "ExternKernelAllocLine" and not line.node.get_inputs_that_alias_output():
            for node in _results(line.node) or [line.node]:
                self.allocate(_name(node), node)
                self._unnamed.setdefault(_name(line.node), set()).add(_name(node))
        if kind in _CALLS:
            self.end_call(_called(line))

    def follow_text(self, line: str) -> None:
        """Calls of subgraphs, and the branches of a condition: each begins with what the first one does."""
        if line.startswith("if "):
            self._before_branches = dict(self.live), dict(self.storage)
        elif line.startswith(("elif ", "else:")):
            live, storages = self._before_branches
            self.live, self.storage = dict(live), dict(storages)
        elif (found := _ARGUMENTS.fullmatch(line)) and found[1] in _subgraphs(self.graph):
            (arguments,) = ast.iter_child_nodes(ast.parse(found[2], mode="eval"))
            for number, each in enumerate(ast.iter_child_nodes(arguments)):
                names = (ast.unparse(part) for part in ast.walk(each))
                if storage := next((self.storage[name] for name in names if name in self.storage), None):
                    self.storage[f"{found[1]}_args[{number}]"] = storage
        elif (found := _CALL.fullmatch(line)) and (graph := _subgraphs(self.graph).get(found[2])):
            self.call(graph, found[1])

    def call(self, graph: Any, result: str) -> None:
        """Follows a subgraph, whose names begin with its own. `result`: the variable of its results."""
        caller, branches = self.graph, self._before_branches
        for number, name in enumerate(graph.graph_inputs):
            if storage := self.storage.pop(f"{graph.name}_args[{number}]", None):
                self.storage[name] = storage
        self.graph = graph
        self.follow_all(graph)
        self.graph, self._before_branches = caller, branches
        outputs = [self.storage.get(_name(each), "") if is_tensor(each) else "" for each in graph.graph_outputs]
        self.storage |= {f"{result}[{number}]": storage for number, storage in enumerate(outputs)}
        for name in [each for each in self.storage if each.startswith(f"{graph.name}_")]:
            self.free(name)

    def end_call(self, name: str = "") -> None:
        if self._waits:
            self.at, self._waits = name, False

    def allocate(self, name: str, node: Any = None) -> None:
        node = node if node is not None else self.graph.try_get_buffer(name)
        self.storage[name] = storage = f"{name} {len(self._sizes)}"  # a subgraph has its names in each call
        self._hold(storage, _size(self.graph, node) if self.counts(node) else 0, _text(node))

    def counts(self, node: Any) -> bool:
        device = node.get_device() if self.on_gpu and is_tensor(node) else None
        return not (self.on_gpu and (_is_elsewhere(node) or (device is not None and device.type == "cpu")))

    def name_part(self, name: str, part: str) -> None:
        """A variable gets one of the results of a call: with the call's own variable, the others go. `part`: as the
        result of a subgraph.
        """
        if part in self.storage:
            self.storage[name] = self.storage[part]
            return
        parts = next((each for each in self._unnamed.values() if name in each), None)
        if parts is not None:
            parts.remove(name)
        elif not self.is_view(name):
            self.allocate(name)

    def take_from_pool(self, line: Any) -> None:
        pool = _pool(line)
        if line.is_first_pool_usage:
            self._hold(pool, line.group.allocation.pool.root.get_symbolic_size(), "a pool")
        self.storage |= dict.fromkeys(line.group.names, pool)

    def drop_pool(self, pool: str) -> None:
        """The pool lives on if an output is in it."""
        outputs = {_name(each) for each in self.graph.graph_outputs if is_tensor(each)}
        if not any(self.storage.get(name) == pool for name in outputs):
            self.live.pop(pool, None)

    def _hold(self, storage: str, size: Any, text: str) -> None:
        """`size`: bytes, an expression of sympy."""
        self._sizes[storage], self._texts[storage] = size, text
        self.live[storage] = int(self.graph.sizevars.optimization_hint(size, fallback=0))
        if (total := sum(self.live.values())) > self.peak:
            self.peak, self.at_peak, self._waits = total, dict(self.live), True

    def free(self, name: str) -> None:
        for part in [each for each in self.storage if each.startswith(f"{name}[")]:  # of the results of a subgraph
            self.free(part)
        storage = self.storage.pop(name, None)
        if storage is not None and storage not in self.storage.values():
            self.live.pop(storage, None)

    def storages(self, outputs: Iterable[Any]) -> set[str]:
        """The storages of the outputs, without those of inputs."""
        return {self.storage.get(_name(each), "") for each in outputs if is_tensor(each)} & self.live.keys()

    def is_view(self, name: str) -> bool:
        """Whether a call returns a part of its input: then there is nothing to free."""
        buffer = self.graph.try_get_buffer(name)
        return bool(buffer is not None and buffer.get_inputs_that_alias_output())

    def alive(self) -> list[str]:
        """Bytes and text of each storage at the peak, the largest first."""
        largest = sorted(self.at_peak, key=lambda each: (-self.at_peak[each], self._texts[each]))
        return [f"{self.at_peak[each]} bytes: {self._texts[each]}" for each in largest if self.at_peak[each]]

    def formula(self) -> str:
        import sympy

        total = sympy.expand(sympy.Add(*(self._sizes[storage] for storage in self.at_peak)))
        return str(total) if total.free_symbols else ""


def _subgraphs(graph: Any) -> dict[str, Any]:
    """Name → the subgraphs that a graph calls, without those of loops."""
    calls = [vars(each) for each in graph.operations if type(each).__name__ != "WhileLoop"]
    values = [value for call in calls for value in call.values()]
    found = [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]
    return {each.graph.name: each.graph for each in found if type(each).__name__ == "Subgraph"}


def _input_storages(graph: Any) -> dict[str, int]:
    """Input → the storage of its fake tensor, which a view of it has too, also in the backward."""
    import torch

    values = {node.name: node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")}
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    return {name: value.untyped_storage()._cdata for name, value in tensors.items()}


def _results(node: Any) -> list[Any]:
    """The tensors that a fallback returns, each a buffer."""
    found, left = list[Any](), [getattr(node, "outputs", None)]
    while left:
        each = left.pop()
        if isinstance(each, (list, tuple)):
            left.extend(each)
        elif isinstance(each, dict):
            left.extend(each.values())
        elif is_tensor(each):
            found.append(each)
    return found


def _is_elsewhere(node: Any) -> bool:
    """Whether this is a result of an attention that has no memory on the GPU, although its fake tensor has.

    Seed and offset are on the CPU, where no CUDA graph is captured. cuDNN has the logarithms of the sums for the
    backward alone.
    """
    call = node.inputs[0] if type(node).__name__ == "MultiOutput" else None
    name = str(getattr(call, "op_overload", "")).removeprefix("aten._scaled_dot_product_").partition(".")[0]
    if name == "cudnn_attention":
        return node.indices[-1][1] == 1 and not _argument(call, "compute_log_sumexp")
    return (
        name in ("efficient_attention", "flash_attention")
        and not node.get_size()
        and not node.get_dtype().is_floating_point
    )


def _argument(call: Any, name: str) -> Any:
    """A constant argument of a fallback."""
    arguments, _ = call.unflatten_args(call.inputs, call.constant_args)
    names = [each.name for each in call.op_overload._schema.arguments]
    return dict(zip(names, arguments, strict=False)).get(name)


def _pool(line: Any) -> str:
    return f"pool {id(line.group.allocation.pool)}"


def _text(node: Any) -> str:
    """Dtype, shape and operator of a buffer: `float32 [40, 100] of aten.sin`. A kernel's own: a workspace."""
    if type(node).__name__ == "WorkspaceArg":
        return f"{str(node.get_dtype()).removeprefix('torch.')} [{node.count}], a workspace"
    if node is None or not is_tensor(node):
        return "no tensor"
    origin = getattr(node, "origin_node", None)
    operator = getattr(getattr(origin, "target", None), "_overloadpacket", "")
    shape = ", ".join(map(str, node.get_size()))
    return f"{str(node.get_dtype()).removeprefix('torch.')} [{shape}]{f' of {operator}' if operator else ''}"


def _visible(graph: Any) -> list[Any]:
    """The outputs that the caller of a forward gets, with those before them: inputs that it changes. All of others."""
    (node,) = graph.graph.find_nodes(op="output")
    positions = node.meta.get("user_visible_output_idxs")
    return graph.graph_outputs[: max(positions) + 1] if positions and not graph.is_backward else graph.graph_outputs


def _frees(line: Any) -> bool:
    kind = type(line).__name__
    return kind == "FreeLine" or (kind == "FreeIfNotReusedLine" and not line.is_reused)


def _name(node: Any) -> str:
    return node.get_name()


def _called(line: Any) -> str:
    return getattr(line, "kernel_name", "") or line.node.get_kernel_name() or type(line.node).__name__


def _size(graph: Any, node: Any) -> Any:
    """Bytes of a buffer's storage, an expression of sympy; 0 of what is no tensor."""
    import sympy

    if node is None or getattr(node, "maybe_get_dtype", node.get_dtype)() is None:
        return sympy.Integer(0)
    try:
        return graph.get_allocation_storage_size(node) * node.get_dtype().itemsize
    except (AttributeError, NotImplementedError):  # a tuple of results has no size: its parts have
        return sympy.Integer(0)
