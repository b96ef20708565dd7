"""What a build of torch for xpu answers and decides by itself, for a torch that was built without xpu.

Most of torch asks for the device, and the pretended device answers. A few places ask how torch was built: some when
they are called, some only once, when their module is imported. The patches below change the answers to the first, and
what the second decided. `docs/xpu.md` lists all such places.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture.observers import fallbacks
from conformance.capture.patching.patch import Patch
from conformance.devices.environment import torch_build
from conformance.devices.torch_releases import RELEASES, release_of

#: Modules that ask how torch was built when they are imported. Captures for cuda use them too, and some import what
#: only a build for xpu has. So they are imported before torch.xpu._is_compiled is patched. Not all versions have all.
DECIDE_AT_IMPORT = (
    "torch._dynamo.device_interface",
    "torch._inductor.codegen.cutlass.utils",
    "torch._inductor.heuristics.triton_codegen.pointwise",
    "torch._inductor.heuristics.triton_codegen.reduction",
    "torch._inductor.kernel.bmm",
    "torch._inductor.lowering",
    "torch.xpu.memory",
)

_REGISTRY = "torch._inductor.heuristics.registry"


@functools.cache
def import_deciding_modules() -> None:
    """Imports the modules of DECIDE_AT_IMPORT that the installed torch has."""
    for module in DECIDE_AT_IMPORT:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)


def compiler_version() -> str:
    """torch.version.xpu of the installed torch's release, built for xpu. For another torch: of the newest one."""
    return (release_of(torch_build().release) or RELEASES[-1]).xpu_compiler


def patches() -> list[Patch]:
    """The patches of a torch that was built without xpu; none for a build with xpu, whose device is hidden."""
    release, gpus = torch_build().release, torch_build().gpus
    if "xpu" in gpus:
        return []
    found = [
        Patch("torch.version:xpu", lambda _: compiler_version(), "programs and Inductor ask it how torch was built"),
        Patch("torch.xpu:_is_compiled", lambda _: lambda: True, "programs and Inductor ask it how torch was built"),
        Patch(
            "torch.xpu:get_arch_list",
            lambda _: list,
            "it calls a C function that only a build for xpu has (no architecture: those of the wheels are not known)",
        ),
        Patch(
            "torch._inductor.kernel.bmm:aten_bmm_dtype.cpp_kernel_name",
            lambda _: "at::_bmm_out_dtype_xpu",
            "it is chosen when the module is imported; a C++ wrapper calls this function",
        ),
        Patch(
            "torch.backends.mkldnn:MkldnnModule.allow_tf32",
            lambda _: False,
            "only a build for xpu answers: else it is None, with which Triton takes TF32 for a template's product",
        ),
    ]
    if "cuda" in gpus:
        found.append(
            Patch(
                "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init",
                lambda _: property(lambda self: False),
                "it refuses a build for both cuda and xpu",
            )
        )
    if release >= (2, 15):
        found += [
            Patch(
                f"{_REGISTRY}:_HEURISTIC_REGISTRY",
                _with_heuristics_of_xpu,
                "the heuristics of xpu are registered when their modules are imported",
            ),
            Patch(
                f"{_REGISTRY}:_HEURISTIC_CACHE",
                lambda _: {},
                "it keeps the heuristics that were found first, for each device type",
            ),
        ]
    return found


def _with_heuristics_of_xpu(original: dict[Any, Any]) -> dict[Any, Any]:
    from torch._inductor.heuristics.triton_codegen import pointwise, reduction

    return original | {
        ("pointwise", "xpu", None): pointwise.XPUPointwiseHeuristic,
        ("reduction", "xpu", None): reduction.XPUReductionHeuristic,
    }


@contextlib.contextmanager
def registered_lowerings() -> Iterator[None]:
    """Registers the lowering that Inductor registers only in a build for xpu."""
    import torch
    from torch._inductor import lowering

    operator = torch.ops.aten.embedding_dense_backward
    if operator.default in lowering.lowerings:
        yield
        return
    fallbacks.registered_fallbacks()
    lowering.make_fallback(operator, warn=False)
    overloads = (operator, operator.default, operator.out)
    try:
        with fallbacks.registered_by_build(*overloads):
            yield
    finally:
        for overload in overloads:
            lowering.lowerings.pop(overload, None)


def memory_information(ask: Callable[[str], Any]) -> Callable[..., tuple[int, int]]:
    """torch.xpu.mem_get_info of a device whose memory is free. `ask`: of DeviceQueries."""

    def mem_get_info(_device: Any = None) -> tuple[int, int]:
        if ask("integrated"):  # pytorch/pytorch#194487
            raise RuntimeError("this device is integrated: its driver does not tell how much memory is free")
        return (ask("memory"),) * 2

    return mem_get_info
