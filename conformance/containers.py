"""Containers of tensors: lists, tuples, dicts, dataclasses and modules. Their leaves, their structure, and copies.

A leaf is named by its path, as one would write it in Python: `[0]`, `['k']`, `.x` for a field of a named tuple or of a
dataclass, `.0.weight` for a tensor of a torch.nn.Module.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.errors import ConformanceError

if TYPE_CHECKING:
    import torch


class Leaf:
    """A base for dataclasses that are no containers."""


class ModuleCopyError(ConformanceError, TypeError):
    """A torch.nn.Module that cannot be copied. The message is a sentence that says what would be right."""


def is_module(value: Any) -> bool:
    """Whether a value is a torch.nn.Module. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def items_of(value: Any) -> list[tuple[str, Any]] | None:
    """The items of a container, each with its path: ("[0]", item). None for a leaf.

    The items of a module are its parameters, buffers, and tensors that are attributes; a tensor that is there twice
    has its first name.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", item) for name, item in zip(value._fields, value, strict=True)]
    if isinstance(value, (tuple, list)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if is_module(value):
        return [(f".{name}", tensor) for name, tensor in tensors_of_module(value).items()]
    if _is_dataclass(value):
        return [(f".{name}", getattr(value, name)) for name in _fields(value)]
    return None


def leaves_of(value: Any, path: str = "", *, into_modules: bool = True) -> Iterator[tuple[str, Any]]:
    """The leaves of nested containers: (path, leaf), such as ("[0]['k']", tensor).

    `into_modules`: a module is a container of its tensors; else it is a leaf.
    """
    items = items_of(value) if into_modules or not is_module(value) else None
    if items is None:
        yield path, value
    else:
        for name, item in items:
            yield from leaves_of(item, f"{path}{name}", into_modules=into_modules)


def structure(value: Any) -> str:
    """The types of containers and leaves: `tuple(Tensor, dict(k=list(Tensor)), None)`. Of a module: its type."""
    items = None if is_module(value) else items_of(value)
    if items is None:
        return "None" if value is None else type(value).__name__
    if isinstance(value, dict):
        names = [f"{key}=" for key in value]
    else:
        names = [f"{name[1:]}=" if name.startswith(".") else "" for name, _ in items]
    parts = [name + structure(item) for name, (_, item) in zip(names, items, strict=True)]
    return f"{type(value).__name__}({', '.join(parts)})"


def with_items(value: Any, change: Callable[[str, Any], Any]) -> Any:
    """A container with `change(path, item)` in place of each item. `value`: no module. A leaf stays as it is.

    Calls no constructor of a dataclass. A dataclass of which no item changes stays the same object.
    """
    items = items_of(value)
    if items is None:
        return value
    changed = [change(name, item) for name, item in items]
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(changed)
    if isinstance(value, (tuple, list)):
        return type(value)(changed)
    if isinstance(value, dict):
        result = copy.copy(value)  # a subclass keeps its attributes
        for key, item in zip(value, changed, strict=True):
            result[key] = item
        return result
    if all(new is old for new, (_, old) in zip(changed, items, strict=True)):
        return value
    result = copy.copy(value)
    for (name, _), item in zip(items, changed, strict=True):
        object.__setattr__(result, name[1:], item)  # a frozen dataclass refuses setattr()
    return result


def copy_to(value: Any, device: Any, *, widen: bool = False) -> Any:
    """A copy on `device` of a tensor, or of a container with all tensors in it copied.

    The copy keeps size, stride, storage offset, the whole storage (with elements outside the view), requires_grad, and
    which tensors share a storage. Copies are leaves. `widen`: floating dtypes become float64, complex ones complex128.
    Raises ModuleCopyError.
    """
    copies = _TensorCopies(device, widen=widen)

    def copied(_path: str, each: Any) -> Any:
        import torch

        if isinstance(each, torch.Tensor):
            return copies.of(each)
        return copied_module(each, copies.of) if is_module(each) else with_items(each, copied)

    return copied("", value)


class _TensorCopies:
    """Copies of tensors; those that share a storage do so in the copies."""

    def __init__(self, device: Any, *, widen: bool) -> None:
        self._device, self._widen = device, widen
        self._storages: dict[Any, torch.Tensor] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        dtype = tensor.dtype
        if self._widen and (dtype.is_complex or dtype.is_floating_point):
            dtype = torch.complex128 if dtype.is_complex else torch.float64
        if tensor.layout != torch.strided:  # a sparse tensor has no storage
            return tensor.detach().to(self._device, dtype, copy=True).requires_grad_(tensor.requires_grad)
        storage = tensor.untyped_storage()
        key = (storage.data_ptr() or id(tensor), tensor.dtype)
        if key not in self._storages:
            elements = storage.nbytes() // tensor.element_size()
            whole = tensor.detach().as_strided((elements,), (1,), 0)
            self._storages[key] = whole.to(self._device, dtype, copy=True)
        # set_() and not as_strided(): a copy must be an ordinary tensor, not a view of a hidden one.
        copied = torch.empty(0, dtype=dtype, device=self._storages[key].device)
        copied.set_(self._storages[key].untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
        return copied.requires_grad_(tensor.requires_grad)


def tensors_of_module(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Name → parameter, buffer, or tensor that is another attribute.

    A tensor that is there twice has its first name.
    """
    import torch

    found: dict[str, torch.Tensor] = dict(_registered(module))
    seen = {id(tensor) for tensor in found.values()}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}" if path else name] = value
    return found


def copied_module(module: torch.nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A deep copy of a module whose parameters and buffers are what `convert` gives, once for each tensor.

    Tied parameters stay tied. As with `module.to()`, tensors that are other attributes keep device and dtype.
    Raises ModuleCopyError.
    """
    import torch

    memo: dict[int, Any] = {}
    for name, tensor in _registered(module).items():
        if torch.nn.parameter.is_lazy(tensor):
            raise ModuleCopyError(
                f"{type(module).__name__}: {name} has no size before the first call; give the module its sizes, such "
                "as nn.Linear(8, 16), or call it once in the function that makes it"
            )
        new = convert(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            new = torch.nn.Parameter(new.detach(), requires_grad=new.requires_grad)
            vars(new).update(vars(tensor))
        memo[id(tensor)] = new
    return _deep_copy(module, memo)


def module_with(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Any:
    """A deep copy of a module whose parameters and buffers are these tensors themselves. `tensors`: by name."""
    return _deep_copy(module, {id(tensor): tensors[name] for name, tensor in _registered(module).items()})


def _deep_copy(module: torch.nn.Module, memo: dict[int, Any]) -> Any:
    """A copy with other tensors. `memo`: identity of a tensor → what stands in its place. Raises ModuleCopyError."""
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # a module may hold anything, and copying it may raise anything
        raise ModuleCopyError(
            f"{type(module).__name__} cannot be copied ({type(error).__name__}: {str(error).partition(chr(10))[0]}), "
            "and each call needs a copy of its own; keep in the module only what copy.deepcopy copies"
        ) from error


def _registered(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Leaf))


def _fields(value: Any) -> list[str]:
    """The names of the fields that have a value."""
    return [each.name for each in dataclasses.fields(value) if hasattr(value, each.name)]
