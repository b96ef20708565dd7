"""What a numerics check says of one capture, in words: for `show` and `watch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.cases.case import Case, CaseError
from conformance.cases.tolerance_policy import PolicyError
from conformance.compiler.compiler import Compiler, GeneratingError, checked_numerics
from conformance.devices.targets import Target
from conformance.terminal import styled

if TYPE_CHECKING:
    from conformance.capture.result import CaptureResult

_STYLES = {"right": "green", "wrong": "red"}


@dataclass(frozen=True)
class NumericsVerdict:
    """`word`: right, wrong or not checked. `how`: " (emulated)", " (emulated by qemu)" or "".

    `text`: what was compared, what is wrong, or why nothing was checked. `notes`: further lines.
    """

    word: str
    how: str
    text: str
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The lines to print."""
        word = styled(self.word, _STYLES.get(self.word, ""))
        end = f"\n{self.text}" if self.word == "wrong" else f": {self.text}"
        return [f"numerics    {word}{self.how}{end}", *(f"            {note}" for note in self.notes)]


def numerics_verdict(
    compiler: Compiler, case: Case, result: CaptureResult, target: Target, *, native: bool
) -> NumericsVerdict:
    """Checks the numerics of a capture, inside its context.

    Raises CaseError for a malformed numerics policy, and GeneratingError for other exceptions.
    """
    from conformance.capture.emulation.errors import EmulationError, NotEmulatedError
    from conformance.numerics.check import NumericsError

    how = "" if native else " (emulated by qemu)" if target.device == "cpu" else " (emulated)"
    # An error that the worker reports arrives as an AssertionError.
    wrong = (NumericsError, EmulationError) if result.worker_numerics is None else (AssertionError,)
    try:
        lines = checked_numerics(compiler, case, result, target, native=native)
    except wrong as error:
        return NumericsVerdict("wrong", how, str(error))
    except NotEmulatedError as error:
        return NumericsVerdict("not checked", "", f"not emulated: {error}")
    except PolicyError as error:
        raise CaseError(str(error)) from error
    except Exception as error:
        raise GeneratingError(f"{case.id} on {target.name}: {type(error).__name__}: {error}") from error
    if not lines:
        return NumericsVerdict("not checked", "", f"this machine does not run {target.name}")
    extents = result.extents()
    notes = (*lines[1:], *extents.kernels, *(f"ran little: {line}" for line in extents.shortfalls))
    return NumericsVerdict("right", how, lines[0], notes)
