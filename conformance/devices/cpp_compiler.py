"""The C++ compiler of this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

#: Inductor's default if the variable CXX is not set.
DEFAULT_COMPILER = "clang++" if sys.platform == "darwin" else "g++"


def find_compiler() -> str | None:
    """The path of the C++ compiler that Inductor uses too: CXX, else the platform's default.

    None if it is not installed; no other compiler is tried.
    """
    return shutil.which(os.environ.get("CXX") or DEFAULT_COMPILER)


def missing_compiler_message() -> str:
    """Why there is no C++ compiler, and how to get one. Call it only if find_compiler() returned None."""
    if name := os.environ.get("CXX"):
        remedy = f"set CXX to a C++ compiler, or unset it to use {DEFAULT_COMPILER}"
        return f"CXX={name} is not an installed program: {remedy}"
    return f"no C++ compiler was found: install {DEFAULT_COMPILER}, or set CXX to another one"


def compiler_problem() -> str:
    """Why this machine cannot build C++ kernels, and how to fix it; "" if it can."""
    compiler = find_compiler()
    if compiler is None:
        return missing_compiler_message()
    if problem := openmp_problem(compiler):
        return problem
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        return f"Python.h is not in {include}: install Python's development headers (python3-dev)"
    return ""


@functools.cache
def openmp_problem(compiler: str) -> str:
    """Why a compiler cannot build the threads of a kernel; "" if it can. clang has its OpenMP in another package."""
    if sys.platform != "linux" or Path(compiler).name.startswith("g++"):
        return ""
    command = [compiler, "-fopenmp", "-fsyntax-only", "-x", "c++", "-"]
    tried = subprocess.run(command, input=b"#include <omp.h>\n", capture_output=True, check=False)
    if b"omp.h" not in tried.stderr:  # where the compiler is broken otherwise, the build of a kernel says why
        return ""
    return (
        f"{compiler} has no OpenMP, which each kernel needs: install that of its version (Debian: libomp-VERSION-dev), "
        f"or unset CXX to use {DEFAULT_COMPILER}"
    )
