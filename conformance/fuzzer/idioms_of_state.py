"""Idioms with state of Python: what a call reads of a module, changes in it, or does to gradients.

A program has the source of such a function, with all that it needs of this module, because Dynamo's graph has lost the
state; state_sources.py reads it. The functions of a floating tensor `x` alone are the idioms. changes.py says what may
change between two calls of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


class DefaultDtype:
    """A context with another default dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype, self.before = dtype, torch.get_default_dtype()

    def __enter__(self) -> None:
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *raised: object) -> None:
        torch.set_default_dtype(self.before)


def overlapping(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors like this one that share all elements but one."""
    flat = torch.cat([value.detach().reshape(-1), value.detach().reshape(-1)[:1]])
    return flat[:-1].view(value.shape), flat[1:].view(value.shape)


def grown(value: torch.Tensor, size: int, by: int) -> torch.Tensor:
    """The tensor with `by` elements more, or less, in each dimension of one size."""
    for dim, each in enumerate(value.shape):
        if each == size:
            index = torch.arange(size + by).clamp(max=size - 1)
            value = value.index_select(dim, index)
    return value


class Settings:
    factor = 1.5
    seen: list[Any] = []  # noqa: RUF012 - what the calls share
    layers = {"first": 2.0}  # noqa: RUF012


class Plus:
    amount = 1.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.amount


class Times(Plus):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(1.5))
        self.register_buffer("offset", torch.tensor(0.5))
        self.power = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x * self.weight.to(x.dtype) + self.offset.to(x.dtype)
        return result.square() if self.power == 2 else result


class DoubleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class GradientScaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor + x.detach() * 0.5, None


shift = Plus()
shared = [1.0, 2.0]
scale = Scale()
offset = torch.tensor(0.25)
pull = torch.func.vjp(lambda each: each**2, torch.tensor(3.0))[1]
with_dropout = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(1.0))


def helper(value: torch.Tensor) -> torch.Tensor:
    return value * 2


def other_helper(value: torch.Tensor) -> torch.Tensor:
    return value.cos()


def made(amount: float) -> Callable[..., torch.Tensor]:
    def moved(x: torch.Tensor, amount: float = amount) -> torch.Tensor:
        return x + amount

    return moved


move = made(0.5)


def same(value: torch.Tensor) -> torch.Tensor:
    return value


def hook_on_input(module: Any, args: Any) -> Any:
    return (args[0] * 2,)


def hook_on_output(module: Any, args: Any, output: Any) -> Any:
    return output * 3


def hook_on_gradient(module: Any, gradients: Any, more: Any) -> Any:
    return tuple(each * 5 if each is not None else None for each in gradients)


def hook_before_gradient(module: Any, gradients: Any) -> Any:
    return tuple(each * 7 if each is not None else None for each in gradients)


def setting_of_a_class(x: torch.Tensor) -> torch.Tensor:
    return x * Settings.factor


def item_of_a_dict(x: torch.Tensor) -> torch.Tensor:
    return x * Settings.layers["first"]


def attribute_of_an_object(x: torch.Tensor) -> torch.Tensor:
    return shift(x)


def item_of_a_list(x: torch.Tensor) -> torch.Tensor:
    return x + shared[-1] + len(shared)


def sum_of_a_list(x: torch.Tensor) -> torch.Tensor:
    for value in shared:
        x = x + value
    return x


def appended(x: torch.Tensor) -> torch.Tensor:
    Settings.seen.append(x.detach().sum())
    return x * len(Settings.seen) + Settings.seen[0]


def counted(x: torch.Tensor) -> torch.Tensor:
    shift.amount += 1
    return x * shift.amount


def list_argument_and_global(x: torch.Tensor) -> torch.Tensor:
    def last_of(items: list[float]) -> torch.Tensor:
        return x + items[-1] * shared[0]

    return last_of(shared)


def global_function(x: torch.Tensor) -> torch.Tensor:
    return helper(x)


def closure_with_default(x: torch.Tensor) -> torch.Tensor:
    return move(x)


def global_tensor(x: torch.Tensor) -> torch.Tensor:
    return x * offset.to(x.dtype)


def layer(x: torch.Tensor) -> torch.Tensor:
    return scale(x)


def layer_without_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        factor = scale(x).mean()
    return x * factor


def layer_that_trains(x: torch.Tensor) -> torch.Tensor:
    return with_dropout(x) + x


def default_dtype(x: torch.Tensor) -> torch.Tensor:
    return x * torch.ones(1) + torch.tensor(0.5)


def casts_to_the_default(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[-1] if x.dim() else 1).to(torch.get_default_dtype())


def by_gradient_mode(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.is_grad_enabled() else x * 3


def by_requires_grad(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.requires_grad else x * 3


def by_contiguous(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous() else x * 3


def by_size(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.numel() > 8 else x * 3


def product(x: torch.Tensor) -> torch.Tensor:
    flat = x.reshape(1, -1)
    return (flat @ flat.mT).sum() + x


def enabled_inside(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        before = x * 2
        with torch.enable_grad():
            result = x * 3
    return result + before


def enabled_with_a_weight(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return x * scale.weight


def pulled_back(x: torch.Tensor) -> torch.Tensor:
    return pull(torch.ones(()))[0] + x


def results_without_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        one = x * 2
    return one


def detached_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.detach_()
    return y + y.requires_grad


def requires_grad_is_seen(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).detach()
    y.requires_grad_()
    return y * (2 if y.requires_grad else 3)


def kept_gradient(x: torch.Tensor) -> torch.Tensor:
    part = (x.detach() * 3).requires_grad_() * 2
    part.retain_grad()
    (part * part).sum().backward()
    return part.grad + x


def gradient_of_a_leaf(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad * x


def switched_on_and_off(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone()
    leaf.requires_grad = True
    y = leaf * 2
    leaf.requires_grad = False
    z = leaf * 3 * y
    return z * z.requires_grad + x


def gradient_function(x: torch.Tensor) -> torch.Tensor:
    return GradientScaled.apply(x, 2.0)


def gradient_function_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    z = DoubleInPlace.apply(y)
    return y * 3 + z


def hook_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 3)
    return y.sin()


def saved_tensors_halved(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda each: each * 0.5, lambda each: each):
        return x.sin() * x


def gradient_by_func(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda each: (each.sin() * each).sum())(x.detach()) * x


def gradient_of_a_written_column(x: torch.Tensor) -> torch.Tensor:
    def loss(value: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(value)
        total[..., -1] += value[..., 0].abs()
        total[..., -1] += value[..., 0].abs()
        return total.sum()

    return torch.func.grad(loss)(x.detach().reshape(1, -1)).reshape(x.shape) + x


def vector_jacobian(x: torch.Tensor) -> torch.Tensor:
    _, pull = torch.func.vjp(lambda each: each**2, x.detach())
    return pull(torch.ones_like(x))[0] + x


def jacobian(x: torch.Tensor) -> torch.Tensor:
    return torch.func.jacrev(lambda each: each.sin().sum())(x.detach()) * x


def mapped(x: torch.Tensor) -> torch.Tensor:
    return torch.func.vmap(lambda each: each * 2 + each.sum())(x.reshape(1, -1)).reshape(x.shape)


NAMESPACE = __name__.rpartition(".")[2]


@torch.library.custom_op(NAMESPACE + "::doubled", mutates_args={"value"})
def doubled(value: torch.Tensor) -> None:
    value.mul_(2)


@torch.library.custom_op(NAMESPACE + "::both", mutates_args={"one", "other"})
def both(one: torch.Tensor, other: torch.Tensor) -> None:
    one.add_(1)
    other.mul_(3)


def custom_operator(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    doubled(y)
    return y * x


def custom_operator_on_views(x: torch.Tensor) -> torch.Tensor:
    y = torch.stack([x.detach(), x.detach()])
    both(y[0], y[1])
    return y.sum(0) + x


def written_through_data(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    y.data = y.data * 2
    return y + x


def set_data(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    z = y * 2
    y.data.add_(1)
    return y * z + x


def as_strided_after_write(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone().reshape(-1)
    y.add_(1)
    part = y[y.numel() // 2 :]
    return torch.as_strided(part, (1,), (1,), 0) + x


def other_class(x: torch.Tensor) -> torch.Tensor:
    item = Plus()
    item.__class__ = Times
    return item(x) if isinstance(item, Times) else x


def growing_list(x: torch.Tensor) -> torch.Tensor:
    values = [x.sum()]

    def grow() -> Iterator[torch.Tensor]:
        for item in values:
            if len(values) < 3:
                values.append(item + 1)
            yield item

    return torch.stack(list(grow())).sum() + x


def dict_in_order(x: torch.Tensor) -> torch.Tensor:
    parts = {"b": x, "a": x * 2}
    parts["c"] = parts.pop("b") + 1
    for number, value in enumerate(parts.values()):
        x = x + number * value
    return x


def exception_caught(x: torch.Tensor) -> torch.Tensor:
    try:
        if x.numel() > 1:
            raise ValueError("large")
        return x + 1
    except ValueError as error:
        return x * len(str(error))


def generator_sum(x: torch.Tensor) -> torch.Tensor:
    return sum(part for part in (x, x * 2, x.relu()))


def sorted_by_key(x: torch.Tensor) -> torch.Tensor:
    for factor in sorted([3, 1, 2], key=lambda each: -each):
        x = x * 0.5 + factor
    return x


def keyword_defaults(x: torch.Tensor) -> torch.Tensor:
    def inner(a: torch.Tensor, *more: int, b: int = 2, **options: int) -> torch.Tensor:
        return a * b + len(more) + options.get("c", 0)

    return inner(x, 1, 2, c=3)


def string_formatted(x: torch.Tensor) -> torch.Tensor:
    name = f"{x.dim()}:{x.shape[-1] if x.dim() else 0}"
    return x + len(name)


def scalar_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    return x * (1 if float(x.detach().sum()) > 0 else -1)


def shape_in_numbers(x: torch.Tensor) -> torch.Tensor:
    return x * (sum(x.shape) % 7) + x.stride(-1) if x.dim() else x
