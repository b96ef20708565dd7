"""What Inductor decides while it generates code, seen from inside: which operators became which kernel, and why so.

`patches()` wraps the places where the decisions are made; `module(graph)` gives what was seen for one graph as plain
data. What is seen is kept on the graph itself, so two captures, or a forward and its backward, never mix.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from conformance.capture.observers import (
    buffers,
    fallbacks,
    fusion,
    graph_breaks,
    loop_bodies,
    pattern_rewrites,
    reductions,
    vectorisation,
)
from conformance.capture.patching.patch import Patch, applied

_RECORDS = "_conformance_records"
_SPLIT = "_conformance_split"
#: How the operators begin that launch a user's Triton kernel in a graph.
_LAUNCH = "triton_kernel_wrapper"
_NESTS = "_conformance_nests"
_NODES = "_conformance_nodes"


def patches() -> list[Patch]:
    """Wrappers that watch and change nothing; to be applied while code is generated."""
    cpp, triton = "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton"
    ir, scheduler = "torch._inductor.ir", "torch._inductor.scheduler"
    return [
        *vectorisation.patches(),
        *fusion.patches(),
        *fallbacks.patches(),
        *reductions.patches(),
        *graph_breaks.patches(),
        *pattern_rewrites.patches(),
        *loop_bodies.patches(),
        Patch(f"{cpp}:CppKernelProxy.codegen_nodes", _codegen_nodes, "which operators a loop nest was made from"),
        Patch(f"{cpp}:KernelGroup.finalize_kernel", _finalize_kernel, "which loop nests stand in one C++ function"),
        Patch(f"{cpp}:CppScheduling.define_kernel", _define_cpp, "the C++ functions, in the order of their calls"),
        Patch(f"{triton}:TritonScheduling.define_kernel", _define_triton, "the Triton kernels, in the order of calls"),
        Patch(f"{scheduler}:Scheduler.codegen_extern_call", _extern_call, "library calls and fallbacks, in order"),
        Patch(f"{ir}:Reduction.create_multilayer_helper", _multilayer, "which reductions were split in two"),
        Patch(f"{ir}:WelfordReduction.create_multilayer", _multilayer, "likewise, of mean and variance"),
        Patch(f"{ir}:OnlineSoftmaxReduction.create_multilayer", _multilayer, "likewise, of softmax; from 2.13 its own"),
    ]


_watching: list[None] = []


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Applies `patches`, once: inside another one there is nothing to do, since what is seen is kept on each graph."""
    with contextlib.ExitStack() as stack:
        if not _watching:
            stack.enter_context(applied(patches()))
        _watching.append(None)
        stack.callback(_watching.pop)
        yield


def start() -> None:
    """Forgets what an interrupted capture left behind. Cheap; call it before each capture."""
    vectorisation.reset()
    fusion.reset()
    fallbacks.reset()


def module(graph: Any) -> dict[str, Any]:
    """What was seen while `graph`, a GraphLowering, was lowered and generated: JSON-able.

    `devices`: types, sorted. `calls`: kernels, library calls and fallbacks in the order in which they are called; each
    has `call` ("kernel", "extern" or "fallback"), `ops` (the ATen operators that it came from, in the order of the
    graph) and `decomposed` (the operators that were lowered). A kernel has `language`, `kind`, `ranges`, `reduced`
    (sizes of its loops; with dynamic shapes, expressions) and on cpu `nests`, where several are one launch `parts`; the
    others have `name`. `work`: see work.py; of Triton kernels also `tiling` and `descriptors`, how many tensor
    descriptors they make.
    `unfused`: see fusion.py; `reductions`: see reductions.py; `moved`, `buffers`: see memory.py.
    """
    position = {node: index for index, node in enumerate(graph.graph.nodes)}
    calls = []
    for record in getattr(graph, _RECORDS, []):
        call = _with_operators(record, position)
        if call["call"] == "kernel":
            call["work"] = loop_bodies.done(record["graph"], [nest["nodes"] for nest in record.get("nests", [record])])
        for inner in ("nests", "parts"):
            if inner in call:
                call[inner] = [_with_operators(each, position) for each in call[inner]]
        calls.append(call)
    return {
        "devices": sorted(str(device) for device in graph.device_types),
        "calls": calls,
        "unfused": fusion.seen(graph, getattr(graph, _RECORDS, [])),
        "reductions": reductions.seen(graph),
        "moved": buffers.moved(graph),
        "buffers": buffers.buffers(graph),
    }


def _take_down(record: dict[str, Any]) -> None:
    from torch._inductor.virtualized import V

    graph = V.graph
    while getattr(graph, "parent", None) is not None:  # a subgraph's kernels belong to the module that holds them
        graph = graph.parent
    graph.__dict__.setdefault(_RECORDS, []).append(record | {"graph": V.graph})


# C++ ------------------------------------------------------------------------------------------------------------------


