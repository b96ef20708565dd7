"""C++ operators of a test's own, built with torch.utils.cpp_extension: once for a torch version, shared by workers."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import sys
from pathlib import Path

from conformance.atomic_files import lock_folder
from conformance.capture.toolchain.atomic_build import is_partial
from conformance.devices import environment
from conformance.devices.cpp_compiler import find_compiler, missing_compiler_message


class ExtensionError(environment.PreparationError):
    """The operator cannot be built here; the message is the compiler's, or says what is missing."""


@functools.cache
def load_cpp_extension(name: str, source: str) -> None:
    """Makes the operators that `source`, C++ with a TORCH_LIBRARY, registers. Raises ExtensionError.

        @case(x=tensor(20), prepare=lambda: load_cpp_extension("sin_add", SOURCE))

    Takes about 20 s the first time, and next to nothing then.
    """
    import torch

    if find_compiler() is None:
        raise ExtensionError(f"{name} is C++, and {missing_compiler_message()}")
    key = hashlib.sha256(f"{torch.__version__}\n{sys.version}\n{source}".encode()).hexdigest()[:16]
    folder = environment.cache_folder() / f"extension-{name}-{key}"
    with lock_folder(folder, ExtensionError):
        library = next((path for path in folder.glob("*.so") if not is_partial(path)), None) or _built(
            name, source, folder
        )
    torch.ops.load_library(str(library))


def _built(name: str, source: str, folder: Path) -> Path:
    """By setuptools, so that ninja need not be there."""
    try:
        from setuptools import Distribution
    except ImportError as error:
        raise ExtensionError(f"{name} is C++, which torch builds with setuptools: pip install setuptools") from error
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    text = folder / f"{name}.cpp"
    text.write_text(source, encoding="utf-8")
    distribution = Distribution({"name": name, "ext_modules": [CppExtension(name, [str(text)])]})
    command = BuildExtension(distribution, use_ninja=False)
    built = folder / "built"  # whole, it is moved: nothing loads what an ended run has left
    command.build_lib, command.build_temp, command.force = str(built), str(folder / "objects"), True
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            command.ensure_finalized()
            command.run()
    except Exception as error:  # distutils raises what it likes; all of it means that there is no library
        raise ExtensionError(f"{name} cannot be built: {error}") from error
    found = next(built.glob("*.so"))
    return found.replace(folder / found.name)
