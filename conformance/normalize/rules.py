"""Normalising: the text of a wrapper module without what does not change what runs.

Names are normalised, never meaning. A module is taken apart into statements, kernels and `call`; the rules below, each
with its reason, apply to these parts in order. What no rule knows stays in the text.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.normalize import cpp_format, renaming, triton_metadata


@dataclass(frozen=True)
class Rule:
    """One normalisation. `parts`: where it applies: "statement" (of the module), "call", "triton", "cpp".

    `function`: (text of the part, the target's device type) → text.
    """

    name: str
    why: str
    parts: tuple[str, ...]
    function: Callable[[str, str], str]


def _drop(pattern: str) -> Callable[[str, str], str]:
    """Removes the lines that match `pattern` as a whole; `@DEVICE@` in it stands for the target's device type."""
    return _replace(rf"^[ \t]*(?:{pattern})[ \t]*(?:\n|\Z)", "")


def _replace(pattern: str, replacement: str) -> Callable[[str, str], str]:
    @functools.cache
    def compiled(device: str) -> re.Pattern[str]:
        return re.compile(pattern.replace("@DEVICE@", device), re.MULTILINE)

    return lambda text, device: compiled(device).sub(replacement, text)


def _statement(pattern: str) -> Callable[[str, str], str]:
    """Removes a statement of the module that begins with `pattern`."""
    compiled = re.compile(pattern)
    return lambda text, _: "" if compiled.match(text) else text


def _renamed(function: Callable[..., str], *arguments: Any) -> Callable[[str, str], str]:
    return lambda text, _: function(text, *arguments)


ALL = ("statement", "call", "triton", "cpp")
PYTHON = ("statement", "call")
_ALIAS = (
    r"torch\.(ops\.(aten|inductor|_quantized|inductor\._alloc_from_pool)"
    r"|_C\._dynamo\.guards\.\w+|_C\._distributed_c10d\.[\w.]+)"
)
_BUFFERS = r"(?<![\w.])(?P<core>(?:\w+_)?buf)(?P<number>\d+)(?P<rest>(?:_[a-z]\w*)?)(?!\w)"
_CPP_COUNTERS = r"\b(?P<core>int_array_|var_|tmp_tensor_handle_)(?P<number>\d+)\b"
_PATH = r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.+@-]+)+/[\w.+@-]+\.(?:py|cpp|cc|h|so|cubin|hsaco|spv|ptx|json)\b"

