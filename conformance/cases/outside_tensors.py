"""Tensors that stay on the CPU and keep their dtype: those that a function takes from outside, and some of modules.

The latter are tensors that are attributes of a module, and neither parameters nor buffers: `module.to()` leaves them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.cases.named_devices import own_devices
from conformance.containers import is_module, leaves_of, tensors_of_module
from conformance.documentation import reference
from conformance.errors import ConformanceError

if TYPE_CHECKING:
    from conformance.cases.case import Case

#: Where it is documented how a case calls a step of an optimizer.
_OPTIMIZERS_PAGE = reference("numerics", "steps-of-an-optimizer")
#: What torch says where tensors are on two devices, or on one that is not there.
_TWO_DEVICES = re.compile("same device|two devices|different devices|device mismatch|not compiled with|no NVIDIA")


def advice(fn: Callable[..., Any], arguments: Mapping[str, Any], error: BaseException | None = None) -> str:
    """A sentence that names such tensors and says what to do instead; "" if there are none.

    `fn` may be a wrapper that functools.wraps made. `arguments`: of a call, by name. `error`: what it raised; where it
    tells of two devices, the sentence may name calls that name a device, or should.
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
    if _TWO_DEVICES.search(str(error)) and (calls := _own_devices(inspect.unwrap(fn), arguments)):
        name = next((name for name, each in arguments.items() if hasattr(each, "device")), "x")
        return f"{' and '.join(calls)}: the result is not on the device of {name}: write device={name}.device"
    return ""


def advice_on(error: Exception, case: Case) -> str:
    """The advice for a case that raised `error`; "" if it names no device, or says all itself."""
    if isinstance(error, ConformanceError) or not re.search("device|CUDA", str(error)):
        return ""
    return advice(case.fn, case.build(), error)


def _own_devices(fn: Callable[..., Any], arguments: Mapping[str, Any]) -> list[str]:
    """The calls in the function, in those that it takes from outside, and in those of its modules."""
    modules = [each for argument in arguments.values() if is_module(argument) for each in argument.modules()]
    functions = [fn, *_values_from_outside(fn).values(), *(type(each).forward for each in modules)]
    own = [each for each in functions if inspect.isfunction(each) and not each.__module__.startswith("torch.")]
    return list(dict.fromkeys(call for each in own for call in own_devices(each)))


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
