"""What goes wrong while a kernel is interpreted, told with the kernel's own line."""

from __future__ import annotations

import linecache
import traceback


class EmulationError(AssertionError):
    """A generated kernel or wrapper did something that it must not do; the message names kernel, line and reason."""


class NotEmulatedError(Exception):
    """Something that cannot be emulated at all; the message is the reason."""


class KernelFault(Exception):  # noqa: N818 - raised inside a kernel, and turned into an EmulationError around it
    """An access out of bounds, a failed assertion, or the time limit, before it is known where in the kernel it was."""


def located(error: BaseException, kernel: str, file: str, program: tuple[int, ...]) -> EmulationError:
    """The error with the innermost line of the kernel's own source. `program`: the program's place in the grid."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f", line {lines[-1]}: {linecache.getline(file, lines[-1]).strip()}" if lines else ""
    said = str(error) if isinstance(error, KernelFault) else f"{type(error).__name__}: {error}"
    return EmulationError(f"{kernel}, program {program}{where}\n{said}")
