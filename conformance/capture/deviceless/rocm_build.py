"""What a build of torch for ROCm answers and decides by itself, for a torch that was built without ROCm.

Such a build calls AMD's GPUs cuda, and `torch.version.hip` tells Inductor that they are AMD's. Inductor asks it in some
150 places, most of them when they are called: one patch answers all of these. A few places ask when their module is
imported. The patches and contexts below change what those decided. `docs/deviceless.md` lists what is not changed.

Private parts of torch, checked with 2.13; those of 2.11 and 2.15 were only read.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture.patching.patch import Patch, applied
from conformance.devices.environment import torch_build

#: torch.version.hip. Inductor asks only whether it is set; no generated code has the number.
HIP_VERSION = "7.0"

#: The largest block along x in a build for ROCm; otherwise 4096.
_MAX_BLOCK_X = 8192

#: Options of Inductor → the default in a build for ROCm. Inductor chooses them when its config is imported.
CONFIG: dict[str, Any] = {
    "layout_optimization": False,
    "max_autotune_conv_bwd_input_backends": "ATEN,TRITON",  # from 2.13
    "max_autotune_conv_bwd_weight_backends": "ATEN,TRITON",
    "triton.spill_threshold": 32,
    "triton.num_decompose_k_splits": 0,
}

_REGISTRY = "torch._inductor.heuristics.registry"
_FUSE_ATTENTION = "torch._inductor.fx_passes.fuse_attention"


def patches() -> list[Patch]:
    """The patches of a torch that was built without ROCm; none for a build with ROCm, whose device is hidden."""
    release = torch_build().release
    if torch_build().hip:
        return []
    found = [
        _BUILD,
        Patch("torch.version:cuda", lambda _: None, "a build for ROCm is none for CUDA"),
        Patch(
            "torch._inductor.utils:FORBIDDEN_CUDAGRAPH_OPS",
            lambda original: original | {"aten.topk.default"},
            "it is chosen when the module is imported",
            optional=True,
        ),
    ]
    if release >= (2, 15):
        found += [
            Patch(
                f"{_REGISTRY}:_HEURISTIC_REGISTRY",
                _with_heuristics_of_rocm,
                "the heuristics of ROCm are registered when their modules are imported",
            ),
            Patch(
                f"{_REGISTRY}:_HEURISTIC_CACHE",
                lambda _: {},
                "it keeps the heuristics that were found first, for each device type",
            ),
        ]
    return found


_BUILD = Patch("torch.version:hip", lambda _: HIP_VERSION, "programs and Inductor ask it how torch was built")


def _with_heuristics_of_rocm(original: dict[Any, Any]) -> dict[Any, Any]:
    from torch._inductor.heuristics.triton_codegen import pointwise, reduction

    return original | {
        ("pointwise", "hip", None): pointwise.ROCmPointwiseHeuristic,
        ("reduction", "hip", None): reduction.ROCmReductionHeuristic,
    }


@contextlib.contextmanager
def largest_blocks() -> Iterator[None]:
    """Inside, blocks may be as large as in a build for ROCm. It changes the dictionary, which several modules have."""
    from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

    before = TRITON_MAX_BLOCK["X"]
    TRITON_MAX_BLOCK["X"] = _MAX_BLOCK_X
    try:
        yield
    finally:
        TRITON_MAX_BLOCK["X"] = before


@contextlib.contextmanager
def as_built() -> Iterator[None]:
    """Inside, Inductor compiles and launches kernels as in a build for ROCm."""
    with applied(patches()), largest_blocks():
        yield


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """Inside, torch answers that it was built for ROCm, and nothing else changes."""
    with applied([] if torch_build().hip else [_BUILD]):
        yield


def attention_patches() -> list[Patch]:
    """For captures of all targets: patterns of attention that a build for ROCm replaces and one for CUDA does not.

    Inductor decides when it makes the patterns, once per process. With the patch, it decides at each match.
    """
    return [_ATTENTION] if _decides_attention_early() else []


@functools.cache
def _decides_attention_early() -> bool:
    """Whether this torch asks for ROCm when it makes the patterns (2.13); others never ask."""
    source = torch_build().folder / "_inductor" / "fx_passes" / "fuse_attention.py"
    return "disable_cuda=torch.version.hip" in source.read_text(encoding="utf-8")


def _extra_check(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def sfdp_extra_check(scale_factor_op: Any = None, **options: Any) -> Callable[[Any], bool]:
        # The patterns with an operator are those whose check asks for ROCm.
        if scale_factor_op is None or "disable_cuda" not in options:
            return original(scale_factor_op, **options)
        checks = {disabled: original(scale_factor_op, disable_cuda=disabled) for disabled in (True, False)}

        def check(match: Any) -> bool:
            version = importlib.import_module("torch.version")
            return checks[version.hip is None](match)

        return check

    return sfdp_extra_check


_ATTENTION = Patch(
    f"{_FUSE_ATTENTION}:_sfdp_extra_check",
    _extra_check,
    "it keeps how torch was built when the patterns were made, for captures of all targets",
)
