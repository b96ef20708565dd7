"""group(): an argument that is a collection of inputs: a list, tuple, dict, named tuple or dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.cases.axes import CaseError
from conformance.cases.inputs import Recipe
from conformance.containers import Leaf, is_module, items_of, with_items

#: The properties of inputs that a group may set for all its members.
_PROPERTIES = ("dtype", "shape", "layout", "size")


@dataclass(frozen=True)
class Group(Leaf):
    """A collection of inputs.

    `value`: a container with recipes in it. `make`: called with `value`, the named arguments, as soon as these are
    tensors; None where the value itself is the argument. `properties`: name → a value or an axis, for the members that
    leave it open.
    """

    value: Any
    make: Callable[..., Any] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


def group(value: Any = None, /, *others: Any, **properties: Any) -> Group:
    """An argument that is a collection of inputs. The function gets the collection with tensors in their place.

        xs=group([tensor(4), tensor(4)])                    # a list; group((tensor(4), 3)) is a tuple
        qkv=group({"q": tensor(8, 64), "k": tensor(8, 64)}, dtype=["f32", "bf16"])
        batch=group(Batch(x=tensor(8, 64), y=tensor(8)))    # a named tuple or a dataclass
        batch=group(Batch, x=tensor(8, 64), y=tensor(8))    # the same, if its constructor needs tensors
        nested=group({"batch": Batch(x=tensor(8, 64), y=tensor(8)), "masks": [tensor(8, dtype="bool")], "scale": 0.5})

    A list in a group is no axis. Properties of the members are axes as elsewhere, named "xs[0].dtype",
    "qkv['q'].dtype", "batch.x.dtype". `dtype`, `shape`, `layout`, `size`: for all members that do not set it
    themselves; an axis is named "qkv.dtype".
    Members are named like this elsewhere too: in `grad="batch.x"` (`grad="batch"` names all), in `numerics`, and in
    messages.

    Raises CaseError.
    """
    if others:
        raise CaseError(f"group() gets {1 + len(others)} values, and takes one: write group([…]) or group((…))")
    if isinstance(value, type) or (callable(value) and not isinstance(value, Leaf) and items_of(value) is None):
        made = Group(_named_arguments(value, properties), value)
    else:
        unknown = sorted(set(properties) - set(_PROPERTIES))
        if unknown:
            raise CaseError(
                f"group() has no property {unknown[0]!r}; it has {', '.join(_PROPERTIES)}; write a dict as "
                f"group({{'{unknown[0]}': tensor(20)}}), and a call as group(Batch, {unknown[0]}=tensor(20))"
            )
        made = Group(value, None, properties)
    if isinstance(value, (Recipe, Group)) or not any(True for _ in members(made, "")):
        raise CaseError(f"group() gets {_kind(value)}; {_WANTED}")
    return made


_WANTED = (
    "it takes a list, tuple, dict, named tuple or dataclass with inputs in it, such as group([tensor(4), tensor(4)]), "
    "or a class and its named arguments, such as group(Batch, x=tensor(4))"
)


def _kind(value: Any) -> str:
    return "an input" if isinstance(value, (Recipe, Group)) else f"a {type(value).__name__} without inputs"


def _named_arguments(make: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the order of the signature, so that their order in the call does not matter."""
    try:
        return dict(inspect.signature(make).bind(**arguments).arguments)
    except TypeError as error:
        raise CaseError(f"group() cannot call {getattr(make, '__name__', make)}: {error}") from None
    except ValueError:  # it has no signature that Python can read
        return dict(arguments)


def members(argument: Any, path: str, owners: tuple[str, ...] = ()) -> Iterator[tuple[str, Recipe, tuple[str, ...]]]:
    """The recipes in an argument: their path, and the paths of the groups around each, the innermost first."""
    if isinstance(argument, Recipe):
        yield path, argument, owners
    elif isinstance(argument, Group):
        for name, item in _items(argument):
            yield from members(item, f"{path}{name}", (path, *owners))
    elif not is_module(argument):
        for name, item in items_of(argument) or ():
            yield from members(item, f"{path}{name}", owners)


def groups_in(argument: Any, path: str) -> Iterator[tuple[str, Group]]:
    """The groups in an argument, and the argument itself if it is one, each with its path."""
    if isinstance(argument, Group):
        yield path, argument
    items = _items(argument) if isinstance(argument, Group) else () if is_module(argument) else items_of(argument)
    for name, item in items or ():
        yield from groups_in(item, f"{path}{name}")


def modules_in(argument: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The modules that exist already in an argument, each with its path."""
    if is_module(argument):
        yield path, argument
        return
    items = _items(argument) if isinstance(argument, Group) else items_of(argument)
    for name, item in items or ():
        yield from modules_in(item, f"{path}{name}")


def assembled(argument: Any, path: str, made: Mapping[str, Any]) -> Any:
    """The argument with what `made` holds (path → tensor or module) in place of each recipe."""
    if isinstance(argument, Recipe):
        return made[path]
    if not isinstance(argument, Group):
        return argument
    if argument.make is None:
        return _filled(argument.value, path, made)
    named = {name: _filled(item, f"{path}.{name}", made) for name, item in argument.value.items()}
    return argument.make(**named)


def _filled(value: Any, path: str, made: Mapping[str, Any]) -> Any:
    if isinstance(value, (Recipe, Group)):
        return assembled(value, path, made)
    return with_items(value, lambda name, item: _filled(item, f"{path}{name}", made)) if not is_module(value) else value


def _items(group: Group) -> list[tuple[str, Any]]:
    if group.make is None:
        return items_of(group.value) or []
    return [(f".{name}", item) for name, item in group.value.items()]
