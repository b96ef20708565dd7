"""The call that makes torch.compile compile a case, and what stands behind an exception of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.cases import call_modes
from conformance.cases.case import Case
from conformance.cases.inputs import copy_to
from conformance.cases.numerics_policy import Policy

#: Whose exceptions wrap what was raised while compiling.
_COMPILER = ("torch._dynamo", "torch._inductor")
#: How the RuntimeError begins that torch 2.15 puts between a wrapper and what an operator raised.
_BETWEEN = "Dynamo failed to run FX node"
#: Exceptions are no longer than this apart from what they wrap (torch 2.15 has four).
_DEPTH = 12


def call(case: Case, compiled: Callable[..., Any], device: str, target: str = "") -> str:
    """Calls `compiled` with the case's arguments on `device`, in the case's mode.

    Answers "", or what was raised where the case says that eager raises (`numerics={"raises": …}`) on `target`:
    whether it is the right exception is a question of its numerics. Raises what it raises otherwise.
    """
    import torch

    arguments = copy_to(case.build(), torch.device(device))
    try:
        with call_modes.enter_mode(case.mode, device):
            compiled(**arguments)
    except Exception as error:
        if not Policy.for_case(case, target, device).raises:
            raise
        return error_text(error)
    return ""


def is_of_type(error: BaseException, name: str) -> bool:
    """Whether `except name` around the call would catch it, and whether what it wraps is of that type as well.

    The first alone would take any failure of the compiler for a RuntimeError, as the wrappers are; the second alone, an
    exception that a caller who is prepared for eager's would not catch.
    """
    return name in type_names(error) and name in type_names(original_error(error))


def type_names(error: BaseException) -> list[str]:
    """The names of its type and of those that it derives from."""
    return [kind.__name__ for kind in type(error).__mro__]


def original_error(error: BaseException) -> BaseException:
    """What Dynamo or Inductor wrapped, as a TorchRuntimeError or an InductorError; else the exception itself."""
    for each in _chain(error):
        error = each
        if not (type(each).__module__.startswith(_COMPILER) or str(each).startswith(_BETWEEN)):
            break
    return error


def error_text(error: BaseException) -> str:
    """Type and message, of what is wrapped too: "TorchRuntimeError (of ValueError): Expected more than 1 value"."""
    original = original_error(error)
    kind = type(error).__name__ + (f" (of {type(original).__name__})" if original is not error else "")
    return f"{kind}: {original}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it was raised from, and so on. Wrappers are raised `from None`: what they wrap is the context
    (torch 2.11 to 2.15), or `inner_exception` where a backend raised it (`BackendCompilerFailed`, the same versions).
    """
    each: BaseException | None = error
    for _ in range(_DEPTH):
        if each is None:
            return
        yield each
        each = getattr(each, "inner_exception", None) or each.__cause__ or each.__context__
