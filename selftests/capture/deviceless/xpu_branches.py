"""Finds each place of torch's compiler and Triton's runtime that asks for xpu, in their sources; imports neither.

A place is a function (or a class or module outside of functions) with its questions: how often it names a device type,
a function of torch.xpu, how torch was built, or something that is called after xpu. `xpu_branches.toml` holds the
places of each supported torch, and how the pretended device answers. Run this file to print the places of the installed
torch that the list lacks, and those that are gone:

    python selftests/capture/deviceless/xpu_branches.py
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIST = Path(__file__).with_suffix(".toml")
#: What torch.compile runs, below the folders of torch and of Triton.
TORCH = (
    "_decomp",
    "_dynamo",
    "_functorch",
    "_higher_order_ops",
    "_inductor",
    "_native",
    "_prims",
    "_refs",
    "_subclasses",
    "nn/attention",
    "utils/_triton.py",
)
TRITON = ("compiler", "runtime")
#: The kinds of `answers` in the list.
ANSWERS = {
    "type": "it asks for the device type of a tensor, a node or a kernel, which is xpu here too",
    "available": "it asks torch.xpu whether there is a device: yes",
    "property": "it asks torch.xpu for a property: that of the target's row",
    "build": "it asks how torch was built: xpu_build.py answers for a build with xpu",
    "interface": "Dynamo's device interface: the pretended one answers",
    "names": "it lists or writes names of xpu, the same in every build",
    "runtime": "it compiles, launches or times a kernel on the device: not without a device",
    "not reached": "an option or a package that the suite does not use leads here; the note says which",
    "differs": "the pretended device does not answer like a real build; the note says what differs",
}

Places = dict[str, dict[str, int]]


def installed(package: str) -> Path | None:
    """The folder of a package, without importing it; None if it is not installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def places(torch: Path, triton: Path | None = None) -> Places:
    """Place, such as "torch/_inductor/kernel/bmm.py" or "torch/_inductor/graph.py:GraphLowering.x" → question → count.

    `torch`, `triton`: their folders.
    """
    found: Places = {}
    roots = [(torch, "torch", TORCH), *([(triton, "triton", TRITON)] if triton else [])]
    for root, package, parts in roots:
        for part in parts:
            path = root / part
            for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
                text = file.read_text(encoding="utf-8")
                if re.search("xpu", text, re.IGNORECASE):
                    name = f"{package}/{file.relative_to(root).as_posix()}"
                    for scope, questions in _scopes(ast.parse(text)).items():
                        found[f"{name}:{scope}".rstrip(":")] = dict(sorted(questions.items()))
    return found


def _scopes(tree: ast.Module) -> dict[str, Counter[str]]:
    """Qualified name of a function or class → its questions; "" for the module."""
    found: dict[str, Counter[str]] = {}
    for scope, question in _questions(tree, ""):
        found.setdefault(scope, Counter())[question] += 1
    return found


def _questions(node: ast.AST, scope: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if _named(node.name):
            yield scope, f"defines {node.name}"
        for decorator in node.decorator_list:
            yield from _questions(decorator, scope)
        inner = f"{scope}.{node.name}".lstrip(".")
        rest = [child for child in ast.iter_child_nodes(node) if child not in node.decorator_list]
        for child in rest:
            if not _is_docstring(child):
                yield from _questions(child, inner)
        return
    if isinstance(node, ast.Attribute) and _named(chain := _chain(node)):
        yield scope, chain
        return
    if isinstance(node, ast.Name) and _named(node.id):
        yield scope, node.id
    if isinstance(node, (ast.alias, ast.keyword)) and _named(name := getattr(node, "name", None) or node.arg or ""):
        yield scope, name.rpartition(".")[2] if isinstance(node, ast.alias) else f"{name}="
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _named(node.value):
        yield scope, _quoted(node.value)
    for child in ast.iter_child_nodes(node):
        if not _is_docstring(child):
            yield from _questions(child, scope)


def _named(text: str) -> bool:
    """Whether the text names xpu. "IndexPutFallback" does not."""
    return re.search("xpu(?!t)|XPU|Xpu(?!t)", text) is not None


def _chain(node: ast.AST) -> str:
    """`torch.xpu.is_available` of an attribute; ".is_xpu" where it begins with an expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (node.id == "torch" or _named(node.id)):
        names.append(node.id)
        return ".".join(reversed(names))
    kept = next((i for i in reversed(range(len(names))) if _named(names[i])), None)
    return "" if kept is None else "." + ".".join(reversed(names[: kept + 1]))


def _quoted(text: str) -> str:
    """A string as a question: as it is if it is short; functions of torch.xpu, code and sentences by their kind."""
    if re.fullmatch(r"torch(\._C)?\.?_?xpu[\w.]*|torch\._C\._xpu\w*", text):
        return "'torch.xpu.…'"
    return repr(text) if len(text) <= 40 and "\n" not in text else "text with xpu"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def listed(release: str) -> dict[str, dict[str, Any]]:
    """Place → its entry, of a torch release such as "2.13"."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {place: entry for place, entry in entries.items() if release in entry["asks"]}


def differences(found: Places, release: str) -> list[str]:
    """A line for each place that the list of the release lacks, that is gone, or that asks something else."""
    known = {place: entry["asks"][release] for place, entry in listed(release).items()}
    lines = [f"new: {place} asks {_words(found[place])}" for place in found.keys() - known.keys()]
    lines += [f"gone: {place}" for place in known.keys() - found.keys()]
    lines += [
        f"changed: {place} asks {_words(found[place])}, and asked {_words(known[place])}"
        for place in found.keys() & known.keys()
        if found[place] != known[place]
    ]
    return sorted(lines)


def _words(questions: dict[str, int]) -> str:
    return ", ".join(f"{question} ({count} times)" if count > 1 else question for question, count in questions.items())


def main() -> None:
    torch = installed("torch")
    assert torch, "torch is not installed"
    version = re.search(r"__version__ = '(\d+\.\d+)", (torch / "version.py").read_text(encoding="utf-8"))
    assert version
    print("\n".join(differences(places(torch, installed("triton")), version[1])) or "the list is complete")


if __name__ == "__main__":
    main()
