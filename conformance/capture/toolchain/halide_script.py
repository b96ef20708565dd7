"""Runs a script that generates a Halide kernel, without torch: `python halide_script.py SCRIPT ARGUMENT…`.

Such a script imports one file of torch, `torch._inductor.runtime.halide_helpers`, which needs Halide alone. Here that
file's packages do not run their `__init__.py`.
"""

import importlib.util
import runpy
import sys
import types

_PACKAGES = ("torch", "torch._inductor", "torch._inductor.runtime")


def main() -> None:
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        package = types.ModuleType(name)
        package.__path__ = list(found.submodule_search_locations or ()) if found else []
        sys.modules[name] = package
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
