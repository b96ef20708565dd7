"""Compiles the C++ kernels of several captures in one translation unit, with the flags that each would have had.

Most of the time of a small kernel goes into starting the compiler and reading the precompiled header. In a batch, each
kernel is in a namespace of its own, and its bindings have a name of their own. A kernel that cannot be compiled in a
batch is compiled alone, as Inductor would, and that compile reports its error. docs/measurements.md says how the
machine code of both was compared.

Inductor looks for a kernel at `<key>.main.so`. A kernel of a batch has `<key>.main.so.batch` there: a text that names
the library of the batch and the number of the kernel.

Private parts of torch: CppPythonBindingsCodeCache, which compiles and loads kernels, and
CppBuilder, which has the command line.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conformance.atomic_files import write_atomically
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.toolchain.atomic_build import AtomicBuilder, is_partial

#: A batch with fewer kernels takes as long as compiling each alone.
SMALLEST = 2
_SUFFIX = ".batch"
#: Lines of a kernel's text that stand once at the top of a batch.
_SHARED_LINE = re.compile(r"^[ \t]*#[ \t]*(?:include[ \t].*|define[ \t]+PY_SSIZE_T_CLEAN[ \t]*)$", re.MULTILINE)
#: Other directives that may stand in the middle of a batch: those in the bindings are the same for each kernel.
#: A kernel with any other directive is compiled alone.
_ALLOWED_LINE = re.compile(
    r"\s*#\s*(?:pragma\s+(?:GCC|omp)\b.*|if(?:ndef _MSC_VER|def Py_GIL_DISABLED| __cplusplus < 202002L)|else|endif"
    r"|define (?:un)?likely\(x\).*)$"
)
#: The function of a kernel, and the one that Python calls to import its bindings: global names.
_GLOBAL_NAMES = ("kernel", "PyInit_kernel")
#: GCC inlines less where a translation unit grows too large, counted from a unit of this size on. A batch is no reason.
_FLAGS = "--param large-unit-insns=100000000 "


class KernelBatch:
    """The kernels of one or several captures, compiled together by `compile`."""

    def __init__(self) -> None:
        self._builders: dict[str, Any] = {}  # the path of the library that Inductor would build → its CppBuilder

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Inside, wrapper modules that are loaded get a KernelLater for each kernel, and the batch gets the kernel."""
        where = "torch._inductor.codecache:CppPythonBindingsCodeCache.load_pybinding"
        with applied([Patch(where, lambda _: self._collect, "kernels of several captures are compiled together")]):
            yield

    def _collect(self, *args: Any, **kwargs: Any) -> KernelLater:
        from torch._inductor.codecache import CppPythonBindingsCodeCache

        return KernelLater(CppPythonBindingsCodeCache.load_pybinding_async(*args, submit_fn=self._submit, **kwargs))

    def _submit(self, build: Any) -> Any:
        """Inductor calls it where the kernel's library does not exist yet. Returns the future that Inductor waits for.

        Inductor calls `build` too, when it needs the library. Then the batch has been compiled, or `build` compiles.
        """
        if isinstance(build, functools.partial) and len(build.args) == 2 and len(build.args[1]) == 1:
            builder = build.args[1][0]
            path = Path(builder.get_target_file_path())
            if read_entry(path) is None:
                self._builders[str(path)] = builder
        return _Nothing

    def compile(self) -> int:
        """Compiles the collected kernels. Returns how many of them are in a batch now; the others compile alone."""
        groups: dict[str, list[tuple[str, Any, str]]] = defaultdict(list)
        for path, builder in self._builders.items():
            text = Path(builder._sources_args).read_text(encoding="utf-8")
            if can_be_in_batch(text):
                command = builder.get_command_line()
                command = command.replace(path, "").replace(builder._sources_args, "")
                groups[command].append((path, builder, text))
        self._builders.clear()
        return sum(_compile_group(kernels) for kernels in groups.values() if len(kernels) >= SMALLEST)


class _Nothing:
    """A future without a result."""

    @staticmethod
    def result() -> None: ...


