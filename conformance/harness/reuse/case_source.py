"""The source text that a case comes from: its file, the local modules that it imports, and conftests."""

from __future__ import annotations

import ast
import functools
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import conformance
from conformance.cases.roots import CASE_ROOTS
from conformance.harness.reuse.file_states import digest_of, folder_states

#: Names whose use means that a file reads or loads what its text does not show.
_READERS = frozenset({
    "open", "read_text", "read_bytes", "fromfile", "memmap", "environ", "getenv", "subprocess", "ctypes", "CDLL",
    "load_library", "load_inline", "load_cpp_extension", "import_module", "__import__", "spec_from_file_location",
    "run_path",
})  # fmt: skip
#: The same, for functions without a module in front: a model's method `eval` reads nothing.
_READER_FUNCTIONS = frozenset({"exec", "eval"})
#: The same, for functions whose names alone are too common: `tl.load` reads nothing.
_READER_CALLS = frozenset({("torch", "load"), ("np", "load"), ("numpy", "load"), ("pickle", "load"), ("json", "load")})
#: Packages whose state the digest has anyway.
_COVERED = ("torch", "triton", "numpy", "pytest", "_pytest")
_HARNESS = Path(conformance.__file__).parent


@dataclass(frozen=True)
class Source:
    """`digest`: of all texts. `reader`: the file and the name by which it reads what they do not show; "" if none."""

    digest: str
    reader: str


@functools.cache
def case_source(file: Path, package: str) -> Source:
    """The source of the cases of a file. `package`: the one that its relative imports start from."""
    files: dict[Path, str] = {}
    packages: set[str] = set()
    _collect(file, package, files, packages)
    for folder in file.resolve().parents:
        if (conftest := folder / "conftest.py").is_file():
            _collect(conftest, "", files, packages)
    parts = [f"{path}\n{text}" for path, text in sorted(files.items())]
    parts += [_package_state(name) for name in sorted(packages)]
    readers = (f"{path.name}: {name}" for path, text in sorted(files.items()) if (name := _reader(text)))
    return Source(digest_of(parts), next(readers, ""))


def _collect(file: Path, package: str, files: dict[Path, str], packages: set[str]) -> None:
    """Adds a file and the local files that it imports. `packages`: gets the names of installed packages."""
    file = file.resolve()
    if file in files:
        return
    text = files[file] = file.read_text(encoding="utf-8", errors="replace")
    for name in _imports(text, package):
        path = _path_of_module(name)
        if path is None or (path.is_relative_to(_HARNESS) and not any(map(path.is_relative_to, CASE_ROOTS))):
            continue
        if _is_installed(path):
            packages.add(name.partition(".")[0])
        elif path.suffix == ".py":
            parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
            _collect(path, parent, files, packages)
        else:
            packages.add(name)  # a local extension module


def _imports(text: str, package: str) -> Iterator[str]:
    """The names of all modules that a text imports, and of what may be a module."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _path_of_module(name: str) -> Path | None:
    """The file of a module; None for a built-in one, for one that the digest covers, and for what is no module."""
    top = name.partition(".")[0]
    if top in _COVERED or (top in sys.stdlib_module_names and top != "__main__"):
        return None
    module = sys.modules.get(name)
    if module is not None:
        origin = getattr(module, "__file__", None)
    else:
        spec = _spec(name)
        origin = spec.origin if spec is not None and spec.has_location else None
    return Path(origin).resolve() if origin else None


def _spec(name: str) -> ModuleSpec | None:
    """How a module would be imported. Imports nothing, unlike importlib.util.find_spec."""
    parent = name.rpartition(".")[0]
    if not parent:
        try:
            return importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
    spec = _spec(parent)
    folders = spec.submodule_search_locations if spec is not None else None
    return PathFinder.find_spec(name, folders) if folders else None


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    names = ("purelib", "platlib")
    folders = [sysconfig.get_paths()[name] for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    return tuple(Path(folder).resolve() for folder in dict.fromkeys(folders))


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _installed_folders())


@functools.cache
def _package_state(name: str) -> str:
    """The state of the files of an installed package, or of a single module."""
    path = _path_of_module(name)
    if path is None:
        return name
    if path.name != "__init__.py":
        state = path.stat()
        return f"{path} {state.st_size} {state.st_mtime_ns}"
    return digest_of([str(path), *(f"{file} {state}" for file, state in folder_states(path.parent))])


@functools.cache
def _parsed(text: str) -> ast.AST:
    return ast.parse(text)


def _reader(text: str) -> str:
    """The first name by which a text reads or loads something; "" if there is none."""
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Name) and node.id in _READERS | _READER_FUNCTIONS:
            return node.id
        if isinstance(node, ast.Attribute):
            if node.attr in _READERS:
                return node.attr
            if isinstance(node.value, ast.Name) and (node.value.id, node.attr) in _READER_CALLS:
                return f"{node.value.id}.{node.attr}"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if alias.name in _READERS:
                    return alias.name
    return ""
