"""Counts the calls of Python functions that a compile makes, by the phase of the compiler that the function is part of.

A count does not depend on how fast a machine is. It is nearly the same in each run: sets of strings have their order
from PYTHONHASHSEED, and expressions of symbols are compared in the order of addresses. So who counts sets the former,
and `symbols` is not part of the sum.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Part of a file's path → phase; the first that fits. What fits none is Python's own, or another package's: "others".
PHASES = {
    "/torch/_dynamo/": "dynamo",
    "/torch/_functorch/": "aotautograd",
    "/torch/_decomp/": "decompositions",
    "/torch/_refs/": "decompositions",
    "/torch/_prims": "decompositions",
    "/torch/_inductor/decomposition": "decompositions",
    "/torch/_inductor/fx_passes/": "patterns",
    "/torch/_inductor/pattern_matcher": "patterns",
    "/torch/_inductor/codecache": "",  # depends on what was compiled before
    "/torch/_inductor/codegen/": "code generation",
    "/torch/_inductor/scheduler": "scheduling",
    "/torch/_inductor/": "lowering",
    "/torch/fx/experimental/": "symbols",
    "/torch/utils/_sympy/": "symbols",
    "/sympy/": "symbols",
    "/torch/fx/": "graphs",
    "/torch/_subclasses/": "fake tensors",
    "/torch/_meta_registrations": "fake tensors",
}
#: The phase whose count is not exact.
SYMBOLS = "symbols"
_OTHERS = "others"
#: How many functions are named.
_NAMED = 400


@contextlib.contextmanager
def counting() -> Iterator[dict[str, Any]]:
    """Fills the mapping when the context ends: `phases` (phase → calls) and `functions` (those called most → calls,
    without the symbols').

    The garbage collector waits: it calls functions when it likes.
    """
    found: dict[str, Any] = {}
    profile = cProfile.Profile(builtins=False)
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    profile.enable()
    try:
        yield found
    finally:
        profile.disable()
        if was_enabled:
            gc.enable()
        found |= _summary(profile)


def _summary(profile: cProfile.Profile) -> dict[str, Any]:
    own = str(Path(__file__).resolve().parent.parent)
    phases, functions = Counter[str](), Counter[str]()
    for entry in profile.getstats():
        code: Any = entry.code
        file = getattr(code, "co_filename", "")
        phase = next((name for part, name in PHASES.items() if part in file), _OTHERS)
        if not phase or file.startswith(own) or not file:
            continue
        phases[phase] += entry.callcount
        if phase != SYMBOLS and not file.startswith("<"):
            functions[f"{_short(file)}: {getattr(code, 'co_qualname', code.co_name)}"] += entry.callcount
    return {"phases": dict(sorted(phases.items())), "functions": dict(functions.most_common(_NAMED))}


def _short(file: str) -> str:
    """The file below the folder of its package: `torch/_inductor/ir.py`."""
    parts = Path(file).parts
    for top in ("torch", "sympy", "triton"):
        if top in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(top) :])
    return parts[-1]
