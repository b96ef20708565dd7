"""Records the bytes that a generated graph reads and writes, and the buffers that it allocates.

Decisions: what each scheduler node reads and writes (torch/_inductor/scheduler.py: read_writes), and when the wrapper
allocates, reuses and frees a buffer (torch/_inductor/codegen/wrapper.py: AllocateLine, ReuseLine). They are read after
the codegen; no patch is needed. A symbolic size counts as in the compiled call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_REGIONS = "_conformance_regions"
#: IR nodes that name a part of another node's result. They move nothing.
_PARTS = ("MultiOutput", "MutationOutput")


def bytes_moved(graph: Any) -> dict[str, int]:
    """The bytes that a GraphLowering moves, after its codegen: `read`, `written` and `least`.

    A kernel counts each element that it reads once, even if its loops read it again, and each buffer that it writes for
    others once. Through a computed index it moves one element an iteration. Workspaces do not count. `least`: the used
    elements of the inputs, and the outputs, once each.
    """
    read = written = 0
    inputs: dict[str, dict[Any, int]] = {}
    stored: dict[str, int] = {}
    local = {*graph.removed_buffers, *graph.inplaced_to_remove}  # they stay within one kernel
    for node in graph.scheduler.nodes:
        local |= between(node)
        for name, regions in _outside_reads(graph, node, local):
            read += min(sum(regions.values()), _size(graph, name))
            if name in graph.graph_inputs or name in graph.constants:
                inputs.setdefault(name, {}).update(regions)
        for name, count in _writes(graph, node, local).items():
            written += count
            stored[name] = max(count, stored.get(name, 0))
    needed = sum(min(sum(regions.values()), _size(graph, name)) for name, regions in inputs.items())
    return {"read": read, "written": written, "least": needed + _output_bytes(graph, stored)}


def traffic(graph: Any, node: Any, local: set[str]) -> tuple[int, int]:
    """The bytes that a scheduler node reads and writes, as bytes_moved counts them.

    `node`: or an object with its get_nodes and get_buffer_names. `local`: buffers that stay within one kernel.
    """
    read = sum(min(sum(regions.values()), _size(graph, name)) for name, regions in _outside_reads(graph, node, local))
    return read, sum(_writes(graph, node, local).values())


def _outside_reads(graph: Any, node: Any, local: set[str]) -> Iterator[tuple[str, dict[Any, int]]]:
    """The buffers that a scheduler node reads and neither makes nor keeps to itself, with the regions of each."""
    own_buffers = local | set(node.get_buffer_names())
    for name, regions in _reads(graph, node).items():
        if name not in own_buffers:
            yield name, regions


def between(node: Any) -> set[str]:
    """Buffers that a user's kernel would write, if nothing were fused into it."""
    kernel = getattr(node, "kernel_node", None)
    return set(kernel.get_buffer_names()) if kernel else set()


def allocations(graph: Any) -> dict[str, int]:
    """The number of buffers that the wrapper allocates (`allocated`), that a kernel writes over its input (`in_place`),
    and that the wrapper freed and uses again (`reused`); and the number of `pools`.

    Memory that library calls and fallbacks allocate themselves does not count. With Inductor's memory_planning, each
    place in a pool is an allocation.
    """
    wrapper = graph.wrapper_code
    counts = {"allocated": 0, "in_place": 0, "reused": 0, "pools": 0}
    for line in wrapper.lines:
        kind = type(line).__name__
        if kind in ("AllocateLine", "AllocFromPoolLine"):
            counts["allocated"] += 1
            counts["pools"] += getattr(line, "is_first_pool_usage", False)
        elif kind == "ReuseLine":
            in_place = wrapper.reuses.get(line.reused_as.get_name()) == line.node.get_name()
            counts["in_place" if in_place else "reused"] += 1
    return counts


def _reads(graph: Any, node: Any) -> dict[str, dict[Any, int]]:
    """Buffer → the regions that a scheduler node reads, with their bytes."""
    reads: dict[str, dict[Any, int]] = {}
    for each in node.get_nodes():
        if type(each).__name__ == "NopKernelSchedulerNode" or is_part(each):
            continue
        if type(each).__name__ == "ExternKernelSchedulerNode":
            for name, region, count in _arguments(graph, each.node):
                reads.setdefault(name, {})[region] = count
            continue
        updates = {mutation for buffer in each.get_outputs() for mutation in buffer.get_mutations()}
        for dep in each.read_writes.reads:
            kind = type(dep).__name__
            name = graph.scheduler.mutation_real_name.get(dep.name, dep.name)
            if kind == "StarDep" and dep.name in updates and hasattr(each, "_body"):
                if dep.mode and dep.mode.startswith("atomic"):  # it reads what it adds to; others only order nodes
                    reads.setdefault(name, {})["updated"] = sum(
                        _dependency_bytes(graph, dep) for dep in each.read_writes.writes
                    )
            elif kind != "WeakDep":
                reads.setdefault(name, {})[_region(graph, dep)] = _dependency_bytes(graph, dep)
    return reads