class KernelLater:
    """A global variable of a wrapper module until its kernel is compiled. `get`: returns the compiled function."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self._get = get

    @staticmethod
    def replace_in(names: dict[str, Any]) -> None:
        """Replaces each KernelLater by its compiled function. Raises what compiling raises."""
        for name, value in names.items():
            if isinstance(value, KernelLater):
                names[name] = value._get()


def can_be_in_batch(text: str) -> bool:
    """Whether the text of a kernel has only directives that may stand in the middle of a file."""
    rest = _SHARED_LINE.sub("", text)
    return all(_ALLOWED_LINE.match(line) for line in rest.splitlines() if line.lstrip().startswith("#"))


def batch_text(texts: Sequence[str], paths: Sequence[str]) -> str:
    """One C++ text of the texts of several kernels with their bindings.

    `paths`: the files in which they would be compiled alone. Messages of failed checks name the file and the line.
    """
    shared = dict.fromkeys(" ".join(line.split()) for text in texts for line in _SHARED_LINE.findall(text))
    parts = ["\n".join(sorted(shared, key=lambda line: not line.startswith("#define")))]
    for number, (text, path) in enumerate(zip(texts, paths, strict=True)):
        renamed = "\n".join(f"#define {name} {name}_{number}" for name in _GLOBAL_NAMES)
        original = "\n".join(f"#undef {name}" for name in _GLOBAL_NAMES)
        body = _SHARED_LINE.sub("", text)
        line = f'#line 1 "{path}"'
        parts.append(f"{renamed}\nnamespace kernel_{number}_of_batch {{\n{line}\n{body}\n}}\n{original}")
    return "\n\n".join(parts) + "\n"


def _compile_group(kernels: Sequence[tuple[str, Any, str]]) -> int:
    """Compiles kernels that have the same command line. Returns their number, or 0 if the compiler refuses them."""
    from torch._inductor.exc import CppCompileError

    first = kernels[0][1]
    text = batch_text([text for _, _, text in kernels], [builder._sources_args for _, builder, _ in kernels])
    name = "batch-" + hashlib.sha256(f"{first.get_command_line()}\n{text}".encode()).hexdigest()[:24]
    folder = Path(first._output_dir).parent / "batches"
    folder.mkdir(exist_ok=True)
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    write_atomically(source, text, survives_power_loss=False)
    builder = copy.copy(first)
    builder._output = first._output.replace(first.get_target_file_path(), str(library))
    builder._target_file, builder._name = str(library), name
    builder._sources_args = str(source)
    builder._cflags_args = f"{first._cflags_args} {_FLAGS}"
    try:
        AtomicBuilder(builder).build()
    except CppCompileError:
        return 0  # one of them cannot be compiled: alone, it shows its own error
    for number, (path, _, _) in enumerate(kernels):
        write_atomically(Path(path + _SUFFIX), f"{library.name}\n{number}\n", survives_power_loss=False)
    return len(kernels)


def read_entry(path: Path) -> tuple[Path, int] | None:
    """The library of the batch that has a kernel, and the kernel's number. `path`: where Inductor looks for the kernel.

    None if no batch has it, or if the library is gone or incomplete.
    """
    try:
        name, number = Path(f"{path}{_SUFFIX}").read_text(encoding="utf-8").split()
        library = path.parent.parent / "batches" / name
        return (library, int(number)) if library.exists() and not is_partial(library) else None
    except (OSError, ValueError):
        return None


def _load_from_batch(original: Any) -> Any:
    def load_library(cls: Any, path: str, key: str) -> Any:
        entry = read_entry(Path(path))
        if entry is None or Path(path).exists():
            return original.__func__(cls, path, key)  # a subclass loads C++ wrappers
        library, number = entry
        return _import(library, f"{key}.kernel_{number}")

    return classmethod(load_library)


def _import(library: Path, name: str) -> Any:
    """Imports the bindings of a kernel. Python looks for `PyInit_` and the last part of `name`."""
    import os

    import torch

    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(
        torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
    )
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, library)
    if spec is None or spec.loader is None:
        raise ImportError(f"{library} is no extension module", path=str(library))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def _build_missing(original: Callable[..., Any]) -> Callable[..., Any]:
    def worker_compile_cpp(lock_path: str, cpp_builders: Sequence[Any]) -> None:
        missing = [each for each in cpp_builders if read_entry(Path(each.get_target_file_path())) is None]
        return original(lock_path, tuple(missing))

    return worker_compile_cpp


_WHY = "a kernel of a batch is not at the path where Inductor looks for it"
#: For each capture, after atomic_build.PATCH.
PATCHES = [
    Patch("torch._inductor.codecache:_worker_compile_cpp", _build_missing, _WHY),
    Patch("torch._inductor.codecache:CppPythonBindingsCodeCache._load_library_inner", _load_from_batch, _WHY),
]
