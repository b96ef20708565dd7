"""Metal source as C++ for the shim in include/: what the shim's macros cannot say, and a launcher for each kernel."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from conformance import NotEmulatedError

_KERNEL = re.compile(
    r"(?:\[\[max_total_threads_per_threadgroup\((?P<most>\d+)\)\]\]\s*)?"
    r"kernel\s+void\s+(?P<name>\w+)\s*\((?P<parameters>.*?)\)\s*\{",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"(?P<space>device|constant|threadgroup)?\s*(?P<type>[\w:]+(?:\s*<[^>]*>)?)\s*(?P<by>[*&]?)\s*(?P<name>\w+)"
    r"\s*(?:\[\[\s*(?P<attribute>\w+)(?:\(.*?\))?\s*\]\])?",
)
#: Attribute of a parameter → the value, out of the thread's place. The vectors have three elements.
_PLACES = {
    "thread_position_in_grid": "place.in_grid",
    "thread_position_in_threadgroup": "place.in_group",
    "threadgroup_position_in_grid": "place.group",
    "threads_per_threadgroup": "place.group_size",
    "threads_per_grid": "place.grid_size",
    "thread_index_in_threadgroup": "uint3(place.index)",
    "thread_index_in_simdgroup": "uint3(place.index % shim::simdgroup_size)",
    "simdgroup_index_in_threadgroup": "uint3(place.index / shim::simdgroup_size)",
    "threads_per_simdgroup": "uint3(shim::simdgroup_size)",
}
_MEMORY_OF_GROUP = re.compile(r"\bthreadgroup\s+(?P<type>[\w:]+)\s+(?P<name>\w+)\s*(?P<size>(?:\[[^;=]*\])*)\s*;")
#: What makes the threads of a group wait for each other.
_WAITS = re.compile(r"\b(threadgroup_\w+|simdgroup_barrier|simd_\w+)\b")
#: What the shim has not.
_REFUSED = re.compile(
    r"\b(simdgroup_(?:float|half|bfloat)?\d*x?\d*_?matrix\w*|simdgroup_float8x8|simdgroup_load|texture\w*|sampler)\b"
)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a source. `most`: threads of a group that it is compiled for; 0 where it does not say.

    `arguments`: the kind of each: "buffer", "value", "errors".
    """

    name: str
    most: int
    arguments: tuple[str, ...]


def as_cpp(source: str) -> tuple[str, list[Kernel]]:
    """The source as C++, and its kernels. Raises NotEmulatedError, and SyntaxError for two of one name."""
    if refused := _REFUSED.search(source):
        raise NotEmulatedError(f"a kernel uses {refused[0]}, which the shim of Metal has not")
    kernels, launchers, pieces, at = [], [], [], 0
    for found in _KERNEL.finditer(source):
        body_end = _end_of_body(source, found.end())
        kernel, signature, launcher = _translated(found, source[found.end() : body_end])
        pieces += [source[at : found.start()], signature, _body(source[found.end() : body_end])]
        kernels.append(kernel)
        launchers.append(launcher)
        at = body_end
    if repeated := [name for name, count in Counter(kernel.name for kernel in kernels).items() if count > 1]:
        raise SyntaxError(f"redefinition of the kernel {repeated[0]}")
    return "\n".join(["".join([*pieces, source[at:]]), *launchers, ""]), kernels


def _end_of_body(source: str, start: int) -> int:
    """The place of the brace that closes the one before `start`."""
    depth = 1
    for place in re.finditer(r"[{}]", source[start:]):
        depth += 1 if place[0] == "{" else -1
        if depth == 0:
            return start + place.start()
    return len(source)


def _translated(found: re.Match[str], body: str) -> tuple[Kernel, str, str]:
    """The kernel, its signature in C++, and the function that launches it."""
    name, parameters, passed, kinds = found["name"], [], [], []
    for text in re.split(r",(?![^<(\[]*[>)\]])", found["parameters"]):
        parameter = _PARAMETER.fullmatch(text.strip())
        if parameter is None or parameter["space"] == "threadgroup":
            raise NotEmulatedError(f"{name} has the parameter {text.strip()!r}, which the shim of Metal does not know")
        kind, own, type_ = parameter["attribute"], parameter["name"], parameter["type"]
        if kind in _PLACES:
            parameters.append(f"{type_} {own}")
            passed.append(f"shim::part<{type_}>({_PLACES[kind]})")
            continue
        if not parameter["by"]:
            raise NotEmulatedError(f"{name} has the parameter {text.strip()!r}, which the shim of Metal does not know")
        argument = f"arguments[{len(kinds)}]"
        const = "const " if parameter["space"] == "constant" else ""
        if parameter["by"] == "&":
            kinds.append("value")
            parameters.append(f"{const}{type_}& {own}")
            passed.append(f"*static_cast<{type_}*>({argument}.data)")
        elif type_.endswith("ErrorMessages"):
            kinds.append("errors")
            parameters.append(f"{type_}* {own}")
            passed.append(f"static_cast<{type_}*>({argument}.data)")
        else:
            kinds.append("buffer")
            parameters.append(f"shim::Buffer<{const}{type_}> {own}")
            passed.append(f'shim::Buffer<{const}{type_}>({argument}, "{own}")')
    waits = "true" if _WAITS.search(body) else "false"
    launcher = (
        f'extern "C" void launch_{name}(const shim::Argument* arguments, const uint* grid, const uint* size, '
        f"bool reversed, shim::Fault* fault) {{\n"
        f"  shim::launched(grid, size, {waits}, reversed, fault, [&](const shim::Place& place) {{\n"
        f"    {name}({', '.join(passed)});\n  }});\n}}"
    )
    return (
        Kernel(name, int(found["most"] or 0), tuple(kinds)),
        f"kernel void {name}({', '.join(parameters)}) {{",
        launcher,
    )


def _body(text: str) -> str:
    """The body of a kernel with static memory of the group, conversions as on a GPU, and plain pointers for atomics."""

    def static(found: re.Match[str]) -> str:
        type_, name, size = found["type"], found["name"], found["size"]
        of_bool = "true" if type_ == "bool" else "false"
        return (
            f"static {type_} {name}{size}; static long {name}_seen = 0; "
            f"shim::forget(&{name}, sizeof {name}, {of_bool}, {name}_seen);"
        )

    text = _MEMORY_OF_GROUP.sub(static, text)
    text = re.sub(r"static_cast<(char|uchar|short|ushort|int|uint|long|ulong)>\(", r"shim::converted<\1>(", text)
    text = re.sub(r"(reinterpret_cast<[^()]*>)\((\w+)\)", r"\1(\2.data)", text)
    return re.sub(r"(TORCH_REPORT_ERROR\()", r"shim::fault.ended_early = true; \1", text)
