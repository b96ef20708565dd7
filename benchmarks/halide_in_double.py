"""Generates a Halide kernel whose functions of float32 compute in float64: for backend_causes.py.

    python benchmarks/halide_in_double.py SCRIPT ARGUMENT…

It replaces conformance/capture/toolchain/halide_script.py, and calls it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import halide as hl

from conformance.capture.toolchain import halide_script

_FUNCTIONS = ("exp", "log", "pow", "erf", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    def widened(*values: Any) -> Any:
        single = any(isinstance(each, hl.Expr) and each.type() == hl.Float(32) for each in values)
        result = function(*(hl.cast(hl.Float(64), each) for each in values) if single else values)
        return hl.cast(hl.Float(32), result) if single else result

    return widened


if __name__ == "__main__":
    for name in _FUNCTIONS:
        setattr(hl, name, _in_double(getattr(hl, name)))
    hl.fast_exp = hl.exp
    halide_script.main()
