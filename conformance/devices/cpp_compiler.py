"""The C++ compiler of this machine."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

#: What Inductor takes where CXX names nothing.
_COMPILER = "clang++" if sys.platform == "darwin" else "g++"


def find_compiler() -> str | None:
    """The C++ compiler that Inductor would use too, and no other: CXX, else the platform's (2.11 to 2.15)."""
    return shutil.which(os.environ.get("CXX") or _COMPILER)


def missing_compiler_message() -> str:
    """Where there is none: why, and what would be right."""
    if named := os.environ.get("CXX"):
        return f"CXX={named} is no program that is here: name a C++ compiler in it, or unset it and have {_COMPILER}"
    return f"no C++ compiler was found: install {_COMPILER}, or name one in CXX"


def compiler_problem() -> str:
    """What keeps C++ kernels from being built here, or ""."""
    if find_compiler() is None:
        return missing_compiler_message()
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        return f"Python.h is not in {include}: install Python's development headers (python3-dev)"
    return ""
