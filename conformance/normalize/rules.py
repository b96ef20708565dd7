"""The rules that normalise a generated module: what each removes or renames, and why that cannot change the kernel.

wrapper_modules.py splits a module into statements, kernels and `call`, and applies the rules to each part in order.
Text that no rule matches stays as Inductor wrote it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.normalize import cpp_format, renaming, triton_metadata


@dataclass(frozen=True)
class Rule:
    """One normalisation.

    `effect`: which text it removes or renames. `why`: why that cannot change the kernel.
    `parts`: the parts that it applies to: "statement" (of the module), "call", "triton", "cpp".
    `function`: (text of the part, the target's device type) → text.
    """

    name: str
    effect: str
    why: str
    parts: tuple[str, ...]
    function: Callable[[str, str], str]


def _remove_lines(pattern: str, *words: str) -> Callable[[str, str], str]:
    """Removes each line that `pattern` matches as a whole. `@DEVICE@` and `words`: as for _replace."""
    return _replace(rf"^[ \t]*(?:{pattern})[ \t]*(?:\n|\Z)", "", *words)


def _remove_lines_with(pattern: str) -> Callable[[str, str], str]:
    """Removes each line in which `pattern` matches."""
    compiled = re.compile(pattern)

    def remove(text: str, _: str) -> str:
        lines = text.split("\n")
        kept = [line for line in lines if not compiled.search(line)]
        ended = len(kept) < len(lines) and bool(compiled.search(lines[-1]))  # the last line had no newline to remove
        return "\n".join([*kept, ""] if ended and kept else kept)

    return remove


def _replace(pattern: str, replacement: str, *words: str) -> Callable[[str, str], str]:
    """Replaces each match of `pattern`. `@DEVICE@` in it stands for the target's device type.

    `words`: every match contains one of them. To look for a word is much faster than to look for the pattern.
    """

    @functools.cache
    def compiled(device: str) -> re.Pattern[str]:
        return re.compile(pattern.replace("@DEVICE@", device), re.MULTILINE)

    def replace(text: str, device: str) -> str:
        if words and not any(word in text for word in words):
            return text
        return compiled(device).sub(replacement, text)

    return replace


def _remove_statement(pattern: str) -> Callable[[str, str], str]:
    """Removes a statement of the module that begins with `pattern`."""
    compiled = re.compile(pattern)
    return lambda text, _: "" if compiled.match(text) else text


def _without_device(function: Callable[..., str], *arguments: Any) -> Callable[[str, str], str]:
    """A rule's function that needs the text alone: calls `function` with the text and `arguments`."""
    return lambda text, _: function(text, *arguments)


_ALL_PARTS = ("statement", "call", "triton", "cpp")
_PYTHON_PARTS = ("statement", "call")
_ALIAS = (
    r"torch\.(ops\.(aten|inductor|_quantized|inductor\._alloc_from_pool)"
    r"|_C\._dynamo\.guards\.\w+|_C\._distributed_c10d\.[\w.]+)"
)
_BUFFERS = r"(?<![\w.])(?P<core>(?:\w+_)?buf)(?P<number>\d+)(?P<rest>(?:_[a-z]\w*)?)(?!\w)"
_CPP_COUNTERS = r"\b(?P<core>int_array_|var_|tmp_tensor_handle_)(?P<number>\d+)\b"
_PATH_SUFFIXES = ("py", "cpp", "cc", "h", "so", "cubin", "hsaco", "spv", "ptx", "json")
_PATH = rf"(?<![\w/.])(?:~|\.{{1,2}})?(?:/[\w.+@-]+)+/[\w.+@-]+\.(?:{'|'.join(_PATH_SUFFIXES)})\b"

#: In the order in which they are applied. selftests/normalize/test_rules.py shows a text before and after each.
RULES = [
    Rule(
        "imports",
        "removes the import statements of the module",
        "Inductor writes the same imports into every module, and each use of a name stays",
        ("statement",),
        _remove_statement(r"(import|from) "),
    ),
    Rule(
        "aliases",
        "removes assignments that give torch's own functions a short name",
        "an alias runs nothing, and each call of it stays",
        ("statement",),
        _remove_statement(rf"\w+ = {_ALIAS}$"),
    ),
    Rule(
        "get_args",
        "removes the function `get_args`",
        "only the benchmark that Inductor appends calls it",
        ("statement",),
        _remove_statement(r"def get_args\("),
    ),
    Rule(
        "benchmark",
        "removes `benchmark_compiled_module` and the block `if __name__ == …`",
        "they run only when a person starts the module as a script",
        ("statement",),
        _remove_statement(r"(def benchmark_compiled_module\(|if __name__ == )"),
    ),
    Rule(
        "runner",
        "removes the statements that make `call` available to torch; a Runner with partitions stays",
        "they are the same around every `call` and launch nothing",
        ("statement",),
        _remove_statement(
            r"(runner = Runner\(partitions=\[\]\)|call = \w+[.(]|recursively_apply_fns = |def _wrap_func\()"
        ),
    ),
    Rule(
        "async_compile",
        "removes the statements that create, await and delete `async_compile`",
        "they decide when kernels are compiled, not what they are",
        ("statement",),
        _remove_statement(r"(async_compile = |async_compile\.wait\(|del async_compile)"),
    ),
    Rule(
        "kernel path",
        "removes the comment with a kernel's file",
        "a comment; the file lies in a cache folder",
        _ALL_PARTS,
        _remove_lines(r"# kernel path: .*", "# kernel path: "),
    ),
    Rule(
        "source nodes",
        "removes the source nodes from a kernel's comment; the fused ATen operators stay",
        "a comment; it names the user's variables and FX nodes",
        _ALL_PARTS,
        _replace(
            r"(#|//) (?:(?:Topologically S|Uns)orted )?Source Nodes: \[[^\]\n]*\], (?=Original ATen)",
            r"\1 ",
            "Source Nodes: [",
        ),
    ),
    Rule(
        "no origin",
        "removes the comment `Original ATen: []`",
        "a comment; it names no operator",
        _ALL_PARTS,
        _remove_lines(r"(?:#|//) Original ATen: \[\]", "Original ATen: []"),
    ),
    Rule(
        "graph fragment",
        "removes the comments that repeat the FX graph",
        "comments; the generated code follows from the graph",
        _ALL_PARTS,
        _remove_lines(
            r"# (?:Source node to ATen node mapping|Graph fragment):(?:\n[ \t]*#   .*)*", " mapping:", " fragment:"
        ),
    ),
    Rule(
        "provenance",
        "removes the comment with debug handles",
        "a comment; tracing tools number kernels in it",
        _ALL_PARTS,
        _remove_lines(r"(?:#|//) \[Provenance debug handles\].*", "[Provenance debug handles]"),
    ),
    Rule(
        "source",
        "removes the comments that name a file of the user and a line",
        "comments; they change when a line is added above",
        _ALL_PARTS,
        _remove_lines(r"# (?:File|Original path): .*", "# File: ", "# Original path: "),
    ),
    Rule(
        "graph number",
        "replaces the number of the graph in the name of a profiler's record by `<number>`",
        "it counts the graphs that the process has compiled before",
        ("call",),
        _replace(r"\bgraph_\d+(?=_inductor_wrapper_call\b)", "graph_<number>", "_inductor_wrapper_call"),
    ),
    Rule(
        "pattern handlers",
        "replaces the description of a pattern's handler in a message by the handler's name",
        "the text of an assertion, with an address in memory and the nodes of the FX graph",
        ("call",),
        _replace(
            r"functools\.partial\(<function ([\w.<>]+) at 0x[0-9a-f]+>, Match\(.*?\)\)(?=\")",
            r"\1",
            "functools.partial(<function ",
        ),
    ),
    Rule(
        "paths",
        "writes `<path>` for the path of a source file or binary",
        "the folder depends on the machine and the user",
        _ALL_PARTS,
        _replace(_PATH, "<path>", *(f".{suffix}" for suffix in _PATH_SUFFIXES)),
    ),
    Rule(
        "constants",
        "removes the address at the end of a constant's comment; device, dtype, sizes and strides stay",
        "a comment; the process chooses the address",
        ("statement",),
        _replace(r"^(\w+ = None  # .*\)) -?[0-9a-f]+$", r"\1", " = None  # "),
    ),
    Rule(
        "packed weights",
        "writes `packed` for the size of a weight that MKL packed",
        "a comment; MKL chooses the size by the processor, and no code depends on it",
        ("statement",),
        _replace(r"^(\w+ = None  # .* )\(\d+, 1\) \(1, 0\)$", r"\1(packed, 1) (1, 0)", "(1, 0)"),
    ),
    Rule(
        "stream",
        "removes the variable of the current stream, and the argument `stream=` of each launch",
        "every kernel is launched on the current stream of the device",
        ("call",),
        lambda text, device: _remove_lines(r"(?:raw_)?stream0 = get_raw_stream\(0\)")(
            re.sub(r", stream=(?:raw_)?stream0\b", "", text), device
        ),
    ),
    Rule(
        "device guard",
        "writes `with DeviceGuard(device):` and removes `set_device`",
        "there is one device; the guard still shows which calls stand inside it",
        ("call",),
        lambda text, device: re.sub(
            rf"with torch\.{device}\._DeviceGuard\(\d+\):(\n\s*torch\.{device}\.set_device\(\d+\))?",
            "with DeviceGuard(device):",
            text,
        ),
    ),
    Rule(
        "allocator",
        "renames `empty_strided_cuda` and its like to `empty_strided_device` for the target's own device type",
        "targets share a text that differs only by it; the allocator of another device keeps its name",
        _PYTHON_PARTS,
        _replace(r"\bempty_strided_@DEVICE@\b", "empty_strided_device", "empty_strided_"),
    ),
    Rule(
        "device",
        "writes `device` for the target's own device type, with or without an index",
        "targets share a text that differs only by it; another device type stays",
        _PYTHON_PARTS,
        _replace(
            r"(?:torch\.)?\bdevice\(type='@DEVICE@'(?:, index=\d+)?\)"
            r"|torch\.device\(['\"]@DEVICE@(?::\d+)?['\"](?:, \d+)?\)"
            r"|(?<!\w)['\"]@DEVICE@(?::\d+)?['\"]",
            "device",
        ),
    ),
    Rule(
        "device module",
        "renames `torch.cuda.` and `torch.xpu.` to `torch.device.` for the target's own device type",
        "targets share a text that differs only by it; the function's name stays",
        ("call",),
        _replace(r"\btorch\.@DEVICE@\.(?=\w)", "torch.device."),
    ),
    Rule(
        "device index",
        "removes the index of a device of another type",
        "each device type has one device in a capture",
        _PYTHON_PARTS,
        _replace(r"(device\(type='\w+'), index=\d+\)", r"\1)", "device(type="),
    ),
    Rule(
        "clear",
        "removes `args.clear()`",
        "every `call` has it; it empties the list of arguments after they are unpacked",
        ("call",),
        _remove_lines(r"args\.clear\(\)", "args.clear()"),
    ),
    Rule(
        "triton preamble",
        "removes the imports in a Triton kernel's source, and `set_driver_to_gpu()`",
        "every kernel has them, and each use of a name stays",
        ("triton",),
        _remove_lines(r"(?:import .*|from [\w.]+ import .*|triton_helpers\.set_driver_to_gpu\(\))"),
    ),
    Rule(
        "triton metadata",
        "removes default values, names and hashes from a Triton kernel's decorator, and sorts its keys",
        "triton_metadata.py has a reason for each key; a value that is not the default stays",
        ("triton",),
        triton_metadata.format_decorators,
    ),
    Rule(
        "includes",
        "removes the `#include` lines of a C++ kernel",
        "every kernel has the same headers",
        ("cpp",),
        _remove_lines(r"#include .*", "#include "),
    ),
    Rule(
        "division error",
        "removes the lines that set up and test the flag for an integer division by zero",
        "every C++ kernel has them; the division itself stays",
        ("cpp",),
        _remove_lines_with(r"\binductor_cpu_(?:integer_div_error|throw_if_integer_div_error)"),
    ),
    Rule(
        "int64 literals",
        "writes `8L` for `static_cast<int64_t>(8)` and `static_cast<int64_t>(8L)`",
        "all three are the same value of the same type",
        ("cpp",),
        _replace(r"static_cast<int64_t>\((-?\d+)L?\)", r"\1L", "static_cast<int64_t>("),
    ),
    Rule(
        "int64 indices",
        "removes the cast to int64_t of an index, or of an offset from a pointer",
        "C++ makes an integer that is added to a pointer 64 bits wide anyway; a cast to another type stays",
        ("cpp",),
        _without_device(cpp_format.remove_index_casts),
    ),
    Rule(
        "vector types",
        "removes `at::vec::` before `Vectorized`, `VectorizedN` and `VecMask`",
        "no other type has one of these names",
        ("cpp",),
        _replace(r"\bat::vec::(?=(?:Vectorized|VectorizedN|VecMask)\b)", "", "at::vec::"),
    ),
    Rule(
        "device in C++",
        "renames `…_device_type_cuda` and its like to `…_device_type_device` for the target's own device type",
        "targets share a text that differs only by it; another device type stays",
        ("cpp",),
        _replace(r"\b(cached_torch_device_type_|aoti_torch_device_type_)@DEVICE@\b", r"\1device", "_device_type_"),
    ),
    Rule(
        "error flags",
        "removes torch's macros `CACHE_TORCH_DTYPE`, `CACHE_TORCH_DEVICE` and `CACHE_TORCH_LAYOUT`",
        "each declares a constant for a dtype, device or layout; each use of the constant stays",
        ("cpp",),
        _remove_lines(r"CACHE_TORCH_(?:DTYPE|DEVICE|LAYOUT)\(.*", "CACHE_TORCH_"),
    ),
    Rule(
        "sizes",
        "renumbers `ks0`, `ps0`, … by first appearance",
        "the numbers are counters; the renaming is one-to-one",
        ("triton", "cpp"),
        _without_device(renaming.renumber_symbols, "ks|ps"),
    ),
    Rule(
        "triton names",
        "renumbers the variables of a Triton function, such as `tmp0`, `x0` and `r0_1`, by first appearance",
        "the numbers are counters; the renaming is one-to-one within a function",
        ("triton",),
        _without_device(renaming.renumber_triton_variables),
    ),
    Rule(
        "C++ names",
        "renumbers the variables of a C++ kernel, such as `tmp0`, `tmp_acc0` and `x0`, by first appearance in a block",
        "the numbers are counters; the renaming keeps two variables of one scope apart",
        ("cpp",),
        _without_device(renaming.renumber_cpp_variables),
    ),
    Rule(
        "C++ counters",
        "renumbers the arrays and handles of a C++ wrapper by first appearance",
        "the numbers are counters; the renaming is one-to-one",
        ("cpp",),
        _without_device(renaming.renumber, re.compile(_CPP_COUNTERS)),
    ),
    Rule(
        "C++ layout",
        "reduces indentation, and removes the braces of a block that holds only another block",
        "C++ ignores indentation; no declaration stands between the two braces, so no scope changes",
        ("cpp",),
        _without_device(cpp_format.format_blocks),
    ),
    Rule(
        "arguments",
        "renames the arguments of `call` in the order in which they are unpacked",
        "the names are those of FX nodes; the renaming is one-to-one",
        ("call",),
        _without_device(renaming.rename_arguments),
    ),
    Rule(
        "buffers",
        "renumbers `buf0`, `buf1`, … by first appearance",
        "the numbers are counters that leave some out; the renaming is one-to-one",
        ("call", "cpp"),
        _without_device(renaming.renumber, re.compile(_BUFFERS)),
    ),
    Rule(
        "symbols",
        "renumbers the symbols of dynamic sizes, such as `s77` and `u0`, by first appearance",
        "a hash or a counter chooses the numbers; the renaming is one-to-one",
        ("call",),
        _without_device(renaming.renumber_symbols, "s|u|ks|ps|zuf|zf"),
    ),
]


_RULES_OF = {part: [rule for rule in RULES if part in rule.parts] for part in _ALL_PARTS}


@functools.lru_cache(maxsize=2048)  # modules have most statements in common, targets most kernels
def apply_rules(text: str, part: str, device: str) -> str:
    """Applies the rules for one part, then removes blanks at the ends of lines and empty lines around the text."""
    for rule in _RULES_OF[part]:
        if text:
            text = rule.function(text, device)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
