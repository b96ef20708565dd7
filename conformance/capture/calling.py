"""The call that makes torch.compile compile a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance import modes
from conformance.case import Case
from conformance.inputs import placed


def call(case: Case, compiled: Callable[..., Any], device: str) -> None:
    """Calls `compiled` with the case's arguments on `device`, in the case's mode.

    Raises what it raises, but for the exception that the case says it raises (`numerics={"raises": …}`).
    """
    import torch

    arguments = placed(case.build(), torch.device(device))
    try:
        with modes.entered(case.mode, device):
            compiled(**arguments)
    except Exception as error:
        if not is_expected(case, error):
            raise


def is_expected(case: Case, error: BaseException) -> bool:
    return case.numerics.get("raises") in set(names_of(error))


def names_of(error: BaseException) -> Iterator[str]:
    """The names of the exception's types, and of those it was raised from: Dynamo raises its own from eager's."""
    for each in (error, error.__cause__):
        if each is not None:
            yield from (kind.__name__ for kind in type(each).__mro__)