RULES = [
    Rule("imports", "the same preamble in every module", ("statement",), _statement(r"(import|from) ")),
    Rule("aliases", "short names of torch's own functions", ("statement",), _statement(rf"\w+ = {_ALIAS}$")),
    Rule("get_args", "inputs for the benchmark that Inductor appends", ("statement",), _statement(r"def get_args\(")),
    Rule(
        "benchmark",
        "harness for running the module by hand",
        ("statement",),
        _statement(r"(def benchmark_compiled_module\(|if __name__ == )"),
    ),
    Rule(
        "runner",
        "boilerplate around `call`",
        ("statement",),
        _statement(r"(runner = Runner\(partitions=\[\]\)|call = \w+[.(]|recursively_apply_fns = |def _wrap_func\()"),
    ),
    Rule(
        "async_compile",
        "how kernels are compiled, not what they are",
        ("statement",),
        _statement(r"(async_compile = |async_compile\.wait\(|del async_compile)"),
    ),
    Rule("kernel path", "a file in a cache folder", ALL, _drop(r"# kernel path: .*")),
    Rule(
        "source nodes",
        "names of the user's variables and FX nodes; what was fused stays",
        ALL,
        _replace(r"(#|//) (?:(?:Topologically S|Uns)orted )?Source Nodes: \[[^\]\n]*\], (?=Original ATen)", r"\1 "),
    ),
    Rule("no origin", "an empty list of operators", ALL, _drop(r"(?:#|//) Original ATen: \[\]")),
    Rule(
        "graph fragment",
        "the FX nodes again, with their names",
        ALL,
        _drop(r"# (?:Source node to ATen node mapping|Graph fragment):(?:\n[ \t]*#   .*)*"),
    ),
    Rule("provenance", "handles of the tracing tools", ALL, _drop(r"(?:#|//) \[Provenance debug handles\].*")),
    Rule("source", "line of the user's file", ALL, _drop(r"# (?:File|Original path): .*")),
    Rule("paths", "files of this machine", ALL, _replace(_PATH, "<path>")),
    Rule(
        "constants",
        "the address of a constant in memory",
        ("statement",),
        _replace(r"^(\w+ = None  # .*\)) -?[0-9a-f]+$", r"\1"),
    ),
    Rule(
        "stream",
        "the current stream of the device",
        ("call",),
        lambda text, device: _drop(r"(?:raw_)?stream0 = get_raw_stream\(0\)")(
            re.sub(r", stream=(?:raw_)?stream0\b", "", text), device
        ),
    ),
    Rule(
        "device guard",
        "the only device there is; the guard says where kernels are called",
        ("call",),
        lambda text, device: re.sub(
            rf"with torch\.{device}\._DeviceGuard\(\d+\):(\n\s*torch\.{device}\.set_device\(\d+\))?",
            "with DeviceGuard(device):",
            text,
        ),
    ),
    Rule(
        "allocator",
        "targets share what differs only by it",
        PYTHON,
        _replace(r"\bempty_strided_@DEVICE@\b", "empty_strided_device"),
    ),
    Rule(
        "device",
        "the target's own device type; another type stays",
        PYTHON,
        _replace(
            r"(?:torch\.)?\bdevice\(type='@DEVICE@'(?:, index=\d+)?\)"
            r"|torch\.device\(['\"]@DEVICE@(?::\d+)?['\"](?:, \d+)?\)"
            r"|(?<!\w)['\"]@DEVICE@(?::\d+)?['\"]",
            "device",
        ),
    ),
    Rule(
        "device module",
        "torch.cuda.f and torch.xpu.f",
        ("call",),
        _replace(r"\btorch\.@DEVICE@\.(?=\w)", "torch.device."),
    ),
    Rule("device index", "one device is compiled for", PYTHON, _replace(r"(device\(type='\w+'), index=\d+\)", r"\1)")),
    Rule("clear", "boilerplate of `call`", ("call",), _drop(r"args\.clear\(\)")),
    Rule(
        "triton preamble",
        "the same imports in every kernel",
        ("triton",),
        _drop(r"(?:import .*|from [\w.]+ import .*|triton_helpers\.set_driver_to_gpu\(\))"),
    ),
    Rule("triton metadata", "see metadata.py", ("triton",), triton_metadata.decorators),
    Rule("includes", "the same headers in every kernel", ("cpp",), _drop(r"#include .*")),
    Rule(
        "division error",
        "the flag for an integer division by zero, in every kernel",
        ("cpp",),
        _drop(r".*\binductor_cpu_(?:integer_div_error|throw_if_integer_div_error).*"),
    ),
    Rule(
        "int64 literals",
        "static_cast<int64_t>(8), static_cast<int64_t>(8L) and 8L are one value of one type",
        ("cpp",),
        _replace(r"static_cast<int64_t>\((-?\d+)L?\)", r"\1L"),
    ),
    Rule(
        "int64 indices",
        "an integer added to a pointer is made an int64 anyway",
        ("cpp",),
        _renamed(cpp_format.index_casts),
    ),
    Rule(
        "vector types",
        "the namespace of all vector types",
        ("cpp",),
        _replace(r"\bat::vec::(?=(?:Vectorized|VectorizedN|VecMask)\b)", ""),
    ),
    Rule(
        "device in C++",
        "as in Python",
        ("cpp",),
        _replace(r"\b(cached_torch_device_type_|aoti_torch_device_type_)@DEVICE@\b", r"\1device"),
    ),
    Rule(
        "error flags",
        "torch's own macros, one for each type used",
        ("cpp",),
        _drop(r"CACHE_TORCH_(?:DTYPE|DEVICE|LAYOUT)\(.*"),
    ),
    Rule("sizes", "ks0, ks1: counters", ("triton", "cpp"), _renamed(renaming.symbols, "ks|ps")),
    Rule("triton names", "tmp, x, r: counters", ("triton",), _renamed(renaming.triton_functions)),
    Rule("C++ names", "tmp, x: counters, by block", ("cpp",), _renamed(renaming.cpp_blocks)),
    Rule(
        "C++ counters",
        "arrays and handles of a C++ wrapper",
        ("cpp",),
        _renamed(renaming.by_appearance, re.compile(_CPP_COUNTERS)),
    ),
    Rule("C++ layout", "indentation and braces around a single block", ("cpp",), _renamed(cpp_format.layout)),
    Rule("arguments", "names of FX nodes", ("call",), _renamed(renaming.arguments)),
    Rule("buffers", "counters with gaps", ("call", "cpp"), _renamed(renaming.by_appearance, re.compile(_BUFFERS))),
    Rule("symbols", "s77, u0: numbered by hash or counter", ("call",), _renamed(renaming.symbols, "s|u|ks|ps|zuf|zf")),
]


def apply(text: str, part: str, device: str) -> str:
    """Applies the rules for one part, then takes trailing blanks away."""
    for rule in RULES:
        if part in rule.parts and text:
            text = rule.function(text, device)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


