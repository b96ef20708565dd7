"""A kernel of the user's own, launched as `kernel[grid](…)`: by eager, and by a graph that is called as it was traced.

Triton's driver launches it on a device; here it is interpreted, on the host's memory, as generated kernels are.
"""

from __future__ import annotations

import inspect
import time
import types
from collections.abc import Mapping
from typing import Any

from triton.runtime.jit import mangle_type

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.capture.emulation.kernels import InterpretedKernel
from conformance.capture.emulation.wrapper import TIME_LIMIT


class LaunchedKernel(InterpretedKernel):
    """A @triton.jit function with the arguments of one launch, by name."""

    def __init__(self, fn: Any, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        constants = {parameter.name for parameter in fn.params if parameter.is_constexpr}
        signature = {name: _type(value) for name, value in given.items() if name not in constants}
        config = types.SimpleNamespace(kwargs={name: value for name, value in given.items() if name in constants})
        fuses = options.get("enable_fp_fusion", True)
        super().__init__(fn, config, {}, {"signature": signature, "enable_fp_fusion": fuses})
        self.deadline = lambda: time.monotonic() + TIME_LIMIT  # of a launch: nobody knows which wrapper's it is

    def launch(self, given: Mapping[str, Any], grid: tuple[int, ...]) -> None:
        self._launch(given, (*map(int, grid), 1, 1)[:3])


def launched(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """In place of JITFunction.run (Triton 3.6 to 3.9), with its arguments. Raises TypeError where they do not fit,
    EmulationError for what the kernel does, NotEmulatedError.
    """
    for hook in fn.pre_run_hooks:
        hook(*args, **kwargs)
    options = {name: kwargs.pop(name) for name in [*kwargs] if name not in fn.arg_names}
    bound = inspect.signature(fn.fn).bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    if warmup:
        return
    kernel = LaunchedKernel(fn, given, options)
    kernel.launch(given, tuple(grid(given) if callable(grid) else grid))


def _type(value: Any) -> str:
    """Triton's name for an argument's type: *fp32, i64, constexpr for None."""
    if isinstance(value, tuple) or hasattr(value, "block_shape"):
        raise NotEmulatedError("a kernel of the user's own is launched with a tuple or a tensor descriptor")
    return "constexpr" if value is None else mangle_type(value)
