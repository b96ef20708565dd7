"""Records which operators became which kernel, library call or fallback; collects what all observers recorded.

Decisions: the kernels that Inductor defines (torch/_inductor/codegen/cpp.py: CppScheduling.define_kernel,
CppKernelProxy, KernelGroup; codegen/triton.py: TritonScheduling.define_kernel), its library calls (scheduler.py:
Scheduler.codegen_extern_call) and split reductions (ir.py: create_multilayer).

`patches()` wraps these functions; `observations(graph)` returns the records of one graph as plain data. The records are
kept on the graph, so two captures, or a forward and its backward, never mix.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from conformance.capture.observers import (
    buffers,
    cuda_graphs,
    dynamo,
    fallbacks,
    fusion,
    kernel_costs,
    loop_bodies,
    memory,
    operators,
    pattern_rewrites,
    provenance,
    recognised,
    reductions,
    runtime_metadata,
    vectorisation,
)
from conformance.capture.patching.patch import Patch, applied, is_missing, recording
from conformance.devices.environment import torch_build
from conformance.devices.vendor_devices import vendor_devices

_RECORDS = "_conformance_records"
_SPLIT = "_conformance_split"
#: The beginning of the operators that launch a user's Triton kernel in a graph.
_LAUNCH = "triton_kernel_wrapper"
_NESTS = "_conformance_nests"
_NODES = "_conformance_nodes"


def patches() -> list[Patch]:
    """The wrappers of all observers. They record and change nothing. Apply them while Inductor generates code."""
    cpp, triton = "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton"
    ir, scheduler = "torch._inductor.ir", "torch._inductor.scheduler"
    return [
        *recording("vectorised", vectorisation.patches()),
        *recording("unfused", fusion.patches()),
        *recording("fallbacks", fallbacks.patches()),
        *reductions.patches(),
        *recording("compiles guards graph_breaks", dynamo.patches()),
        *recording("patterns", pattern_rewrites.patches()),
        *recording("cuda_graphs", cuda_graphs.patches(lambda graph: graph.__dict__.get(_RECORDS, []))),
        Patch(f"{cpp}:CppKernelProxy.codegen_nodes", _codegen_nodes, "records the operators of a loop nest"),
        Patch(f"{cpp}:KernelGroup.finalize_kernel", _finalize_kernel, "records the loop nests of a C++ function"),
        Patch(f"{cpp}:CppScheduling.define_kernel", _define_cpp, "records the C++ functions in order"),
        Patch(f"{triton}:TritonScheduling.define_kernel", _define_triton, "records the Triton kernels in order"),
        *_other_languages(),
        Patch(f"{scheduler}:Scheduler.codegen_extern_call", _extern_call, "records library calls and fallbacks"),
        *recording(
            "kinds",
            [
                Patch(f"{ir}:Reduction.create_multilayer_helper", _multilayer, "records split reductions"),
                Patch(f"{ir}:WelfordReduction.create_multilayer", _multilayer, "the same for mean and variance"),
                Patch(f"{ir}:OnlineSoftmaxReduction.create_multilayer", _multilayer, "the same for softmax"),
            ],
        ),
    ]


def unknown_facts(is_missing: Callable[[str], bool] = is_missing, others: Iterable[Patch] = ()) -> dict[str, str]:
    """Fact → the name that the observers need for it and that the installed torch lacks: see recognised.py.

    `others`: further patches that record facts.
    """
    return recognised.unknown_facts([*patches(), *others], is_missing)


def unknown_notices(is_missing: Callable[[str], bool]) -> list[str]:
    """A line for each name that the installed torch lacks, with the facts that are unknown without it."""
    unknown = unknown_facts(is_missing)
    version = torch_build().version
    return [
        f"torch {version} lacks {where}: unknown are {', '.join(each for each in unknown if unknown[each] == where)}"
        for where in dict.fromkeys(unknown.values())
    ]


def _other_languages() -> list[Patch]:
    """Of the backends that an option of Inductor chooses (cpu_backend, cuda_backend), and of vendors' devices."""
    options = {name: f"torch._inductor.codegen.{name}:{name.capitalize()}Scheduling" for name in ("halide", "pallas")}
    vendors = {vendor.kernels: vendor.scheduling for vendor in vendor_devices().values() if vendor.scheduling}
    return [
        Patch(
            f"{scheduling}.define_kernel",
            functools.partial(_define_triton, language=language),
            "records the kernels of another backend in order",
            optional=language in options,
        )
        for language, scheduling in (options | vendors).items()
    ]


