"""Interprets a user's kernel that eager, or a graph that is called without lowering, launches as `kernel[grid](…)`.

Triton's driver would launch the kernel on a device. Here the interpreter runs it on host memory, as it runs generated
kernels.
"""

from __future__ import annotations

import inspect
import time
import types
from collections.abc import Mapping, Sequence
from typing import Any

from triton.runtime.jit import mangle_type

from conformance.capture.emulation.configurations import Configurations
from conformance.capture.emulation.errors import NotEmulatedError
from conformance.capture.emulation.kernels import InterpretedKernel, Wrapper
from conformance.capture.emulation.wrapper import TIME_LIMIT


class LaunchedKernel(InterpretedKernel):
    """A @triton.jit function, prepared for one launch. `arguments`: by name. `options`: of the launch."""

    def __init__(self, fn: Any, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        constants = {parameter.name for parameter in fn.params if parameter.is_constexpr}
        signature = {name: _triton_type(value) for name, value in arguments.items() if name not in constants}
        config = types.SimpleNamespace(kwargs={name: value for name, value in arguments.items() if name in constants})
        fuses = options.get("enable_fp_fusion", True)
        super().__init__(fn, Configurations([config], {}), {}, {"signature": signature, "enable_fp_fusion": fuses})
        self.wrapper = Wrapper(lambda: time.monotonic() + TIME_LIMIT)  # for each launch: its wrapper is unknown

    def launch(self, arguments: Mapping[str, Any], grid: Sequence[int]) -> None:
        """Runs the kernel. `grid`: programs along one to three axes."""
        x, y, z = (*map(int, grid), 1, 1)[:3]
        self._launch(arguments, (x, y, z))


def launch_user_kernel(fn: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """Replaces JITFunction.run (Triton 3.6 to 3.9), with its arguments.

    Raises TypeError if the arguments do not fit, EmulationError if the kernel does something wrong, NotEmulatedError.
    """
    for hook in fn.pre_run_hooks:
        hook(*args, **kwargs)
    options = {name: kwargs.pop(name) for name in [*kwargs] if name not in fn.arg_names}
    bound = inspect.signature(fn.fn).bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    if warmup:
        return
    kernel = LaunchedKernel(fn, arguments, options)
    kernel.launch(arguments, tuple(grid(arguments) if callable(grid) else grid))


def _triton_type(value: Any) -> str:
    """Triton's name for the type of an argument: *fp32, i64, constexpr for None."""
    if isinstance(value, tuple) or hasattr(value, "block_shape"):
        raise NotEmulatedError("a user's kernel is launched with a tuple or a tensor descriptor")
    return "constexpr" if value is None else mangle_type(value)
