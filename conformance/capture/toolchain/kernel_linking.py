"""Linking a kernel without reading torch's symbols, which takes longer than compiling a small one.

A kernel is a shared library that names torch's among those it needs. For that the linker reads their tables of
symbols, hundreds of MB, to no effect: what a shared library leaves open is found when it is loaded, and by then torch
is. So it is given libraries that hold nothing but torch's names. The kernel that comes out has the same code and needs
the same libraries; `benchmarks/linking.py` measures what is saved.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

#: Those of torch that every kernel is linked with (torch._inductor.cpp_builder, 2.11 to 2.15).
LIBRARIES = ("torch", "torch_cpu", "torch_python")


def stub_library_flags(builder: Any) -> str:
    """What goes before the linker's flags on the command line of a CppBuilder: "-L… ", or "".

    "": nothing of torch is linked, not on Linux, or the linker does not make such a library.
    """
    if sys.platform != "linux" or "-ltorch_cpu " not in f"{builder._libraries_args} ":
        return ""
    folder = _folder(builder._compiler, os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    # some distributions' compilers leave out the libraries that define nothing that is used
    return f"-Wl,--no-as-needed -L{shlex.quote(str(folder))} " if folder else ""


@cache
def _folder(compiler: str, cache_dir: str) -> Path | None:
    """Where the libraries of names are, made where they are not. `cache_dir`: Inductor's."""
    if not cache_dir:
        return None
    folder = Path(cache_dir) / "names"
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        path = folder / f"lib{name}.so"
        if path.exists():
            continue
        part = folder / f"{path.name}.{os.getpid()}.part"
        command = [*shlex.split(compiler), "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-x", "c++", os.devnull]
        if subprocess.run([*command, "-o", str(part)], capture_output=True, check=False).returncode:
            return None
        part.replace(path)
    return folder
