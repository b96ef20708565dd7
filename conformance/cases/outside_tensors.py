"""Tensors that stay on the CPU and keep their dtype: those that a function takes from outside, and some of modules.

The latter are tensors that are attributes of a module, and neither parameters nor buffers: `module.to()` leaves them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.containers import is_module, leaves_of, tensors_of_module
from conformance.documentation import reference
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case

#: Where it is documented how a case calls a step of an optimizer.
_OPTIMIZERS_PAGE = reference("numerics", "steps-of-an-optimizer")


def advice(fn: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """A sentence that names such tensors and says what to do instead; "" if there are none.

    `fn` may be a wrapper that functools.wraps made. `arguments`: of a call, by name.
    """
    if names := _optimizers(inspect.unwrap(fn)):
        return (
            f"the function takes {' and '.join(names)} from outside, whose state stays from call to call: take the "
            f"state as inputs, and call torch.optim.adam.adam(…) instead of step(); see {_OPTIMIZERS_PAGE}"
        )
    if names := outside_names(fn):
        return (
            f"the function takes {' and '.join(names)} from outside, which stays on the CPU and keeps its dtype: "
            "declare it as an argument, a module as net=module(Net) or net=module(lambda: …), a tensor as x=tensor(20)"
        )
    if names := list(_attributes(arguments)):
        return (
            f"{' and '.join(names)} is a tensor, but neither a parameter nor a buffer, so it stays on the CPU and "
            "keeps its dtype: register it in the module with register_buffer()"
        )
    return ""


def advice_on(error: Exception, case: Case) -> str:
    """The advice for a case that raised `error`, which names a device; "" if the error says all itself."""
    return "" if isinstance(error, ConformanceError) else advice(case.fn, case.build())


def _values_from_outside(fn: Callable[..., Any]) -> dict[str, Any]:
    if not inspect.isfunction(fn):
        return {}
    variables = inspect.getclosurevars(fn)
    return {**variables.globals, **variables.nonlocals}


def _optimizers(fn: Callable[..., Any]) -> list[str]:
    import torch

    found = _values_from_outside(fn).items()
    return sorted(
        f"{name}, a {type(value).__name__}," for name, value in found if isinstance(value, torch.optim.Optimizer)
    )


def outside_names(fn: Callable[..., Any]) -> list[str]:
    """The names and types of such tensors and modules that a function takes from outside."""
    import torch

    return sorted(
        f"{name}, a {type(value).__name__},"
        for name, value in _values_from_outside(inspect.unwrap(fn)).items()
        if isinstance(value, torch.Tensor) or (isinstance(value, torch.nn.Module) and value.state_dict())
    )


def _attributes(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, argument in arguments.items():
        for path, leaf in leaves_of(argument, name, into_modules=False):
            if is_module(leaf):
                registered = {each for each, _ in (*leaf.named_parameters(), *leaf.named_buffers())}
                yield from (f"{path}.{each}" for each in tensors_of_module(leaf) if each not in registered)
