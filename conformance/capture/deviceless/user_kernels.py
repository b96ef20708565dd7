"""Interprets the user's own Triton kernels when eager launches them on CPU memory, for which Triton has no driver.

That is the memory of a pretended GPU, and of the CPU, where the float64 results are computed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from conformance.capture.patching.patch import Patch


def patches(pretended: bool) -> list[Patch]:
    """The patches of Triton 3.6 to 3.9. `pretended`: the GPU is pretended, so all launches are on CPU memory."""
    return [
        Patch(
            "triton.runtime.jit:JITFunction.run",
            functools.partial(_interpret_on_cpu, pretended),
            "eager and graphs that are not lowered launch a user's kernels with Triton's driver",
            optional=True,  # without Triton there are no such kernels
        ),
        Patch(
            "triton.runtime.autotuner:Autotuner._bench",
            functools.partial(_skip_timing, pretended),
            "it would time the configurations of a user's kernel with Triton's driver; now the first one wins",
            optional=True,
        ),
    ]


def _interpret_on_cpu(pretended: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(fn: Any, *args: Any, **kwargs: Any) -> Any:
        if not (pretended or _on_cpu((*args, *kwargs.values()))):
            return original(fn, *args, **kwargs)
        from conformance.capture.emulation import user_kernels

        return user_kernels.launch_user_kernel(fn, *args, **kwargs)

    return run


def _skip_timing(pretended: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def bench(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        if not (pretended or _on_cpu((*args, *kwargs.values()))):
            return original(autotuner, *args, **kwargs)
        return [1.0, 1.0, 1.0]

    return bench


def _on_cpu(values: Iterable[Any]) -> bool:
    memory = (getattr(value, "base", value) for value in values)  # `base`: of a tensor descriptor
    return any(value.device.type == "cpu" for value in memory if hasattr(value, "data_ptr"))
