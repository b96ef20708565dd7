"""Links kernels against stub libraries instead of torch: reading torch's symbols takes longer than a small compile.

A kernel is a shared library that lists torch's libraries as needed. To list them, the linker reads their symbol tables,
hundreds of MB. That is useless: undefined symbols are resolved when the kernel is loaded, and torch is loaded by then.
So the linker gets stub libraries: empty libraries with the names of torch's. The linked kernel has the same code and
needs the same libraries. `benchmarks/linking.py` measures the saved time.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

#: The libraries of torch that every kernel is linked with (torch._inductor.cpp_builder).
LIBRARIES = ("torch", "torch_cpu", "torch_python")


def stub_library_flags(builder: Any) -> str:
    """Flags to put before a CppBuilder's linker flags: "-L… ", or "".

    "" if the builder does not link torch, outside Linux, or if the linker cannot make a stub library.
    """
    if sys.platform != "linux" or "-ltorch_cpu " not in f"{builder._libraries_args} ":
        return ""
    folder = _stub_folder(builder._compiler, os.environ.get("TORCHINDUCTOR_CACHE_DIR", ""))
    # the compilers of some distributions drop libraries that define no used symbol
    return f"-Wl,--no-as-needed -L{shlex.quote(str(folder))} " if folder else ""


@cache
def _stub_folder(compiler: str, cache_dir: str) -> Path | None:
    """The folder with the stub libraries. Makes missing ones; None if that fails. `cache_dir`: Inductor's."""
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
