"""Compares the exceptions of eager and of a candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.capture import call_modes, invoke
from conformance.numerics import messages
from conformance.numerics.outcome import Arguments
from conformance.numerics.problem import Problem


def exception_problems(
    sides: Mapping[str, Callable[..., Any]],
    arguments: Arguments,
    device: Any,
    mode: str,
    exception: str,
    *,
    declared: bool,
) -> list[Problem]:
    """Each side must raise `exception`, the name of a type, and before it writes to an input.

    `sides`: "eager" and the candidate's name → function. `declared`: the case says that they raise it.
    """
    results = {}
    for who, fn in sides.items():
        copies = arguments.copy_to(device)
        try:
            with call_modes.enter_mode(mode, device):
                fn(*copies.args, **copies.kwargs)
        except Exception as error:  # noqa: BLE001 - the check is about which exception it is
            is_right, message = invoke.is_of_type(error, exception), invoke.error_text(error)
        else:
            is_right, message = False, "nothing"
        after = copies.tensors()
        for name, tensor in arguments.tensors().items():
            if not messages.same_values(after[name].detach().cpu(), tensor.detach()):
                is_right, message = False, f"{message}, after it changed {name}"
        results[who] = (is_right, message)
    expected = f"numerics['raises'] is {exception!r}" if declared else f"eager raises {results['eager'][1]}"
    return [
        Problem("", "raises", f"{expected}, and {who} raised {message}")
        for who, (is_right, message) in results.items()
        if not is_right
    ]


def raised_problem(error: BaseException) -> Problem:
    """The problem that the candidate raised `error`, and eager nothing."""
    if type(error).__name__ == "FailOnRecompileLimitHit":  # the capture has set an option of Dynamo that raises it
        return messages.recompile_limit()
    return Problem("", "raises", f"compiled raised {type(error).__name__}: {error}\n  eager         raised nothing")
