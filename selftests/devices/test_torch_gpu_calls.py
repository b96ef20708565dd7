"""Every attribute of torch.cuda, torch.xpu and torch.accelerator that the suite uses exists, and takes its arguments.

On a machine without GPUs nothing calls them, so a misspelt name would show on somebody else's machine.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from suites import REPOSITORY

MODULES = ("cuda", "xpu", "accelerator")
#: For `getattr(torch, device)`.
ANY_GPU = ("cuda", "xpu")
#: File → what it uses of torch.<module>. `gpu.` stands for `getattr(torch, device)`.
USES = {
    "bench/timing.py": {
        "cuda.CUDAGraph",
        "cuda.Stream",
        "cuda.current_stream",
        "cuda.graph",
        "cuda.is_available",
        "cuda.stream",
        "cuda.synchronize",
    },
    "devices/machine.py": {
        "gpu.device_count",
        "gpu.get_device_capability",
        "gpu.get_device_properties",
        "gpu.is_available",
    },
    "harness/accidents/device_health.py": {"gpu.empty_cache", "gpu.synchronize"},
    "harness/accidents/guardian.py": {"gpu.is_initialized"},
    "harness/reproduction/standalone/main.py": {"gpu.is_available"},
    "minimisation/script.py": {"gpu.is_available"},
}


@dataclass(frozen=True)
class Use:
    """An attribute of a module of torch. `call`: the call of it, if it is called."""

    modules: tuple[str, ...]
    name: str
    line: int
    call: ast.Call | None

    @property
    def label(self) -> str:
        return f"{'gpu' if self.modules == ANY_GPU else self.modules[0]}.{self.name}"


def uses(source: str) -> Iterator[Use]:
    """The uses in a source text, and in texts of Python that it contains."""
    tree = ast.parse(source)
    bound: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (modules := _modules(node.value, bound)):
            bound |= {target.id: modules for target in node.targets if isinstance(target, ast.Name)}
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (modules := _modules(node.value, bound)):
            yield Use(modules, node.attr, node.lineno, calls.get(id(node)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value:
            try:
                yield from uses(node.value)
            except SyntaxError:
                continue  # words about an import


def _modules(node: ast.expr, bound: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Which modules of torch an expression is: () for none."""
    if isinstance(node, ast.Name):
        return bound.get(node.id, ())
    if isinstance(node, ast.Attribute):
        return (node.attr,) if ast.unparse(node.value) == "torch" and node.attr in MODULES else ()
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and ast.unparse(node.args[0]) == "torch":
        return ANY_GPU if "device" in ast.unparse(node.args[1]) else ()
    return ()


def problems(source: str) -> list[str]:
    """What the installed torch lacks, or does not take."""
    return [f"line {use.line}: {problem}" for use in uses(source) for problem in _problems(use)]


def _problems(use: Use) -> Iterator[str]:
    import torch

    for module in use.modules:
        where = f"torch.{module}.{use.name}"
        found = getattr(getattr(torch, module), use.name, None)
        if found is None:
            yield f"{where} does not exist"
            continue
        if use.call is None or any(isinstance(each, ast.Starred) for each in use.call.args):
            continue
        arguments: list[Any] = [None] * len(use.call.args)
        named = {each.arg: None for each in use.call.keywords if each.arg}
        try:
            inspect.signature(found).bind(*arguments, **named)
        except TypeError as error:
            yield f"{where}: {error}"


def sources() -> dict[str, str]:
    """Files of the package that run on a real GPU. What replaces torch's functions without one is not called there."""
    root = REPOSITORY / "conformance"
    left_out = ("ops", "capture/deviceless", "capture/emulation")
    files = [path for path in sorted(root.rglob("*.py")) if not _is_below(path.relative_to(root), left_out)]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _is_below(path: Path, folders: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def test_the_list_is_complete():
    found = {file: {use.label for use in uses(source)} for file, source in sources().items()}
    assert {file: labels for file, labels in found.items() if labels} == USES


@pytest.mark.parametrize("file", USES)
def test_torch_has_what_is_used(file):
    assert problems(sources()[file]) == []


def test_cases_use_what_torch_has():
    folder = REPOSITORY / "conformance/ops"
    found = {path.name: problems(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import torch\ntorch.xpu.synchronise()", "line 2: torch.xpu.synchronise does not exist"),
        ("getattr(torch, self.device).empty_cash()", "line 1: torch.cuda.empty_cash does not exist"),
        (
            "module = getattr(torch, device, None)\nmodule.device_count(0)",
            "torch.xpu.device_count: too many positional",
        ),
        ("TEXT = 'import torch; torch.xpu.count()'", "line 1: torch.xpu.count does not exist"),
        (
            "torch.accelerator.synchronize(devise=0)",
            "torch.accelerator.synchronize: got an unexpected keyword argument",
        ),
        ("torch.xpu.get_device_properties(1, 2)", "torch.xpu.get_device_properties: too many positional arguments"),
    ],
)
def test_a_wrong_use_is_found(source, problem):
    assert any(problem in each for each in problems(source)), problems(source)
