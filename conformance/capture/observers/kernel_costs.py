"""Records the bytes that each kernel and each call must move, and the operations that it must compute.

Decisions: what each scheduler node reads and writes (see buffers.py), the operations of loop bodies
(torch/_inductor/loop_body.py: LoopBody.op_counts), and the graph's operators that a library call or a template computes
(IRNode.origins), whose operations torch.utils.flop_counter counts. They are read after the codegen; no patch is
needed. A symbolic size counts as in the compiled call.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conformance.capture.observers import buffers

#: What a loop body holds besides operations. Any operation that no set names costs one multiply-add.
_FREE = {
    *("constant", "load", "load_seed", "store", "store_reduction", "get_index", "index_expr", "value_expr", "masked"),
    *("indirect_indexing", "check_bounds", "to_dtype", "to_dtype_bitcast", "identity", "output", "ops", "placeholder"),
    *("device_assert_async", "set_indirect", "partial_accumulate"),
}
#: The special function units of a GPU make one of these while other units make eight multiply-adds.
_SPECIAL = {
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "truediv", "div_rn", "int_truediv", "sigmoid"),
    *("truncdiv", "floordiv", "mod", "remainder", "fmod"),
}
_SPECIAL_COST = 8
#: A polynomial, often with several ranges.
_LONG = {
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "pow"),
    *("erf", "erfc", "erfinv", "erfcx", "expm1", "log1p", "log10", "hypot", "lgamma", "digamma", "polygamma", "zeta"),
}
_LONG_COST = 30
#: Ten rounds of Philox.
_RANDOM = {"rand", "randn", "randint64"}
_RANDOM_COST = 100
#: One compare and exchange of a bitonic sort, which takes log2(n) (log2(n) + 1) / 2 of them.
_SORT_STEP_COST = 8
#: Data sheets count a multiply-add as two operations.
_MULTIPLY_ADD = 2

#: Operators that flop_counter has no formula for → the operator with the same formula.
_SAME_FORMULA = {
    "aten._int_mm": "mm",
    "aten._scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_fused_attention_overrideable": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_fused_attention_overrideable_backward": "_scaled_dot_product_flash_attention_backward",
}


def costs(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The cost of each recorded call, in the same order, after the codegen of its graph: JSON-able.

    `read`, `written`: bytes, as buffers.bytes_moved counts them; together all calls have the bytes of their graphs.
    `operations`: class → number. The classes: "f64", "f32", "integer" for loops; "matrix f32", "matrix tf32"
    and the like for the products, convolutions and attention of library calls and templates, by the dtype of the first
    tensor. An operation
    of a loop counts as two for each multiply-add that takes as long. A library call without a formula has none.
    """
    from torch._inductor.virtualized import V

    found: list[dict[str, Any]] = [{"read": 0, "written": 0, "operations": {}} for _ in records]
    graphs = {id(record["graph"]): record["graph"] for record in records}
    for key, graph in graphs.items():
        own = [(record, cost) for record, cost in zip(records, found, strict=True) if id(record["graph"]) == key]
        with V.set_graph_handler(graph):  # a subgraph has buffers of its own
            _add_bytes(graph, own)
            for record, cost in own:
                cost["operations"] = dict(sorted(_operations(graph, record).items()))
    return found


# Bytes ----------------------------------------------------------------------------------------------------------------


class _Part:
    """The nodes of one scheduler node that belong to one kernel."""

    def __init__(self, whole: Any, nodes: Sequence[Any]) -> None:
        self.kernel_node = getattr(whole, "kernel_node", None)
        self._nodes = list(nodes)

    def get_nodes(self) -> list[Any]:
        return self._nodes

    def get_buffer_names(self) -> set[str]:
        return {name for node in self._nodes for name in node.get_buffer_names()}


