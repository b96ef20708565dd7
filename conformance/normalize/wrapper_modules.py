"""The readable text of a wrapper module: its kernels, then its `call`, each with the rules of rules.py applied."""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from dataclasses import dataclass

from conformance.normalize import renaming, triton_metadata
from conformance.normalize.rules import apply_rules


@functools.lru_cache(maxsize=32)  # an item needs the same text for its snapshot and to compare it with another case
def normalise(code: str, device: str) -> str:
    """The readable text of a wrapper module: its kernels, then its `call`.

    `device`: the target's device type (cpu, cuda, xpu).
    """
    try:
        statements = _statements(code)
    except SyntaxError:  # a C++ wrapper that is compiled ahead of time is not Python
        return printable(f"# C++\n{apply_rules(code, 'cpp', device)}\n")
    lines = code.splitlines()
    kind = re.search(r"^# AOT ID: \[?'?\w*?_?(inference|forward|backward)\b", code, re.MULTILINE)
    blocks: list[str] = [f"# AOT ID: {kind[1]}"] if kind else []
    calls: list[str] = []
    names: list[str] = []
    previous = 0
    for node in statements:
        start = _first_line(node)
        comments = [line for line in lines[previous : start - 1] if line.startswith("#") and "AOT ID" not in line]
        text = "\n".join([*comments, *lines[start - 1 : node.end_lineno]])
        previous = node.end_lineno or 0
        if kernel := _kernel(node):
            names.append(kernel.name)
            blocks.append(_kernel_block(kernel, "\n".join(comments), device))
        elif isinstance(node, ast.ClassDef) and node.name == "Runner":
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "call"]
            calls += [_function(lines, method) for method in methods]
        elif isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["args"]:  # call, a partition
            calls.append(_function(lines, node))
        elif source := _source_text(node):
            name, cpp = source
            names += re.findall(r'extern "C"\s+void\s+(\w+)\(', cpp)
            blocks.append(f"# {name}\n{apply_rules(cpp, 'cpp', device)}")
        # The rules get a statement without the comments above it, so that a rule can remove it as a whole.
        elif apply_rules("\n".join(lines[start - 1 : node.end_lineno]), "statement", device):
            blocks.append(apply_rules(text, "statement", device))
    call = apply_rules("\n\n".join(calls), "call", device)
    text = "\n\n".join(block for block in [*blocks, call] if block) + "\n"
    return printable(renaming.replace_names(text, renaming.kernel_names(names)))


def kernel_texts(code: str, device: str) -> list[tuple[str, str]]:
    """(name, readable text) of each kernel of a wrapper module, in order. In the text, the kernel's name is `kernel`.

    So equal texts are equal kernels. None of a wrapper that is no Python.
    """
    try:
        kernels = [kernel for node in _statements(code) if (kernel := _kernel(node))]
    except SyntaxError:
        return []
    texts = [_kernel_block(kernel, "", device) for kernel in kernels]
    named = zip(kernels, texts, strict=True)
    return [(kernel.name, printable(renaming.replace_names(text, {kernel.name: "kernel"}))) for kernel, text in named]


def _statements(code: str) -> list[ast.stmt]:
    """The statements of a module. Raises SyntaxError.

    The imports and aliases before `async_compile` are most of a module's statements, and nearly the same everywhere.
    """
    head, mark, rest = code.partition("\nasync_compile = AsyncCompile()\n")
    if not mark:
        return ast.parse(code).body
    try:
        return [*_head_statements(head), *ast.parse("\n" * (head.count("\n") + 1) + mark[1:] + rest).body]
    except SyntaxError:
        return ast.parse(code).body


@functools.lru_cache(maxsize=64)
def _head_statements(head: str) -> tuple[ast.stmt, ...]:
    return tuple(ast.parse(head).body)


def _first_line(node: ast.stmt) -> int:
    """The number of a statement's first line, its decorators included."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno


@dataclass(frozen=True)
class _Kernel:
    """`kind`: what compiles it: triton, cpp_pybinding, … `types`: of a C++ kernel's arguments. `options`: all other
    arguments of the call.
    """

    name: str
    kind: str
    source: str
    types: list[str] | None
    device: str | None
    options: list[str]


def _kernel(node: ast.stmt) -> _Kernel | None:
    """The kernel of `name = async_compile.triton('…', '''source''', …)`; None for any other statement."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    function = ast.unparse(call.func)
    sources = [
        a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str) and "\n" in a.value
    ]
    if not function.startswith("async_compile.") or len(sources) != 1:
        return None
    is_cpp = function.startswith("async_compile.cpp")
    types = next((ast.literal_eval(a) for a in call.args if isinstance(a, ast.List) and is_cpp), None)
    device = None
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg == "device_str" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            device = value.value
    name = ast.unparse(node.targets[0])
    options = [
        ast.unparse(a)
        for a in call.args
        if not isinstance(a, ast.Constant) and not (is_cpp and isinstance(a, ast.List))
    ]
    options += [ast.unparse(k) for k in call.keywords if k.arg != "device_str"]
    return _Kernel(name, function.partition(".")[2], sources[0], types, device, options)


def _kernel_block(kernel: _Kernel, comments: str, device: str) -> str:
    part = "cpp" if kernel.kind.startswith("cpp") else "triton"
    source = textwrap.dedent(kernel.source)
    if part == "triton":
        source = triton_metadata.without_properties(source, device)
    source = apply_rules(source, part, device)
    notes = [apply_rules(comments, "statement", device)]
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
    """The types in the signature of a C++ kernel. Inductor's list of argument types normally repeats them."""
    signature = re.search(r'extern "C"[^(]*\(([^)]*)\)', source)
    if not signature:
        return None
    return [re.sub(r"\s*\b\w+$", "", parameter.strip()) for parameter in signature[1].split(",")]


def _function(lines: list[str], node: ast.FunctionDef) -> str:
    """The text of a function, or of the method `call` as a function."""
    text = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    return text.replace("def call(self, args):", "def call(args):", 1)


def _source_text(node: ast.stmt) -> tuple[str, str] | None:
    """Name and text of an assignment of a string of several lines, such as a C++ source; None for any other."""
    value = getattr(node, "value", None)
    if isinstance(node, ast.Assign) and isinstance(value, ast.Constant) and isinstance(value.value, str):
        return (ast.unparse(node.targets[0]), value.value) if "\n" in value.value else None
    return None


def printable(text: str) -> str:
    """The text as a terminal and a diff can show it: control characters as escapes, no blanks at the ends of lines."""
    text = re.sub(r"[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda c: ascii(c[0])[1:-1], text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
