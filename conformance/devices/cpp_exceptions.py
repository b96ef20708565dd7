"""Whether an exception that a C++ kernel throws reaches Python, or ends the process.

A compiler that links its C++ library into each kernel gives the kernel a second copy of it. Torch does not catch the
exceptions of that copy.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from conformance.devices.cpp_compiler import find_compiler

_SOURCE = """#include <stdexcept>
extern "C" void fail(const char* text) { throw std::runtime_error(text); }
"""
#: A library that uses the machine's C++ library names it.
_LIBRARIES = (b"libstdc++.so", b"libc++.so")


@functools.cache
def exceptions_problem() -> str:
    """Why an exception of a kernel ends the process here, and what to do; "" if it reaches Python, or nothing builds.

    Builds a few lines with the compiler of find_compiler(), once in a process.
    """
    compiler = find_compiler()
    if compiler is None or sys.platform != "linux":
        return ""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "fail.cpp"), Path(folder, "fail.so")
        source.write_text(_SOURCE, encoding="utf-8")
        command = [compiler, "-shared", "-fPIC", str(source), "-o", str(library)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return ""  # the build of a kernel says why
        if any(name in library.read_bytes() for name in _LIBRARIES):
            return ""
    return (
        f"{compiler} links its C++ library into each kernel, so an exception of a kernel ends the process: "
        "set CXX to a compiler that uses the C++ library of this machine, such as /usr/bin/g++"
    )
