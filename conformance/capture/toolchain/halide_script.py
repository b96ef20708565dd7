"""Runs a script that generates a Halide kernel, without torch: `python halide_script.py SCRIPT ARGUMENT…`.

Such a script imports one file of torch, `torch._inductor.runtime.halide_helpers`, which needs Halide alone. Here that
file's packages do not run their `__init__.py`.

Halide plans some kernels for minutes. On Linux this process ends with the one that started it.
"""

import contextlib
import ctypes
import importlib.util
import runpy
import signal
import sys
import types

_PACKAGES = ("torch", "torch._inductor", "torch._inductor.runtime")
#: The option of prctl(2): a signal for this process when its parent ends.
_PR_SET_PDEATHSIG = 1


def main() -> None:
    with contextlib.suppress(AttributeError):  # other systems have no prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        package = types.ModuleType(name)
        package.__path__ = list(found.submodule_search_locations or ()) if found else []
        sys.modules[name] = package
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
