"""Simpler inputs for a program: no gradient, contiguous, smaller, fewer dimensions, float32, simpler values.

Each function yields programs that are a little simpler than the one it takes. They may not run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from conformance.minimisation.program import Program

Simplify = Callable[[Program], Iterator[Program]]


def simpler_inputs() -> tuple[Simplify, ...]:
    """The ways to simplify, in the order to try them. Each is repeated while it helps."""
    return (without_gradients, contiguous, smaller, fewer_dimensions, in_float32, with_simple_values)


def without_gradients(program: Program) -> Iterator[Program]:
    """No input requires a gradient, or one less."""
    wanted = [name for name, value in program.inputs.items() if value.requires_grad]
    if wanted:
        yield _changed(program, lambda _, value: value.detach().clone())
    if len(wanted) > 1:
        for name in wanted:
            without = program.inputs[name].detach().clone()
            yield replace(program, inputs={**program.inputs, name: without})


def contiguous(program: Program) -> Iterator[Program]:
    """All inputs are contiguous, at the beginning of a storage of their own."""
    if not all(value.is_contiguous() and _fills_its_storage(value) for value in program.inputs.values()):
        yield _changed(program, lambda _, value: _detached(value, lambda each: each.contiguous().clone()))


def smaller(program: Program) -> Iterator[Program]:
    """Every dimension of one size has 1 element, or a half of them, the first or the last ones."""
    sizes = sorted({size for value in program.inputs.values() for size in value.shape if size > 1}, reverse=True)
    for size in sizes:
        for count in dict.fromkeys((1, 2, size // 2)):
            for start in (0, size - count):
                if count < size:
                    yield _changed(program, _narrowed(size, start, count))


def fewer_dimensions(program: Program) -> Iterator[Program]:
    """Without the first dimension of all inputs that have several, if its size is 1; or of all such dimensions."""
    several = [value for value in program.inputs.values() if value.dim() > 1 and 1 in value.shape]
    if several:
        yield _changed(program, lambda _, value: _detached(value, _squeezed) if value.dim() > 1 else value)
        if all(value.shape[0] == 1 for value in several):
            yield _changed(program, lambda _, value: _detached(value, _without_first) if value.dim() > 1 else value)


def in_float32(program: Program) -> Iterator[Program]:
    """Float32 in place of the other floating dtypes."""
    import torch

    if any(_is_floating(value) and value.dtype != torch.float32 for value in program.inputs.values()):
        yield _changed(
            program, lambda _, value: _detached(value, lambda each: each.float()) if _is_floating(value) else value
        )


def with_simple_values(program: Program) -> Iterator[Program]:
    """One input has only ones, or zeros, or one of its values; or numbers with two digits."""
    import torch

    for name, value in program.inputs.items():
        flat = value.detach().reshape(-1)
        if not flat.numel() or is_uniform(flat):
            continue
        for fill in (1, 0, flat[0].item(), flat[-1].item()):
            yield _with_input(program, name, functools.partial(torch.full_like, fill_value=fill))
        if _is_floating(value):
            rounded = value.detach().double().mul(4).round().div(4).to(value.dtype)
            if not torch.equal(rounded.double().nan_to_num(), value.detach().double().nan_to_num()):
                yield _with_input(program, name, functools.partial(_copied, rounded))


def _with_input(program: Program, changed: str, change: Callable[[Any], Any]) -> Program:
    return _changed(program, lambda name, value: _detached(value, change) if name == changed else value)


def _changed(program: Program, change: Callable[[str, Any], Any]) -> Program:
    return replace(program, inputs={name: change(name, value) for name, value in program.inputs.items()})


def _detached(value: Any, change: Callable[[Any], Any]) -> Any:
    return change(value.detach()).requires_grad_(value.requires_grad)


def _narrowed(size: int, start: int, count: int) -> Callable[[str, Any], Any]:
    def narrow(value: Any) -> Any:
        for dim, each in enumerate(value.shape):
            value = value.narrow(dim, start, count) if each == size else value
        return _dense(value)

    return lambda _, value: _detached(value, narrow) if size in value.shape else value


def _copied(wanted: Any, value: Any) -> Any:
    return value.clone().copy_(wanted)


def _dense(value: Any) -> Any:
    """A copy in a storage of its own, with the dimensions in the same order in memory."""
    return value.clone() if value.is_contiguous() else _in_order(value)


def _in_order(value: Any) -> Any:
    order = sorted(range(value.dim()), key=lambda dim: -value.stride(dim))
    back = sorted(range(value.dim()), key=lambda place: order[place])
    return value.permute(order).contiguous().clone().permute(back)


def _squeezed(value: Any) -> Any:
    return value.reshape(1) if value.numel() == 1 else value.squeeze()


def _without_first(value: Any) -> Any:
    return value.squeeze(0)


def _is_floating(value: Any) -> bool:
    return bool(value.dtype.is_floating_point)


def is_uniform(flat: Any) -> bool:
    """Whether all elements of a tensor with one dimension are the same; NaN is the same as NaN."""
    return bool(((flat == flat[0]) | (flat.isnan() & flat[0].isnan())).all())


def _fills_its_storage(value: Any) -> bool:
    return bool(value.untyped_storage().nbytes() == value.numel() * value.element_size())