def _add_bytes(graph: Any, own: Sequence[tuple[Mapping[str, Any], dict[str, Any]]]) -> None:
    """Adds what the nodes of each call read and write. What names a part of a result belongs to the call that made it.

    A C++ function runs several scheduler nodes, one after the other; a foreach node can be several kernels.
    """
    wholes = {inner.get_name(): node for node in graph.scheduler.nodes for inner in node.get_nodes()}
    makers: dict[str, dict[str, Any]] = {}  # buffer → the cost of the call that makes it
    local = {*graph.removed_buffers, *graph.inplaced_to_remove}
    for node in graph.scheduler.nodes:
        local |= buffers.between(node)
    for record, cost in own:
        parts: dict[int, list[Any]] = {}
        for node in _nodes(record):
            parts.setdefault(id(wholes.get(node.get_name(), node)), []).append(node)
            makers |= dict.fromkeys(node.get_buffer_names(), cost)
        for nodes in parts.values():
            read, written = buffers.traffic(graph, _Part(wholes.get(nodes[0].get_name()), nodes), local)
            cost["read"] += read
            cost["written"] += written
    for node in graph.scheduler.nodes:
        if buffers.is_part(node) and (maker := _maker(node, makers)) is not None:
            maker["written"] += buffers.traffic(graph, node, local)[1]
            makers |= dict.fromkeys(node.get_buffer_names(), maker)


def _nodes(record: Mapping[str, Any]) -> list[Any]:
    """The nodes of a call, each once and without the nodes in it that are fused."""
    inner = [each for node in record["nodes"] for each in node.get_nodes()]
    for nest in record.get("nests", ()):
        inner += [each for node in nest["nodes"] for each in node.get_nodes()]
    return list({node.get_name(): node for node in inner}.values())