def _dependency_bytes(graph: Any, dep: Any) -> int:
    """The bytes of a dependency. Through a computed index, at most one element an iteration."""
    count = dep.numbytes_hint()
    if type(dep).__name__ != "MemoryDep" or not dep.is_indirect():
        return count
    return min(count, _bytes(graph, dep.size, graph.get_dtype(dep.name)))


def _arguments(graph: Any, node: Any) -> Iterator[tuple[str, Any, int]]:
    """Name, region and bytes of each tensor argument of a library call or fallback. A view counts only itself."""
    for each in _flat(getattr(node, "inputs", ())):
        if not is_tensor(each):
            continue
        name, size = each.get_name(), each.get_size()
        region = (str(size), str(getattr(getattr(each, "layout", None), "offset", 0)))
        yield graph.scheduler.mutation_real_name.get(name, name), region, _bytes(graph, size, each.get_dtype())


def is_tensor(node: Any) -> bool:
    """Whether an IR node is one tensor; None, a number, a tuple of results or an operator without a result is not."""
    from torch._inductor import ir

    tensor = isinstance(node, (ir.TensorBox, ir.StorageBox, ir.BaseView, ir.Buffer))
    return tensor and node.maybe_get_size() is not None and node.maybe_get_dtype() is not None


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _writes(graph: Any, node: Any, local: set[str]) -> dict[str, int]:
    """Buffer → the bytes that a scheduler node writes to it, without the buffers that are `local` to a kernel."""
    writes: dict[str, int] = {}
    for each in node.get_nodes():
        kind = type(each).__name__
        if kind == "NopKernelSchedulerNode":
            continue
        for output in each.get_outputs():
            name = output.get_name()
            if name in local or (kind == "ExternKernelSchedulerNode" and output.get_aliases()):
                continue
            mutated = [*output.get_mutations()]
            if not mutated:
                writes[name] = _size(graph, name)
                continue
            deps = [dep for dep in each.read_writes.writes if dep.name == name and type(dep).__name__ == "MemoryDep"]
            counts = [_dependency_bytes(graph, dep) for dep in deps]
            for mutation in mutated:
                real = graph.scheduler.mutation_real_name.get(mutation, mutation)
                writes[real] = min(sum(counts) or _size(graph, real), _size(graph, real))
    return writes


def is_part(node: Any) -> bool:
    """Whether a scheduler node names a part of another node's result."""
    return type(getattr(node, "node", None)).__name__ in _PARTS


def _region(graph: Any, dep: Any) -> Any:
    """A key of the elements that a dependency covers: strides, sizes and offset. Loop order does not change it."""
    if type(dep).__name__ != "MemoryDep" or dep.is_indirect():
        return "all"
    regions = graph.__dict__.setdefault(_REGIONS, {})
    if dep not in regions:
        normalised = dep.normalize_with_stride_order()
        regions[dep] = (str(normalised.index), str(normalised.size))
    return regions[dep]


def _output_bytes(graph: Any, stored: Mapping[str, int]) -> int:
    """The bytes of the graph's outputs. Of an input that it changes, the bytes that one node `stored` there."""
    sizes: dict[str, int] = {}
    for output in graph.graph_outputs:
        if not is_tensor(output):
            continue
        name = output.get_name()
        if name not in graph.graph_inputs and name not in graph.constants:
            real = graph.scheduler.mutation_real_name.get(name, name)
            count = sizes.get(real, 0) + _bytes(graph, output.get_size(), output.get_dtype())
            sizes[real] = min(count, _size(graph, real))
    for name in graph.mutated_inputs:
        sizes[name] = stored.get(name, 0)
    return sum(sizes.values())


def _size(graph: Any, name: str) -> int:
    """Bytes of a buffer, input or constant; 0 if it has no elements."""
    if name in graph.constants:
        constant = graph.constants[name]
        return 0 if _is_packed_by_mkl(constant) else constant.numel() * constant.itemsize
    buffer = graph.try_get_buffer(name)
    return _bytes(graph, buffer.get_size(), buffer.get_dtype()) if is_tensor(buffer) else 0


def _is_packed_by_mkl(constant: Any) -> bool:
    """Whether MKL packed a weight into it: then its size is the processor's choice. The weight itself is counted."""
    return constant.dim() == 2 and constant.shape[1] == 1 and constant.stride() == (1, 0)


def _bytes(graph: Any, size: Iterable[Any], dtype: Any) -> int:
    from torch._inductor.utils import sympy_product

    return int(graph.sizevars.optimization_hint(sympy_product(size), fallback=0)) * dtype.itemsize
