"""What a generated graph moves through memory, and which buffers it allocates: from Inductor's dependencies and plan.

Only torch's scheduler nodes are read, of 2.11 to 2.15; nothing is replaced. Sizes that are symbolic count as those of
the call that was compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Parts of another node's result: they give names and move nothing.
_PARTS = ("MultiOutput", "MutationOutput")


def moved(graph: Any) -> dict[str, int]:
    """Bytes of a GraphLowering after its codegen: `read`, `written` and `least`.

    A kernel reads each element that it uses once, however often its loops come by, and writes each buffer that others
    use once; through an index that is computed, one element an iteration. Workspaces are not among them. `least`: the
    inputs' elements that are used at all, and the outputs, once each.
    """
    read = written = 0
    inputs: dict[str, dict[Any, int]] = {}
    stored: dict[str, int] = {}
    within = {*graph.removed_buffers, *graph.inplaced_to_remove}  # they stay within one kernel
    for node in graph.scheduler.nodes:
        own = within | set(node.get_buffer_names())
        for name, regions in _reads(graph, node).items():
            if name in own:
                continue
            read += min(sum(regions.values()), _size(graph, name))
            if name in graph.graph_inputs or name in graph.constants:
                inputs.setdefault(name, {}).update(regions)
        for name, count in _writes(graph, node, within).items():
            written += count
            stored[name] = max(count, stored.get(name, 0))
    needed = sum(min(sum(regions.values()), _size(graph, name)) for name, regions in inputs.items())
    return {"read": read, "written": written, "least": needed + _results(graph, stored)}


def buffers(graph: Any) -> dict[str, int]:
    """What the wrapper's plan allocates: `allocated`, `in_place` (a kernel writes over an input), `reused` (a buffer
    that was freed is taken again). What library calls and fallbacks allocate by themselves is not among them; with
    Inductor's memory_planning, each place in a pool is an allocation.
    """
    wrapper = graph.wrapper_code
    found = {"allocated": 0, "in_place": 0, "reused": 0}
    for line in wrapper.lines:
        kind = type(line).__name__
        if kind in ("AllocateLine", "AllocFromPoolLine"):
            found["allocated"] += 1
        elif kind == "ReuseLine":
            in_place = wrapper.reuses.get(line.reused_as.get_name()) == line.node.get_name()
            found["in_place" if in_place else "reused"] += 1
    return found


def _reads(graph: Any, node: Any) -> dict[str, dict[Any, int]]:
    """Buffer → the regions of it that a scheduler node reads, each with its bytes."""
    found: dict[str, dict[Any, int]] = {}
    for each in node.get_nodes():
        if type(each).__name__ == "NopKernelSchedulerNode" or _is_part(each):
            continue
        if type(each).__name__ == "ExternKernelSchedulerNode":
            for name, region, count in _arguments(graph, each.node):
                found.setdefault(name, {})[region] = count
            continue
        updates = {mutation for buffer in each.get_outputs() for mutation in buffer.get_mutations()}
        for dep in each.read_writes.reads:
            kind = type(dep).__name__
            name = graph.scheduler.mutation_real_name.get(dep.name, dep.name)
            if kind == "StarDep" and dep.name in updates and hasattr(each, "_body"):
                if dep.mode and dep.mode.startswith("atomic"):  # reads what it adds to; any other is only an order
                    found.setdefault(name, {})["updated"] = sum(_count(graph, dep) for dep in each.read_writes.writes)
            elif kind != "WeakDep":
                found.setdefault(name, {})[_region(dep)] = _count(graph, dep)
    return found


def _count(graph: Any, dep: Any) -> int:
    """The bytes of a dependency; through an index that is computed, at most one element an iteration."""
    count = dep.numbytes_hint()
    if type(dep).__name__ != "MemoryDep" or not dep.is_indirect():
        return count
    return min(count, _bytes(graph, dep.size, graph.get_dtype(dep.name)))


def _arguments(graph: Any, node: Any) -> Iterator[tuple[str, Any, int]]:
    """Name, region and bytes of what a library call or fallback is given; of a view, the view alone."""
    for each in _flat(getattr(node, "inputs", ())):
        if not _is_tensor(each):
            continue
        name, size = each.get_name(), each.get_size()
        region = (str(size), str(getattr(getattr(each, "layout", None), "offset", 0)))
        yield graph.scheduler.mutation_real_name.get(name, name), region, _bytes(graph, size, each.get_dtype())


def _is_tensor(node: Any) -> bool:
    """Whether it has elements: not None, a number, a generator; nor a tuple of results, or an operator without any."""
    from torch._inductor import ir

    tensor = isinstance(node, (ir.TensorBox, ir.StorageBox, ir.BaseView, ir.Buffer))
    return tensor and node.maybe_get_size() is not None and node.maybe_get_dtype() is not None


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _writes(graph: Any, node: Any, within: set[str]) -> dict[str, int]:
    """Buffer → the bytes that a scheduler node writes to it; those of buffers that stay `within` a kernel are none."""
    found: dict[str, int] = {}
    for each in node.get_nodes():
        kind = type(each).__name__
        if kind == "NopKernelSchedulerNode":
            continue
        for output in each.get_outputs():
            name = output.get_name()
            if name in within or (kind == "ExternKernelSchedulerNode" and output.get_aliases()):
                continue
            mutated = [*output.get_mutations()]
            if not mutated:
                found[name] = _size(graph, name)
                continue
            deps = [dep for dep in each.read_writes.writes if dep.name == name and type(dep).__name__ == "MemoryDep"]
            counts = [_count(graph, dep) for dep in deps]
            for mutation in mutated:
                real = graph.scheduler.mutation_real_name.get(mutation, mutation)
                found[real] = min(sum(counts) or _size(graph, real), _size(graph, real))
    return found


def _is_part(node: Any) -> bool:
    return type(getattr(node, "node", None)).__name__ in _PARTS


def _region(dep: Any) -> Any:
    """Equal for the same elements, whatever the loops: strides and sizes in order, and the offset."""
    if type(dep).__name__ != "MemoryDep" or dep.is_indirect():
        return "all"
    plain = dep.normalize_with_stride_order()
    return (str(plain.index), str(plain.size))


def _results(graph: Any, stored: Mapping[str, int]) -> int:
    """The bytes of the graph's outputs; of an input that it changes those that were `stored` there at once."""
    sizes: dict[str, int] = {}
    for output in graph.graph_outputs:
        if not _is_tensor(output):
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
    """Bytes of a buffer, input or constant; 0 for what has no elements of its own."""
    if name in graph.constants:
        return graph.constants[name].numel() * graph.constants[name].itemsize
    buffer = graph.try_get_buffer(name)
    return _bytes(graph, buffer.get_size(), buffer.get_dtype()) if _is_tensor(buffer) else 0


def _bytes(graph: Any, size: Iterable[Any], dtype: Any) -> int:
    from torch._inductor.utils import sympy_product

    return int(graph.sizevars.optimization_hint(sympy_product(size), fallback=0)) * dtype.itemsize
