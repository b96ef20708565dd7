"""What a call leaves in a module beside tensors: a counter, a flag, which of two layers is next.

Every call of the numerics check gets a copy of the module as it was built. Code that Dynamo compiled for that state
must not serve another one, and only a call with the state after a call shows whether it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conformance.capture import call_modes
from conformance.containers import copy_to, is_module, leaves_of

if TYPE_CHECKING:
    import torch

    from conformance.cases.case import Case

_NUMBERS = (bool, int, float, complex, str, bytes, type(None))
#: Attributes of a torch.nn.Module with tensors, which are inputs, and with the parts, which are taken one by one.
_OF_TENSORS = ("_parameters", "_buffers", "_modules")


def after_a_call(case: Case) -> dict[str, Any] | None:
    """The arguments of the first call as eager leaves them on the CPU, if it changes more in a module than tensors.

    None else, and where eager does not run there or leaves what cannot be copied, such as a tensor with its graph.
    """
    if len(case.recipes) == len(case.inputs):
        return None
    arguments = case.build(0)
    modules = [leaf for _, leaf in leaves_of(arguments, into_modules=False) if is_module(leaf)]
    before = [dict(_state(each)) for each in modules]
    try:
        with call_modes.enter_mode(case.mode, "cpu"):
            case.fn(**arguments)
        if before == [dict(_state(each)) for each in modules]:
            return None
        return dict(copy_to(arguments, "cpu"))
    except Exception:  # noqa: BLE001 - a case may raise anything; the other calls show it
        return None


def _state(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Path → what tells one value from another: of numbers and texts, the value; of objects, which one it is."""
    import torch

    for path, part in module.named_modules(remove_duplicate=False):
        yield path, id(part)
        for name, value in vars(part).items():
            if name not in _OF_TENSORS:
                kind = "tensor" if isinstance(value, torch.Tensor) else id(value)
                yield f"{path}.{name}", repr(value) if isinstance(value, _NUMBERS) else (kind, _length(value))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (list, dict, set)) else 0
