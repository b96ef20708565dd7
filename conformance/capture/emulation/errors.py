"""Errors of the emulation. A message names the kernel's own source line."""

from __future__ import annotations

import linecache
import traceback

from conformance.errors import ConformanceError


class EmulationError(ConformanceError, AssertionError):
    """A generated kernel or wrapper did something wrong. The message names kernel, line and reason."""


class NotEmulatedError(ConformanceError):
    """Something that the emulation does not support. The message is the reason."""


class KernelFaultError(Exception):
    """An access out of bounds, a failed assertion, or the time limit, before its line in the kernel is known.

    Becomes an EmulationError. `program`: the place in the grid of the program that failed, if known.
    """

    def __init__(self, message: str, program: tuple[int, ...] | None = None) -> None:
        super().__init__(message)
        self.program = program


class DivergentProgramsError(Exception):
    """The programs of one batch take different branches, so that each must run alone."""


def emulation_error(error: BaseException, kernel: str, file: str) -> EmulationError:
    """An EmulationError for `error`, with the innermost line of the kernel's own source.

    `kernel`: its name. `file`: the name of its source file.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file and frame.lineno is not None]
    where = f", line {lines[-1]}: {linecache.getline(file, lines[-1]).strip()}" if lines else ""
    message = str(error) if isinstance(error, KernelFaultError) else f"{type(error).__name__}: {error}"
    program = f", program {error.program}" if isinstance(error, KernelFaultError) and error.program else ""
    return EmulationError(f"{kernel}{program}{where}\n{message}")
