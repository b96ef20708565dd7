"""The classes of Inductor that observers recognise by name, the facts that need each, and what this torch lacks.

A class that is renamed is recognised no more, and a fact would silently become 0. It becomes unknown instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from conformance.capture.patching.patch import Patch, is_missing
from conformance.devices.environment import torch_build
from conformance.devices.torch_releases import is_between


class InductorClass(NamedTuple):
    """`facts`: those that need it; none means that no code can be recorded without it. `since`: the first release."""

    module: str
    facts: tuple[str, ...]
    since: str = ""


_WRAPPER, _POOLS = "torch._inductor.codegen.wrapper", "torch._inductor.codegen.memory_planning"
_IR, _SCHEDULER, _DEPENDENCIES = "torch._inductor.ir", "torch._inductor.scheduler", "torch._inductor.dependencies"
_ALLOCATED = ("buffers", "memory")
_CALLED = ("kernels", "extern", "fallbacks", "unfused", "costs")
_KIND = ("kernels", "kinds", "costs")
_MOVED = ("bytes", "unfused", "loads", "stores", "atomics", "layout_changes", "costs")

CLASSES: Mapping[str, InductorClass] = {
    "AllocateLine": InductorClass(_WRAPPER, _ALLOCATED),
    "ReuseLine": InductorClass(_WRAPPER, _ALLOCATED),
    "ReinterpretLine": InductorClass(_WRAPPER, ("memory",)),
    "MultiOutputLine": InductorClass(_WRAPPER, ("memory",)),
    "FreeLine": InductorClass(_WRAPPER, ("memory",)),
    "FreeIfNotReusedLine": InductorClass(_WRAPPER, ("memory",)),
    "KernelCallLine": InductorClass(_WRAPPER, ("memory",)),
    "ExternKernelAllocLine": InductorClass(_WRAPPER, ("memory",)),
    "ExternKernelOutLine": InductorClass(_WRAPPER, ("memory",)),
    "ExternKernelMultiOutLine": InductorClass(_WRAPPER, ("memory",), since="2.12"),
    "AllocFromPoolLine": InductorClass(_POOLS, _ALLOCATED),
    "DeallocFromPoolLine": InductorClass(_POOLS, ("memory",)),
    "WorkspaceArg": InductorClass("torch._inductor.codegen.common", ("memory",)),
    "WhileLoop": InductorClass(_IR, ("memory", *_CALLED)),
    "Subgraph": InductorClass(_IR, ("memory",)),
    "MultiOutput": InductorClass(_IR, ("memory", "bytes", *_CALLED)),
    "MultiOutputLayout": InductorClass(_IR, _CALLED),
    "MutationOutput": InductorClass(_IR, ("bytes", *_CALLED)),
    "UserDefinedTritonKernel": InductorClass(_IR, _CALLED),
    "FallbackKernel": InductorClass(_IR, _CALLED),
    "InplaceBernoulliFallback": InductorClass(_IR, _CALLED),
    "InplaceCopyFallback": InductorClass(_IR, _CALLED),
    "ScatterFallback": InductorClass(_IR, _CALLED),
    "IndexPutFallback": InductorClass(_IR, _CALLED),
    "TemplateBuffer": InductorClass(_IR, _KIND),
    "Reduction": InductorClass(_IR, _KIND),
    "WelfordReduction": InductorClass(_IR, _KIND),
    "OnlineSoftmaxReduction": InductorClass(_IR, _KIND),
    "MultiOutputReduction": InductorClass(_IR, _KIND),
    "Scan": InductorClass(_IR, _KIND),
    "SplitScan": InductorClass(_IR, _KIND),
    "Sort": InductorClass(_IR, _KIND),
    "Scatter": InductorClass(_IR, _KIND),
    "ForeachKernelSchedulerNode": InductorClass(_SCHEDULER, _KIND),
    "NopKernelSchedulerNode": InductorClass(_SCHEDULER, _MOVED),
    "ExternKernelSchedulerNode": InductorClass(_SCHEDULER, _MOVED),
    "MemoryDep": InductorClass(_DEPENDENCIES, _MOVED),
    "StarDep": InductorClass(_DEPENDENCIES, _MOVED),
    "WeakDep": InductorClass(_DEPENDENCIES, _MOVED),
    "CppTile2DKernel": InductorClass("torch._inductor.codegen.cpp", ("vectorised",)),
    "SubgraphLowering": InductorClass("torch._inductor.graph", ()),
}


def unknown_facts(patches: Iterable[Patch], is_missing: Callable[[str], bool] = is_missing) -> dict[str, str]:
    """Fact → the name that it needs and that the installed torch lacks. Facts that lack nothing are left out.

    `patches`: of the observers. `is_missing`: decides about "module:name"; by default, by importing torch.
    """
    release = torch_build().release
    unknown: dict[str, str] = {}
    for name, each in CLASSES.items():
        if is_between(each.since, release) and _is_lost(f"{each.module}:{name}", is_missing):
            unknown |= dict.fromkeys(each.facts, f"{each.module}.{name}")
    for patch in patches:
        if patch.facts and patch.applies() and is_missing(patch.where):
            unknown |= dict.fromkeys(patch.facts, patch.where.replace(":", "."))
    return dict(sorted(unknown.items()))


def missing_for_all(is_missing: Callable[[str], bool] = is_missing) -> str:
    """The name of a class without which no code can be recorded, if the installed torch lacks it; else ""."""
    named = (f"{each.module}:{name}" for name, each in CLASSES.items() if not each.facts)
    return next((where.replace(":", ".") for where in named if _is_lost(where, is_missing)), "")


def _is_lost(where: str, is_missing: Callable[[str], bool]) -> bool:
    """Also where a class has another name than its module gives it: observers compare the class's own."""
    module, _, name = where.partition(":")
    found = getattr(sys.modules.get(module), name, None)
    return is_missing(where) or (found is not None and found.__name__ != name)
