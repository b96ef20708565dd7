"""Runs generated wrappers whose C++ kernels are programs for another processor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from conformance.capture.emulation.wrapper import Emulation
from conformance.capture.patching.patch import Patch, applied
from conformance.capture.qemu.kernel_program import KernelProgram


class ProcessorEmulation(Emulation):
    """Runs the wrappers of one capture for a processor. What the wrapper calls of torch runs on this machine."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Inside, calls of the compiled function and of its backward run the generated code."""
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False

    @contextlib.contextmanager
    def _device_replaced(self) -> Iterator[None]:
        """Replaces the part of torch that compiles kernels for this machine."""

        def program(_compiler: Any, types: Sequence[str], source: str, *_args: Any, **_options: Any) -> KernelProgram:
            return KernelProgram(self.target.isa, types, source, lambda: self.deadline - time.monotonic())

        with applied([Patch(_LOAD, lambda _: program, "Inductor would compile the kernels for this machine")]):
            yield

    @contextlib.contextmanager
    def _interpreting(self) -> Iterator[None]:
        yield  # nothing is interpreted, and the operators are this machine's


_LOAD = "torch._inductor.async_compile:AsyncCompile.cpp_pybinding"