@functools.lru_cache(maxsize=32)  # an item's text and its comparison with another case ask for the same
def normalise(code: str, device: str) -> str:
    """The readable text of a wrapper module: its kernels, then its call. `device`: the target's type (cpu, cuda, xpu).

    Nothing that changes what runs is left out; what no rule knows stays as it is.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a C++ wrapper that is compiled ahead of time is no Python
        return printable(f"# C++\n{apply(code, 'cpp', device)}\n")
    lines = code.splitlines()
    kind = re.search(r"^# AOT ID: \[?'?\w*?_?(inference|forward|backward)\b", code, re.MULTILINE)
    blocks: list[str] = [f"# AOT ID: {kind[1]}"] if kind else []
    calls: list[str] = []
    names: list[str] = []
    previous = 0
    for node in tree.body:
        start = node.decorator_list[0].lineno if getattr(node, "decorator_list", None) else node.lineno
        comments = [line for line in lines[previous : start - 1] if line.startswith("#") and "AOT ID" not in line]
        text = "\n".join([*comments, *lines[start - 1 : node.end_lineno]])
        previous = node.end_lineno or 0
        kernel = _kernel(node)
        if kernel:
            names.append(kernel.name)
            blocks.append(_kernel_block(kernel, "\n".join(comments), device))
        elif isinstance(node, ast.ClassDef) and node.name == "Runner":
            calls += [_function(lines, method) for method in node.body if getattr(method, "name", "") == "call"]
        elif isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["args"]:  # call, a partition
            calls.append(_function(lines, node))
        else:
            source = _long_string(node)
            # A statement is looked at without the comments above it, so that a rule can drop it whole.
            bare = "\n".join(lines[start - 1 : node.end_lineno])
            if source is not None:
                names += re.findall(r'extern "C"\s+void\s+(\w+)\(', source)
                blocks.append(f"# {ast.unparse(node.targets[0])}\n{apply(source, 'cpp', device)}")
            elif apply(bare, "statement", device):
                blocks.append(apply(text, "statement", device))
    call = apply("\n\n".join(calls), "call", device)
    text = "\n\n".join(block for block in [*blocks, call] if block) + "\n"
    return printable(renaming.replace(text, renaming.kernels(names)))


@dataclass(frozen=True)
class _Kernel:
    name: str
    kind: str  # what compiles it: triton, cpp_pybinding, …
    source: str
    types: list[str] | None  # C++: of the arguments
    device: str | None
    options: list[str]  # whatever else is said


def _kernel(node: ast.stmt) -> _Kernel | None:
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    function = ast.unparse(call.func)
    sources = [
        a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str) and "\n" in a.value
    ]
    if not function.startswith("async_compile.") or len(sources) != 1:
        return None
    types = next((ast.literal_eval(a) for a in call.args if isinstance(a, ast.List)), None)
    devices = [k.value.value for k in call.keywords if k.arg == "device_str" and isinstance(k.value, ast.Constant)]
    name = ast.unparse(node.targets[0])
    options = [ast.unparse(a) for a in call.args if not isinstance(a, (ast.List, ast.Constant))]
    options += [ast.unparse(k) for k in call.keywords if k.arg != "device_str"]
    return _Kernel(name, function.partition(".")[2], sources[0], types, devices[0] if devices else None, options)


def _kernel_block(kernel: _Kernel, comments: str, device: str) -> str:
    part = "cpp" if kernel.kind.startswith("cpp") else "triton"
    source = apply(textwrap.dedent(kernel.source), part, device)
    notes = [apply(comments, "statement", device)]
    if kernel.kind not in ("triton", "cpp_pybinding", "cpp"):
        notes.append(f"# compiled by: {kernel.kind}")
    if kernel.device not in (None, device):
        notes.append(f"# device: {kernel.device}")
    if kernel.options:
        notes.append(f"# options: {', '.join(kernel.options)}")
    if kernel.types is not None and kernel.types != _parameter_types(kernel.source):
        notes.append(f"# argument types: {', '.join(kernel.types)}")
    return "\n".join([f"# kernel {kernel.name}", *(note for note in notes if note), source])


def _parameter_types(source: str) -> list[str] | None:
    """The types in the signature of a C++ kernel, which its declared argument types normally repeat."""
    signature = re.search(r'extern "C"[^(]*\(([^)]*)\)', source)
    if not signature:
        return None
    return [re.sub(r"\s*\b\w+$", "", parameter.strip()) for parameter in signature[1].split(",")]


def _function(lines: list[str], node: ast.FunctionDef) -> str:
    text = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    return text.replace("def call(self, args):", "def call(args):", 1)


def _long_string(node: ast.stmt) -> str | None:
    value = getattr(node, "value", None)
    if isinstance(node, ast.Assign) and isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value if "\n" in value.value else None
    return None


def printable(text: str) -> str:
    """UTF-8 that a terminal and a diff show: control characters are written as escapes, trailing blanks go."""
    text = re.sub(r"[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda c: ascii(c[0])[1:-1], text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
