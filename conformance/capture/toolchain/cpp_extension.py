"""Builds the C++ operators of a case file with torch.utils.cpp_extension, once per torch version for all workers."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import re
import sys
from pathlib import Path

from conformance.atomic_files import lock_folder
from conformance.capture.toolchain.atomic_build import is_partial
from conformance.devices import environment
from conformance.devices.cache_folder import cache_folder
from conformance.devices.cpp_compiler import find_compiler, missing_compiler_message

#: What only a compiler for cuda understands.
_CUDA = re.compile(r"__global__|<<<|\bcuda_runtime(_api)?\.h\b")


class ExtensionError(environment.PreparationError):
    """The operator cannot be built here. The message is the compiler's, or names what is missing."""


@functools.cache
def load_cpp_extension(name: str, source: str) -> None:
    """Builds and loads C++ source that registers operators with TORCH_LIBRARY.

        @case(x=tensor(20), prepare=lambda: load_cpp_extension("sin_add", SOURCE))

    The first build takes about 20 s. Later calls load the built library. Raises ExtensionError.
    """
    import torch

    if needs_cuda_compiler(source):
        raise ExtensionError(
            f"{name} has kernels for cuda, and load_cpp_extension compiles C++ for the CPU alone: build them in your "
            "project with nvcc, load the library with torch.ops.load_library in `prepare`, and declare only={'cuda': …}"
        )
    if find_compiler() is None:
        raise ExtensionError(f"{name} needs a C++ compiler: {missing_compiler_message()}")
    key = hashlib.sha256(f"{torch.__version__}\n{sys.version}\n{source}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"extension-{name}-{key}"
    with lock_folder(folder, ExtensionError):
        built = next((path for path in folder.glob("*.so") if not is_partial(path)), None)
        library = built or _build(name, source, folder)
    torch.ops.load_library(str(library))


def _build(name: str, source: str, folder: Path) -> Path:
    """Builds with setuptools, which does not need ninja. Returns the library's path."""
    try:
        from setuptools import Distribution
    except ImportError as error:
        raise ExtensionError(
            f"torch builds {name} with setuptools, which is missing: pip install setuptools"
        ) from error
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    text = folder / f"{name}.cpp"
    text.write_text(source, encoding="utf-8")
    distribution = Distribution({"name": name, "ext_modules": [CppExtension(name, [str(text)])]})
    command = BuildExtension(distribution, use_ninja=False)
    output = folder / "built"  # the library is moved when it is complete, so nothing loads a partial one
    command.build_lib, command.build_temp, command.force = str(output), str(folder / "objects"), True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            command.ensure_finalized()
            command.run()
    except Exception as error:  # distutils raises many types; each means that there is no library
        raise ExtensionError(f"{name} cannot be built: {error}") from error
    library = next(output.glob("*.so"))
    return library.replace(folder / library.name)


def needs_cuda_compiler(source: str) -> bool:
    """Whether C++ source has kernels for cuda."""
    return _CUDA.search(source) is not None
