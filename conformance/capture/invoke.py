"""Calls a compiled function, which makes torch.compile compile the program; unwraps the compiler's exceptions."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture import call_modes
from conformance.capture.program import Arguments, Program
from conformance.containers import copy_to

#: Exceptions of these packages wrap the original exception.
_COMPILER = ("torch._dynamo", "torch._inductor")
#: Start of the RuntimeError that torch 2.15 puts between the wrapper and an operator's exception.
_BETWEEN = "Dynamo failed to run FX node"
#: The longest chain of wrappers that is followed (torch 2.15 has four).
_DEPTH = 12


def call(program: Program, compiled: Callable[..., Any], device: str) -> str:
    """Calls `compiled` with the program's first arguments on `device`, in its call mode.

    Returns "". Where the program may raise, returns the text of the exception instead of raising it.
    """
    with _without_memory() if program.without_memory else contextlib.nullcontext():
        arguments = copy_to(program.arguments(), device)
        try:
            _call(program, compiled, arguments, device)
        except Exception as error:
            if not program.may_raise():
                raise
            return error_text(error)
    return ""


@contextlib.contextmanager
def _without_memory() -> Iterator[None]:
    """Within it, tensors have sizes, strides and a dtype, and no values: code for any size is generated.

    Private: torch._subclasses.fake_tensor, which torch.compile itself uses.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True):
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")  # copies ask who shares memory
        yield


def call_with(program: Program, compiled: Callable[..., Any], arguments: Arguments, device: str) -> None:
    """Calls `compiled` with other arguments than the program's own. Raises what the call raises."""
    _call(program, compiled, copy_to(arguments, device), device)


def _call(program: Program, compiled: Callable[..., Any], arguments: Arguments, device: str) -> None:
    positional, named = arguments
    with call_modes.enter_mode(program.mode, device):
        compiled(*positional, **named)


def is_of_type(error: BaseException, name: str) -> bool:
    """Whether both the exception and the original exception that it wraps have the type `name`.

    The exception alone is not enough: the compiler's wrappers are RuntimeErrors, whatever failed. The original alone is
    not enough either: `except name` around the call must catch the exception.
    """
    return name in type_names(error) and name in type_names(original_error(error))


def type_names(error: BaseException) -> list[str]:
    """The names of the exception's class and of all base classes."""
    return [kind.__name__ for kind in type(error).__mro__]


def original_error(error: BaseException) -> BaseException:
    """The exception that Dynamo or Inductor wrapped, for example in a TorchRuntimeError; else the exception itself."""
    for each in _chain(error):
        error = each
        if not (type(each).__module__.startswith(_COMPILER) or str(each).startswith(_BETWEEN)):
            break
    return error


def error_text(error: BaseException) -> str:
    """Types and message: "TorchRuntimeError (of ValueError): Expected more than 1 value"."""
    original = original_error(error)
    name = type(error).__name__ + (f" (of {type(original).__name__})" if original is not error else "")
    return f"{name}: {original}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, the exception that it wraps, and so on.

    torch raises wrappers `from None`, so the wrapped exception is the context. If a backend raised it, it is the
    `inner_exception` of `BackendCompilerFailed`.
    """
    each: BaseException | None = error
    for _ in range(_DEPTH):
        if each is None:
            return
        yield each
        each = getattr(each, "inner_exception", None) or each.__cause__ or each.__context__
