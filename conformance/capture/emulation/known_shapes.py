"""Types of blocks that Triton has made before: most of the interpreter's time goes into their shapes.

For each operation, Triton's semantics make a type and a tensor anew: a tuple of constants, its type, its name. A kernel
has few shapes, so this module copies the attributes of the first type or tensor of the same shape (Triton 3.6 to 3.9).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

#: The attributes of a block type: (name of the elements' type, sizes) → name → value.
_types: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
#: A block type has under this name the attributes of a tensor of that type, without its handle and type.
_TENSOR = "_conformance_tensor"
#: The same for numbers: name of the type → attributes.
_numbers: dict[str, dict[str, Any]] = {}


class Semantic(TritonSemantic):
    """Triton's semantics. Blocks of one shape need no broadcast."""

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block() and right.is_block() and left.shape.values == right.shape.values:
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)


def install(scope: Any) -> None:
    """Replaces the constructors of block types and tensors."""
    scope.set_attr(tl.core.block_type, "__init__", _block_type(tl.core.block_type.__init__))
    scope.set_attr(tl.core.tensor, "__init__", _tensor(tl.core.tensor.__init__))


def _block_type(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(shape.values if isinstance(shape, tl.core.tuple) else shape)
        if type(element_ty) is not tl.core.dtype or not all(type(size) is int for size in sizes):
            original(self, element_ty, shape)
            return
        known = _types.get((element_ty.name, sizes))
        if known is None:
            original(self, element_ty, shape)
            _types[element_ty.name, sizes] = vars(self)  # not a copy: the first tensor adds its attributes
        else:
            vars(self).update(known)
            self.element_ty = element_ty

    return init


def _tensor(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - the name of Triton's parameter
        number = type.__class__ is tl.core.dtype
        known = _numbers.get(type.name) if number else vars(type).get(_TENSOR)
        if known is not None:
            vars(self).update(known)
            self.handle, self.type = handle, type
            return
        original(self, handle, type)
        attributes = {name: value for name, value in vars(self).items() if name not in ("handle", "type")}
        if number:
            _numbers[type.name] = attributes
        elif type.is_block():
            first = _types.get((getattr(type.element_ty, "name", ""), tuple(type.shape.values)), {})
            (first if first.get("element_ty") is type.element_ty else vars(type))[_TENSOR] = attributes

    return init
