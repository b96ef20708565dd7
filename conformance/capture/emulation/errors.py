"""What goes wrong while a kernel is interpreted, told with the kernel's own line."""

from __future__ import annotations

import linecache
import traceback

from conformance.errors import ConformanceError


class EmulationError(ConformanceError, AssertionError):
    """A generated kernel or wrapper did something that it must not do; the message names kernel, line and reason."""


class NotEmulatedError(ConformanceError):
    """Something that cannot be emulated at all; the message is the reason."""


class KernelFault(Exception):  # noqa: N818 - raised inside a kernel, and turned into an EmulationError around it
    """An access out of bounds, a failed assertion, or the time limit, before it is known where in the kernel it was.

    `program`: the place in the grid of the program that did it, where that is known.
    """

    def __init__(self, message: str, program: tuple[int, ...] | None = None) -> None:
        super().__init__(message)
        self.program = program


class NotUniformError(Exception):
    """Programs of one batch would go different ways, so that each has to be run by itself."""


def located(error: BaseException, kernel: str, file: str) -> EmulationError:
    """The error with the innermost line of the kernel's own source."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f", line {lines[-1]}: {linecache.getline(file, lines[-1]).strip()}" if lines else ""
    said = str(error) if isinstance(error, KernelFault) else f"{type(error).__name__}: {error}"
    program = f", program {error.program}" if isinstance(error, KernelFault) and error.program else ""
    return EmulationError(f"{kernel}{program}{where}\n{said}")