_observing: list[None] = []


@contextlib.contextmanager
def observing() -> Iterator[None]:
    """Applies `patches` during the context. Inside another one it does nothing: records are kept on each graph."""
    with contextlib.ExitStack() as stack:
        if not _observing:
            stack.enter_context(applied(patches()))
        _observing.append(None)
        stack.callback(_observing.pop)
        yield


def reset() -> None:
    """Deletes the records that an interrupted capture left. It takes no time: call it before each graph's codegen."""
    vectorisation.reset()
    fusion.reset()
    fallbacks.reset()


def observations(graph: Any) -> dict[str, Any]:
    """The records of `graph`, a GraphLowering, after its codegen: JSON-able.

    `devices`: device types, sorted. `calls`: kernels, library calls and fallbacks, in the order of the calls. Each has
    `call` ("kernel", "extern" or "fallback"), `ops` (its ATen operators, in the order of the graph), `decomposed` (the
    operators that Inductor lowered), `scaled` if one of them adds a multiple, and `cost` (see kernel_costs.py). A
    library call or fallback has `name`. A kernel has `language`, `kind`, `function` (its name in the code), `ranges`
    and `reduced` (sizes of its loops; expressions for dynamic shapes), and `work` (operation_counts of loop_bodies.py).
    A C++ kernel also has `nests`. A Triton kernel also has `tiling`, `descriptors` and `block_pointers` (how many
    tensor descriptors and block pointers it makes), and `parts` if one launch runs several kernels.
    `unfused`: see fusion.py. `reductions`: see reductions.py. `moved`, `buffers`: see buffers.py. `memory`: see
    memory.py. `operators`: see operators.py.
    `cuda_graphs`: see cuda_graphs.py; a call in a part of them has `in_cuda_graph`.
    `runtime`: see runtime_metadata.py. `provenance`: see provenance.py; only of an explored capture.
    """
    position = {node: index for index, node in enumerate(graph.graph.nodes)}
    records = getattr(graph, _RECORDS, [])
    calls = []
    for record, cost in zip(records, kernel_costs.costs(records), strict=True):
        call = _with_operators(record, position) | {"cost": cost}
        if call["call"] == "kernel":
            nests = [nest["nodes"] for nest in record.get("nests", [record])]
            call["work"] = loop_bodies.operation_counts(record["graph"], nests)
        for inner in ("nests", "parts"):
            if inner in call:
                call[inner] = [_with_operators(each, position) for each in call[inner]]
        calls.append(call)
    return {
        "devices": sorted(str(device) for device in graph.device_types),
        "calls": calls,
        "unfused": fusion.unfused_pairs(graph, records),
        "reductions": reductions.decisions(graph),
        "operators": operators.operators(graph),
        "moved": buffers.bytes_moved(graph),
        "buffers": buffers.allocations(graph),
        "memory": memory.memory(graph),
        "runtime": runtime_metadata.metadata(graph),
        **cuda_graphs.parts(graph, lambda nodes: _with_operators({"nodes": nodes}, position)["ops"]),
        **provenance.provenance(graph, records),
    }


def _record(record: dict[str, Any]) -> None:
    """Adds the record of a call to the module that is being generated."""
    from torch._inductor.virtualized import V

    graph = V.graph
    while getattr(graph, "parent", None) is not None:  # a subgraph's kernels belong to its module
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
        result = original(self, new_kernel, nodes)  # decides which loops are parallel
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
        | vectorisation.result(each)
        for each in proxies
    ]


