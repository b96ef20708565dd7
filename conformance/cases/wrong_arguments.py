"""Why a declared argument is none: it exists already, or is a collection of what the case should build."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conformance.cases.dtypes import DTYPES
from conformance.cases.nested.groups import Group, members, modules_in
from conformance.cases.nested.modules import ModuleInput
from conformance.containers import Leaf, is_module, items_of

if TYPE_CHECKING:
    import torch

#: So many modules of a dict are written out in advice.
_WRITTEN = 4


def problem_of_argument(name: str, value: Any) -> str:
    """Why a value cannot be the argument `name`, and what to write; "" if it can."""
    for path, found in modules_in(value, name):
        kind = type(found).__name__
        return (
            f"{path} is a {kind} that exists already: it would keep its dtype and weights; "
            f"let the case build it: {name}=module({kind}, …) or {name}=module(lambda: …)"
        )
    for path, tensor in _tensors_in(value, name):
        return (
            f"{path} is a tensor that exists already: each call would get the same values, and none that are special; "
            f"let the case make it: {f'{path}=' if path.isidentifier() else ''}{_recipe_text(tensor)}; if the values "
            "matter, make it in the function"
        )
    if isinstance(value, Leaf) or not any(True for _ in members(value, name)):
        return ""
    kind = type(value).__name__
    if _is_all_modules(value):
        return f"{name!r} is a {kind} of modules; for one case each, write {name}={_axis_of_modules(value)}"
    return (
        f"{name!r} is a {kind} of inputs; write it as {name}=group(…), such as "
        f"{name}=group([tensor(20), tensor(20)]): a list or a dict alone is an axis"
    )


def _tensors_in(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that exist already in an argument, each with its path. Does not import torch."""
    imported = sys.modules.get("torch")
    if imported is not None and isinstance(value, imported.Tensor):
        yield path, value
        return
    inner = value.value if isinstance(value, Group) else value
    for name, item in () if is_module(inner) else items_of(inner) or ():
        yield from _tensors_in(item, f"{path}{name}")


def _recipe_text(tensor: torch.Tensor) -> str:
    """The call of tensor() that makes one like it: `tensor(3, dtype='i64', low=0, high=10)`."""
    words = [str(size) for size in tensor.shape] or ["shape=()"]
    name = next((name for name, theirs in DTYPES.items() if f"torch.{theirs}" == str(tensor.dtype)), "f32")
    words += [f"dtype={name!r}"] if name != "f32" else []
    is_integer = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) and name != "bool"
    if is_integer and tensor.numel() and name in DTYPES:
        words += [f"low={int(tensor.min())}", f"high={int(tensor.max()) + 1}"]
    return f"tensor({', '.join(words)})"


def _is_all_modules(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (list, tuple, Mapping)) and all(isinstance(each, ModuleInput) for each in items)


def _axis_of_modules(value: Any) -> str:
    """The call of module() that makes each of them: `module({'a': Net, 'b': lambda: Other(3)})`."""
    names = value if isinstance(value, Mapping) else map(_factory_name, value)
    modules = value.values() if isinstance(value, Mapping) else value
    parts = [f"{name!r}: {_factory_text(each)}" for name, each in zip(names, modules, strict=True)]
    return f"module({{{', '.join(parts[:_WRITTEN])}{', …' if len(parts) > _WRITTEN else ''}}})"


def _factory_name(module: ModuleInput) -> str:
    return str(getattr(module.properties["factory"], "__name__", "net")).strip("<>").lower()


def _factory_text(module: ModuleInput) -> str:
    factory = module.properties["factory"]
    if getattr(factory, "__name__", "<lambda>") == "<lambda>":
        return "lambda: …"
    words = [*map(repr, module.arguments), *(f"{name}={module.properties[name]!r}" for name in module.named)]
    return f"lambda: {factory.__name__}({', '.join(words)})" if words else str(factory.__name__)