def _maker(node: Any, makers: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    names = [each.get_name() for each in getattr(node.node, "inputs", ()) if hasattr(each, "get_name")]
    return next((makers[name] for name in names if name in makers), None)


# Operations -----------------------------------------------------------------------------------------------------------


def _operations(graph: Any, record: Mapping[str, Any]) -> Counter[str]:
    total: Counter[str] = Counter()
    origins: dict[Any, None] = {}
    for node in _nodes(record):
        body = getattr(node, "_body", None)
        if body is not None and hasattr(body, "op_counts"):
            kind = _loop_class(graph, node)
            each = _multiply_adds(body.op_counts, _product(graph, node.get_ranges()[-1]))
            total[kind] += each * _MULTIPLY_ADD * _iterations(graph, node)
        else:
            origins |= dict.fromkeys(node.node.get_origins() if node.node is not None else ())
    for origin in origins:
        for kind, count in _formula_operations(graph, origin).items():
            total[kind] += count
    return Counter({kind: count for kind, count in total.items() if count})


def _multiply_adds(counts: Mapping[str, int], reduced: int) -> int:
    """For each element of a loop body with these operations. `reduced`: the elements of one reduction or sort."""
    steps = max(1, math.ceil(math.log2(max(2, reduced))))
    costs = {
        "sort": steps * (steps + 1) // 2 * _SORT_STEP_COST,
        **dict.fromkeys(_FREE, 0),
        **dict.fromkeys(_SPECIAL, _SPECIAL_COST),
        **dict.fromkeys(_LONG, _LONG_COST),
        **dict.fromkeys(_RANDOM, _RANDOM_COST),
    }
    return sum(number * costs.get(name, 1) for name, number in counts.items())


def _iterations(graph: Any, node: Any) -> int:
    return math.prod(_product(graph, sizes) for sizes in node.get_ranges())


def _product(graph: Any, sizes: Sequence[Any]) -> int:
    return math.prod(_number(graph, size) for size in sizes)


def _loop_class(graph: Any, node: Any) -> str:
    """The class of a loop's operations, by the dtypes that it loads and stores. Half precision is computed in f32."""
    names = {
        dep.name for dep in (*node.read_writes.reads, *node.read_writes.writes) if type(dep).__name__ == "MemoryDep"
    }
    dtypes = [dtype for name in names if (dtype := _dtype(graph, name)) is not None]
    if any(dtype.itemsize >= 8 * (1 + dtype.is_complex) for dtype in dtypes if _floats(dtype)):
        return "f64"
    return "f32" if any(map(_floats, dtypes)) or not dtypes else "integer"


def _dtype(graph: Any, name: str) -> Any:
    try:
        return graph.get_dtype(name)
    except (KeyError, NotImplementedError):
        return None


def _floats(dtype: Any) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _formula_operations(graph: Any, origin: Any) -> dict[str, int]:
    """Class → operations of one operator of the FX graph, by torch.utils.flop_counter; empty without a formula."""
    import torch

    formula = _formula(origin.target)
    if formula is None or origin.op != "call_function":
        return {}
    plain = hasattr(formula, "__wrapped__")  # takes shapes; the others take tensors

    def argument(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            value = value.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return value
        shape = torch.Size(_number(graph, getattr(getattr(size, "node", None), "expr", size)) for size in value.shape)
        return shape if plain else torch.empty(shape, dtype=value.dtype, device="meta")

    values = (origin.args, origin.kwargs, origin.meta.get("val"))
    args, kwargs, result = (torch.utils._pytree.tree_map(argument, each) for each in values)
    try:
        count = int(formula(*args, **kwargs, out_val=result))
    except (AssertionError, TypeError, ValueError, AttributeError, IndexError, RuntimeError):
        return {}  # this torch's formula does not take these arguments
    count = count // 2 if _is_causal(origin) else count
    dtype = _dtype_name(origin)
    return {f"matrix {'tf32' if dtype == 'f32' and _rounds(origin) else dtype}": count} if count else {}


def _is_causal(origin: Any) -> bool:
    """Whether attention leaves out half of its products: the formulas do not know it."""
    arguments = getattr(getattr(origin.target, "_schema", None), "arguments", ())
    position = next((index for index, each in enumerate(arguments) if each.name == "is_causal"), None)
    if position is None:
        return False
    return bool(origin.args[position] if position < len(origin.args) else origin.kwargs.get("is_causal", False))


def _rounds(origin: Any) -> bool:
    """Whether the settings let a product or convolution of float32 run as TF32."""
    import torch

    values = [each.meta.get("val") for each in origin.all_input_nodes]
    if not any(isinstance(each, torch.Tensor) and each.device.type == "cuda" for each in values):
        return False
    settings = torch.backends.cudnn if "convolution" in str(origin.target) else torch.backends.cuda.matmul
    try:
        return bool(settings.allow_tf32)
    except RuntimeError:  # set for each operator by torch's newer names
        return settings.fp32_precision == "tf32"


@functools.cache
def _formula(target: Any) -> Callable[..., Any] | None:
    import torch
    from torch.utils.flop_counter import flop_registry

    packet = getattr(target, "overloadpacket", target)
    same = _SAME_FORMULA.get(str(packet))
    try:
        return flop_registry.get(getattr(torch.ops.aten, same) if same else packet)
    except TypeError:
        return None


def _dtype_name(origin: Any) -> str:
    """The short name of the dtype of the first argument that has one and more than one dimension."""
    import torch

    values = [each.meta.get("val") for each in origin.all_input_nodes]
    tensors = [each for each in values if isinstance(each, torch.Tensor)]
    of_matrices = [each for each in tensors if each.dim() > 1] or tensors
    names = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
    if not of_matrices:
        return "f32"
    dtype = of_matrices[0].dtype
    if dtype in names or dtype.is_complex:
        return names.get(dtype, "f64" if dtype == torch.complex128 else "f32")
    return "f8" if dtype.is_floating_point else "i8"


def _number(graph: Any, size: Any) -> int:
    if isinstance(size, int) or getattr(size, "is_Integer", False):
        return int(size)
    return int(graph.sizevars.optimization_hint(size, fallback=0))