def _codegen_nodes(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def codegen_nodes(self: Any, nodes: Sequence[Any]) -> Any:
        setattr(self, _NODES, list(nodes))
        return original(self, nodes)

    return codegen_nodes


def _finalize_kernel(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def finalize_kernel(self: Any, new_kernel: Any, nodes: Sequence[Any]) -> Any:
        result = original(self, new_kernel, nodes)  # decides what is parallel
        self.__dict__.setdefault(_NESTS, []).extend(_nests(new_kernel, nodes))
        return result

    return finalize_kernel


def _nests(proxy: Any, nodes: Sequence[Any]) -> list[dict[str, Any]]:
    """The loop nests of one kernel proxy: one, or those that share an outer loop."""
    parallel = next((loop for loop in proxy.loop_nest.loops or () if loop.parallel), None)
    inner = getattr(proxy.loop_nest.kernel, "inner", None)
    proxies = [proxy] if inner is None else [nest.get_kernel() for nest in inner]
    return [
        {
            "nodes": getattr(each, _NODES, list(nodes)),
            "kind": _kind(getattr(each, _NODES, list(nodes))),
            "ranges": [str(size) for size in each.call_ranges[: each.reduction_depth]],
            "reduced": [str(size) for size in each.call_ranges[each.reduction_depth :]],
            "parallel": "no" if parallel is None else "reduction" if parallel.is_reduction else "yes",
            "outer_loop": inner is not None,
        }
        | vectorisation.seen(each)
        for each in proxies
    ]


def _define_cpp(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def define_kernel(self: Any, src_code: str, nodes: Sequence[Any], kernel_args: Any = None) -> str:
        name = original(self, src_code, nodes, kernel_args)
        record: dict[str, Any] = {"call": "kernel", "language": "cpp", "kind": "template", "nodes": list(nodes)}
        if kernel_args is None:  # a template brings its own arguments
            nests = list(getattr(self.kernel_group, _NESTS, []))
            kinds = list(dict.fromkeys(nest["kind"] for nest in nests))
            record |= {"kind": kinds[0] if len(kinds) == 1 else "loop nests", "nests": nests}
            if len(nests) == 1:
                record |= {"ranges": nests[0]["ranges"], "reduced": nests[0]["reduced"]}
        _take_down(record)
        return name

    return define_kernel


# Triton ---------------------------------------------------------------------------------------------------------------


def _define_triton(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def define_kernel(self: Any, src_code: str, node_schedule: Sequence[Any], kernel: Any) -> str:
        name = original(self, src_code, node_schedule, kernel)
        # templates have theirs in the text that they are made from, the others in what is generated: nowhere but here
        descriptors = src_code.count("make_tensor_descriptor(")
        _take_down(_triton(list(node_schedule), kernel) | {"descriptors": descriptors})
        return name

    return define_kernel


def _triton(node_schedule: list[Any], kernel: Any) -> dict[str, Any]:
    """A kernel, or several that are one launch: of torch._foreach_…, or as the option combo_kernels makes them."""
    grouped = next((node for node in node_schedule if type(node).__name__ == "ForeachKernelSchedulerNode"), None)
    parts = getattr(kernel, "sub_kernels", None)
    if parts:
        kind = "combo" if getattr(grouped, "use_custom_partition_algo", False) else "foreach"
        loops = [_loops(_scheduled(part.features.node_schedule), part) for part in parts]
        nodes = [node for each in loops for node in each["nodes"]]
        return {"call": "kernel", "language": "triton", "kind": kind, "nodes": nodes, "parts": loops}
    # The schedule of one that was left out of a group is the whole group's
    nodes = _scheduled(node_schedule if grouped is None else kernel.features.node_schedule)
    return {"call": "kernel", "language": "triton", **_loops(nodes, kernel)}


def _loops(nodes: list[Any], kernel: Any) -> dict[str, Any]:
    kind = _kind(nodes)
    numels = getattr(kernel, "numels", None) or {}
    reduces = any(prefix.startswith("r") and size != 1 for prefix, size in numels.items())
    if reduces and kind == "pointwise":
        kind = "reduction"
    if kind.endswith("reduction"):
        if getattr(kernel, "persistent_reduction", False):
            kind = f"persistent {kind}"
        elif getattr(kernel, "cooperative_reduction", False):
            kind = f"cooperative {kind}"
    return {
        "kind": kind,
        "nodes": nodes,
        "ranges": [str(size) for prefix, size in numels.items() if not prefix.startswith("r")],
        "reduced": [str(size) for prefix, size in numels.items() if prefix.startswith("r")] if reduces else [],
        "split": _split(nodes),
        "tiling": loop_bodies.tiling(kernel),
    }


def _multilayer(original: Callable[..., Any]) -> Callable[..., Any]:
    """Marks both halves. The first is realised meanwhile; the second is what comes back, not yet a buffer."""

    @functools.wraps(original)
    def create_multilayer(*args: Any, **kwargs: Any) -> Any:
        from torch._inductor.virtualized import V

        before = len(V.graph.buffers)
        result = original(*args, **kwargs)
        split = V.graph.__dict__.setdefault(_SPLIT, [])
        split.extend(("first", buffer.data) for buffer in V.graph.buffers[before:] if hasattr(buffer, "data"))
        for box in result if isinstance(result, (list, tuple)) else [result]:
            inner = box.data.data
            split.append(("second", getattr(inner, "data", inner)))  # those of several outputs are buffers already
        return result

    return create_multilayer


def _split(nodes: Iterable[Any]) -> str:
    """Which half of a split reduction a kernel is, "first" or "second"; "" for any other."""
    from torch._inductor.virtualized import V

    marked = V.graph.__dict__.get(_SPLIT, [])
    data = [getattr(node.node, "data", None) for node in nodes]
    found = {half for half, reduction in marked if any(each is reduction for each in data)}
    return "second" if "second" in found else "first" if "first" in found else ""


# Both -----------------------------------------------------------------------------------------------------------------


def _extern_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def codegen_extern_call(self: Any, scheduler_node: Any) -> Any:
        result = original(self, scheduler_node)
        node = getattr(scheduler_node, "node", None) or scheduler_node  # a fused one has no node of its own
        kind = type(node).__name__
        if kind not in ("MultiOutput", "MultiOutputLayout", "MutationOutput"):  # names for parts of a result, no calls
            # Scatter, index_put and the like have classes of their own, all named so
            fallback = any("Fallback" in base.__name__ for base in type(node).__mro__)
            call = "fallback" if fallback else "extern"
            record = {"call": call, "kind": kind, "name": _called(node), "nodes": list(scheduler_node.get_nodes())}
            if kind == "UserDefinedTritonKernel":
                written = {"call": "kernel", "language": "triton", "kind": "user-defined", "written": _written(node)}
                _take_down(record | written)
            else:
                _take_down(record | ({"reason": fallbacks.reason(node)} if fallback else {}))
        return result

    return codegen_extern_call


def _written(node: Any) -> str:
    """The name of the @triton.jit function that a user wrote, below what tunes it."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    kernel = kernel_side_table.get_kernel(node.kernel_idx)
    while not hasattr(kernel, "__name__") or hasattr(kernel, "configs"):
        kernel = kernel.fn
    return kernel.__name__


def _called(node: Any) -> str:
    """What an extern node calls: `mm` for extern_kernels.mm, `aten.sort` for an ATen operator."""
    overload = getattr(node, "op_overload", None)
    name = getattr(node, "python_kernel_name", None)
    if name and name.startswith("extern_kernels."):
        return name.removeprefix("extern_kernels.")
    if overload is not None:
        return str(getattr(overload, "overloadpacket", overload))
    return name.removeprefix("torch.ops.") if name else type(node).__name__


def _scheduled(node_schedule: Iterable[Any]) -> list[Any]:
    """The schedule's nodes, without the markers between them, and with fused nodes taken apart."""
    return [inner for node in node_schedule if hasattr(node, "get_nodes") for inner in node.get_nodes()]


def _kind(nodes: Iterable[Any]) -> str:
    """What a kernel does with its elements, by its most demanding node."""
    kinds = set()
    for node in nodes:
        ir_node = getattr(node, "node", None)
        if "TemplateBuffer" in {base.__name__ for base in type(ir_node).__mro__}:
            return "template"
        data = type(getattr(ir_node, "data", None)).__name__
        if "Reduction" in data:
            kinds.add("reduction")
        elif data in ("Scan", "Sort", "Scatter"):
            kinds.add(data.lower())
    return next((kind for kind in ("sort", "scan", "reduction", "scatter") if kind in kinds), "pointwise")


def _with_operators(record: dict[str, Any], position: dict[Any, int]) -> dict[str, Any]:
    """The record with the operators behind its scheduler nodes instead of them: each once, in the graph's order."""
    origins: dict[Any, None] = {}
    for node in record["nodes"]:
        if getattr(node, "node", None) is not None:
            origins.update(dict.fromkeys(node.node.get_origins()))
    # What a user's kernel reads or writes has its launch among its origins; it is no operator of that kernel's.
    known = [node for node in origins if node.op == "call_function" and not _name(node.target).startswith(_LAUNCH)]
    known.sort(key=lambda node: (position.get(node, len(position)), node.name))
    rest = {name: value for name, value in record.items() if name not in ("nodes", "graph")}
    if "written" in record:
        return rest | {"ops": [rest.pop("written")], "decomposed": []}
    return rest | {
        "ops": list(dict.fromkeys(_name(node.meta.get("original_aten") or node.target) for node in known)),
        "decomposed": list(dict.fromkeys(_name(node.target) for node in known)),
    }


def _name(target: Any) -> str:
    """`flip` for aten.flip.default; other namespaces keep theirs: `prims.convert_element_type`."""
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        return str(packet).removeprefix("aten.")
    return getattr(target, "__name__", None) or str(target)
