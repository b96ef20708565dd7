"""The base of this package's errors."""

from __future__ import annotations

from typing import ClassVar


class ConformanceError(Exception):
    """An error whose message tells the user all that is needed: what was wrong, and what would be right.

    The command line and the plugin print the message without a traceback. `status`: the exit status of a command that
    ends with the error: 2 for wrong input or a missing part of the environment, 1 for a case that fails.
    """

    status: ClassVar[int] = 2


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without blanks around it; "" where there is no message."""
    return (str(error).strip().splitlines() or [""])[0].rstrip()