def _define_cpp(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def define_kernel(self: Any, src_code: str, nodes: Sequence[Any], kernel_args: Any = None) -> str:
        name = original(self, src_code, nodes, kernel_args)
        record: dict[str, Any] = {"call": "kernel", "language": "cpp", "kind": "template", "nodes": list(nodes)}
        record["function"] = name
        if kernel_args is None:  # a template brings its own arguments
            nests = list(getattr(self.kernel_group, _NESTS, []))
            kinds = list(dict.fromkeys(nest["kind"] for nest in nests))
            record |= {"kind": kinds[0] if len(kinds) == 1 else "loop nests", "nests": nests}
            if len(nests) == 1:
                record |= {"ranges": nests[0]["ranges"], "reduced": nests[0]["reduced"]}
        _record(record)
        return name

    return define_kernel


# Triton, and backends with the same scheduling ------------------------------------------------------------------------


def _define_triton(original: Callable[..., Any], language: str = "triton") -> Callable[..., Any]:
    @functools.wraps(original)
    def define_kernel(self: Any, src_code: str, node_schedule: Sequence[Any], kernel: Any) -> str:
        name = original(self, src_code, node_schedule, kernel)
        # Only the text shows them: a template's own code makes some, generated code makes others.
        made = {
            "function": name,
            "descriptors": src_code.count("make_tensor_descriptor("),
            "block_pointers": src_code.count("make_block_ptr("),
        }
        _record(_triton(list(node_schedule), kernel) | made | {"language": language})
        return name

    return define_kernel


def _triton(node_schedule: list[Any], kernel: Any) -> dict[str, Any]:
    """A kernel, or several that one launch runs: of torch._foreach_…, or with the option combo_kernels."""
    grouped = next((node for node in node_schedule if type(node).__name__ == "ForeachKernelSchedulerNode"), None)
    parts = getattr(kernel, "sub_kernels", None)
    if parts:
        kind = "combo" if getattr(grouped, "use_custom_partition_algo", False) else "foreach"
        loops = [_loops(_scheduled(part.features.node_schedule), part) for part in parts]
        nodes = [node for each in loops for node in each["nodes"]]
        return {"call": "kernel", "language": "triton", "kind": kind, "nodes": nodes, "parts": loops}
    # A kernel that a group left out has the schedule of the whole group.
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
        if getattr(kernel, "cooperative_reduction", False):
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
    """Marks both halves. The first becomes a buffer during the call; the second is returned and is no buffer yet."""

    @functools.wraps(original)
    def create_multilayer(*args: Any, **kwargs: Any) -> Any:
        from torch._inductor.virtualized import V

        before = len(V.graph.buffers)
        result = original(*args, **kwargs)
        split = V.graph.__dict__.setdefault(_SPLIT, [])
        split.extend(("first", buffer.data) for buffer in V.graph.buffers[before:] if hasattr(buffer, "data"))
        for box in result if isinstance(result, (list, tuple)) else [result]:
            inner = box.data.data
            split.append(("second", getattr(inner, "data", inner)))  # with several outputs, it is a buffer already
        return result

    return create_multilayer


def _split(nodes: Iterable[Any]) -> str:
    """Which half of a split reduction a kernel is: "first" or "second"; "" for any other kernel."""
    from torch._inductor.virtualized import V

    marked = V.graph.__dict__.get(_SPLIT, [])
    data = [getattr(node.node, "data", None) for node in nodes]
    halves = {half for half, reduction in marked if any(each is reduction for each in data)}
    return "second" if "second" in halves else "first" if "first" in halves else ""


# Both -----------------------------------------------------------------------------------------------------------------


def _extern_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def codegen_extern_call(self: Any, scheduler_node: Any) -> Any:
        result = original(self, scheduler_node)
        # A user's kernel with what is fused into it has no node of its own: the kernel is a part of it.
        node = getattr(getattr(scheduler_node, "kernel_node", scheduler_node), "node", None) or scheduler_node
        kind = type(node).__name__
        if kind not in ("MultiOutput", "MultiOutputLayout", "MutationOutput"):  # they name parts of a result
            # Scatter, index_put and others have their own classes; their names contain "Fallback".
            fallback = any("Fallback" in base.__name__ for base in type(node).__mro__)
            call = "fallback" if fallback else "extern"
            record = {
                "call": call,
                "kind": kind,
                "name": _called_function(node),
                "nodes": list(scheduler_node.get_nodes()),
            }
            if kind == "UserDefinedTritonKernel":
                name = _user_function(node)
                user_kernel = {"call": "kernel", "language": "triton", "kind": "user-defined", "user_function": name}
                _record(record | user_kernel)
            else:
                _record(record | ({"reason": fallbacks.reason(node)} if fallback else {}))
        return result

    return codegen_extern_call


def _user_function(node: Any) -> str:
    """The name of the @triton.jit function that a user wrote, without the decorators that tune it."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    kernel = kernel_side_table.get_kernel(node.kernel_idx)
    while not hasattr(kernel, "__name__") or hasattr(kernel, "configs"):
        kernel = kernel.fn
    return kernel.__name__


def _called_function(node: Any) -> str:
    """The function that an extern node calls: `mm` for extern_kernels.mm, `aten.sort` for an ATen operator."""
    overload = getattr(node, "op_overload", None)
    name = getattr(node, "python_kernel_name", None)
    if name and name.startswith("extern_kernels."):
        return name.removeprefix("extern_kernels.")
    if overload is not None:
        return str(getattr(overload, "overloadpacket", overload))
    return name.removeprefix("torch.ops.") if name else type(node).__name__


def _scheduled(node_schedule: Iterable[Any]) -> list[Any]:
    """The nodes of the schedule, without the markers between them. Fused nodes are split into their parts."""
    return [inner for node in node_schedule if hasattr(node, "get_nodes") for inner in node.get_nodes()]


def _kind(nodes: Iterable[Any]) -> str:
    """The kind of a kernel: that of its most complex node."""
    kinds = set()
    for node in nodes:
        ir_node = getattr(node, "node", None)
        if "TemplateBuffer" in {base.__name__ for base in type(ir_node).__mro__}:
            return "template"
        data = type(getattr(ir_node, "data", None)).__name__
        if "Reduction" in data:
            kinds.add("reduction")
        elif data in ("Scan", "SplitScan", "Sort", "Scatter"):
            kinds.add("split scan" if data == "SplitScan" else data.lower())
    by_complexity = ("sort", "split scan", "scan", "reduction", "scatter")
    return next((kind for kind in by_complexity if kind in kinds), "pointwise")


def _with_operators(record: dict[str, Any], position: dict[Any, int]) -> dict[str, Any]:
    """The record with the operators of its scheduler nodes instead of the nodes: each once, in the graph's order."""
    origins: dict[Any, None] = {}
    for node in record["nodes"]:
        if getattr(node, "node", None) is not None:
            origins.update(dict.fromkeys(node.node.get_origins()))
    # A buffer that a user's kernel reads or writes has the launch among its origins. The launch is no operator.
    known = [node for node in origins if node.op == "call_function" and not _name(node.target).startswith(_LAUNCH)]
    known.sort(key=lambda node: (position.get(node, len(position)), node.name))
    rest = {name: value for name, value in record.items() if name not in ("nodes", "graph")}
    rest["fused"] = sum(len(node.get_nodes()) for node in record["nodes"])
    if "user_function" in record:
        return rest | {"ops": [rest.pop("user_function")], "decomposed": []}
    if any(node.kwargs.get("alpha", 1) != 1 for node in known):
        rest["scaled"] = True
    return rest | {
        "ops": list(dict.fromkeys(_name(node.meta.get("original_aten") or node.target) for node in known)),
        "decomposed": list(dict.fromkeys(_name(node.target) for node in known)),
    }


def _name(target: Any) -> str:
    """`flip` for aten.flip.default. Other namespaces stay: `prims.convert_element_type`."""
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        return str(packet).removeprefix("aten.")
    return getattr(target, "__name__", None) or str(target)
