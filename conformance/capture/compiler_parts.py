"""Parts of the compiler, switched off for a trial: decompositions, passes and lowerings, all of them or some.

PyTorch's own bisector asks at each application of such a part whether to leave it out. Here, this question is answered.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.capture.patching.patch import Patch, applied

#: Part → what one application of it is, in messages. In the order to try: decompositions change what passes do.
PARTS = {
    "pre_grad_passes": "pass before AOTAutograd",
    "joint_graph_passes": "pass of the joint graph",
    "post_grad_passes": "pass after AOTAutograd",
    "decomposition": "decomposition of",
    "lowerings": "lowering of",
}


@dataclass
class Applications:
    """What was applied or left out: part → the name of each application, in order."""

    names: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """The applications of a `part` (a key of PARTS) that are left out: those from number `start` to before `stop`."""

    part: str = ""
    start: int = 0
    stop: int = 1 << 30


@contextlib.contextmanager
def left_out(which: LeftOut) -> Iterator[Applications]:
    """Inside, compiles leave out these applications, and all applications are recorded.

    Without a decomposition, the operator stays a fallback in this process: use a process for each trial.
    """
    found = Applications()

    def is_left_out(_backend: str, part: str, describe: Callable[[], str] | None = None) -> bool:
        if part not in PARTS:
            return False
        names = found.names.setdefault(part, [])
        names.append(_name(describe))
        return part == which.part and which.start <= len(names) - 1 < which.stop

    def fall_back(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: original(*args, **{**kwargs, "override_decomp": True})

    patch = Patch(
        "torch._inductor.compiler_bisector:CompilerBisector.disable_subsystem",
        lambda _: staticmethod(is_left_out),
        "it answers from files and from the environment, for one subsystem; here, the trial says what is left out",
    )
    fallbacks = Patch(
        "torch._inductor.graph:make_fallback",
        fall_back,
        "it refuses an operator that has a decomposition, so PyTorch's bisector cannot leave out one of Inductor",
    )
    with applied([patch, fallbacks] if which.part == "decomposition" else [patch]):
        yield found


def import_compiler() -> None:
    """Imports the modules that a compile imports, so that a forked process need not do it."""
    for name in ("compile_fx", "codegen.cpp", "codegen.triton", "lowering", "compiler_bisector"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"torch._inductor.{name}")


def _name(describe: Callable[[], str] | None) -> str:
    """The operator of a lowering, else what PyTorch says. Its text of a lowering names the node, not the operator."""
    if describe is None:
        return ""
    node: Any = inspect.getclosurevars(describe).nonlocals.get("n")
    if node is not None:
        return str(node.target)
    text = describe()
    operator = re.fullmatch(r"<OpOverload\(op='(.*)', overload='(.*)'\)>", text)
    return ".".join(operator.groups()) if operator else text
