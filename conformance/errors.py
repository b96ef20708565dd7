"""The base of this package's errors."""

from __future__ import annotations

from typing import ClassVar


class ConformanceError(Exception):
    """An error whose message tells the user all that is needed: what was wrong, and what would be right.

    The command line and the plugin print the message without a traceback. `status`: the exit status of a command that
    ends with the error: 2 for wrong input or a missing part of the environment, 1 for a case that fails.
    """

    status: ClassVar[int] = 2


#: What to type where only the harness is installed.
INSTALL_SUITE = "pip install 'conformance[suite]'"


class NotStoredError(Exception):
    """What a check compares with is not stored yet. Nothing is wrong with what was generated."""


class SuiteMissingError(ConformanceError, LookupError):
    """Only the harness is installed, and somebody asked for the cases of the suite, or for what is stored for them."""

    def __init__(self) -> None:
        super().__init__(
            f"the suite is not installed, only its harness: type {INSTALL_SUITE}, or name files of your own cases"
        )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without blanks around it; "" where there is no message."""
    return (str(error).strip().splitlines() or [""])[0].rstrip()
