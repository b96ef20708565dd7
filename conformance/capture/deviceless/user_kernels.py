"""Kernels that users write, where eager launches them on memory of the host's: that of a pretended gpu, and of the cpu,
where float64's results come from. Triton has no driver for either; they are interpreted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from conformance.capture.patching.patch import Patch


def patches(pretended: bool) -> list[Patch]:
    """`pretended`: the gpu is not there, so that all launches are on the host's memory. Triton 3.6 to 3.9."""
    return [
        Patch(
            "triton.runtime.jit:JITFunction.run",
            functools.partial(_launching, pretended),
            "eager, and a graph that is not lowered, launch a user's kernels with Triton's driver",
            optional=True,  # without Triton there are none
        ),
        Patch(
            "triton.runtime.autotuner:Autotuner._bench",
            functools.partial(_timing, pretended),
            "the configurations of a user's kernel would be timed with Triton's driver: the first is taken",
            optional=True,
        ),
    ]


def _launching(pretended: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(fn: Any, *args: Any, **kwargs: Any) -> Any:
        if not (pretended or _on_cpu((*args, *kwargs.values()))):
            return original(fn, *args, **kwargs)
        from conformance.capture.emulation import user_kernels

        return user_kernels.launched(fn, *args, **kwargs)

    return run


def _timing(pretended: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def bench(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        if not (pretended or _on_cpu((*args, *kwargs.values()))):
            return original(autotuner, *args, **kwargs)
        return [1.0, 1.0, 1.0]

    return bench


def _on_cpu(values: Iterable[Any]) -> bool:
    return any(value.device.type == "cpu" for value in values if hasattr(value, "data_ptr"))
