"""Which arguments of operators the cases set in eager to a value that is not the default and that changes the result.

Two levels: operators of the dispatcher, by their schemas, and Python functions of torch, by their signatures. A call
is repeated with the default in place of the value, until one has shown another result.
"""

from __future__ import annotations

import collections
import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from conformance.capture import call_modes
from conformance.cases.case import Case
from conformance.containers import leaves_of

#: Function → argument → the case that sets it. A required bool has two arguments: "forward=True" and "forward=False".
Found = dict[str, dict[str, str]]
_EMPTY = inspect.Parameter.empty


class ArgumentValues:
    """What the cases set. `names`: the operators and functions that they call."""

    def __init__(self) -> None:
        self.found: Found = collections.defaultdict(dict)
        self.names: set[str] = set()
        self.case = ""

    def read(self, cases: Iterable[Case]) -> ArgumentValues:
        """Calls each case in eager, and its backward. A case that cannot run so adds what it set before it raised."""
        for case in cases:
            self.case = case.id
            with contextlib.suppress(Exception):  # eager needs a device, or a mode has no rule for the operator
                arguments = case.build()
                with _Functions(self), _Operators(self), call_modes.enter_mode(case.mode, "cpu"):
                    outputs = [leaf for _, leaf in leaves_of(case.fn(**arguments)) if isinstance(leaf, torch.Tensor)]
                    outputs = [each for each in outputs if each.requires_grad]
                    if outputs:
                        torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        return self

    def unset(self) -> dict[str, list[str]]:
        """Operator or function → its arguments that no case sets, for those that a case calls."""
        unset = {name: [each for each in sorted(set(_arguments_of(name))) if each not in self.found[name]] for name in
                 sorted(self.names)}  # fmt: skip
        return {name: arguments for name, arguments in unset.items() if arguments}

    def see(self, name: str, func: Any, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Adds the arguments of one call. `values`: by name, also those that are not given. Made before the call."""
        self.names.add(name)
        for argument, default in defaults.items():
            value = values[argument]
            key = f"{argument}={value}" if default is _EMPTY else argument
            if key in self.found[name] or (default is not _EMPTY and _is_same(value, default)):
                continue
            if default is _EMPTY or _changes(func, values, argument, default):
                self.found[name][key] = self.case


class _Operators(TorchDispatchMode):
    def __init__(self, values: ArgumentValues) -> None:
        super().__init__()
        self.values = values

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        schema = [each for each in func._schema.arguments if not each.is_out]
        given = dict(zip((each.name for each in schema), args, strict=False)) | kwargs
        defaults = {each.name: each.default_value for each in schema if each.has_default_value()}
        bools = {each.name: _EMPTY for each in schema if str(each.type) == "bool" and not each.has_default_value()}
        if func.namespace == "aten" and len(given) >= len(schema) - len(defaults):
            self.values.see(str(func.overloadpacket), _by_name(func), defaults | given, defaults | bools)
        return func(*args, **kwargs)


class _Functions(TorchFunctionMode):
    def __init__(self, values: ArgumentValues) -> None:
        super().__init__()
        self.values = values

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = f"{getattr(func, '__module__', '')}.{getattr(func, '__name__', '')}"
        if inspect.isfunction(func) and name.startswith("torch.nn.functional."):
            bound = inspect.signature(func).bind(*args, **kwargs)
            bound.apply_defaults()
            self.values.see(name, func, bound.arguments, _defaults(func))
        return func(*args, **kwargs)


def _defaults(func: Any) -> dict[str, Any]:
    parameters = inspect.signature(func).parameters.items()
    return {name: parameter.default for name, parameter in parameters if parameter.default is not _EMPTY}


def _by_name(func: Any) -> Any:
    """The operator as a function of names: some operators have an argument `self`, which Python's own has, too."""
    names = [each.name for each in func._schema.arguments if not each.kwarg_only]

    def called(values: Mapping[str, Any]) -> Any:
        further = {name: value for name, value in values.items() if name not in names}
        return func(*(values[name] for name in names), **further)

    return called


def _arguments_of(name: str) -> Iterator[str]:
    """The arguments with a default, and the required bools, of all overloads that reach Inductor."""
    module, _, function = name.rpartition(".")
    if module in sys.modules:
        yield from _defaults(getattr(sys.modules[module], function))
        return
    packet, dispatched = getattr(getattr(torch.ops, module), function), set(torch._C._dispatch_get_all_op_names())
    for overload in (getattr(packet, overload) for overload in packet.overloads()):
        schema = overload._schema
        if overload.name() not in dispatched or any(each.is_out for each in schema.arguments):
            continue  # TorchScript's own, or one for `out=`
        if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
            continue
        for each in schema.arguments:
            if each.has_default_value():
                yield each.name
            elif str(each.type) == "bool":
                yield from (f"{each.name}=True", f"{each.name}=False")


def _is_same(value: Any, default: Any) -> bool:
    if isinstance(value, torch.Tensor) or isinstance(default, torch.Tensor):
        return value is default
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return bool(value == default)


def _changes(func: Any, values: Mapping[str, Any], argument: str, default: Any) -> bool:
    """Whether the result with this value differs from that with the default, or the default is refused."""
    own, other = (_result(func, {**values, **change}, argument) for change in ({}, {argument: default}))
    return own != other


def _result(func: Any, values: Mapping[str, Any], argument: str) -> Any:
    """What a call gives, and what it leaves in its other arguments, as values to compare."""

    def copied(value: Any) -> Any:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    values = {name: tree_map(copied, value) for name, value in values.items()}
    with torch.random.fork_rng(devices=()), torch.no_grad(), _disable_current_modes():
        torch.manual_seed(0)
        try:
            result = func(values) if func.__name__ == "called" else func(**values)
        except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
            return type(error).__name__
    return [
        _comparable(leaf) for _, leaf in leaves_of([result, *(v for name, v in values.items() if name != argument)])
    ]


def _comparable(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, tuple(leaf.shape), leaf.stride(), str(leaf.tolist())
    return leaf
