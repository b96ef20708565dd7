"""What people write between two operators: reductions beside pointwise, views that are written to, casts, indexing.

Each function takes `x`, a floating tensor with one dimension or more. Some take `y`, a tensor of the same shape and
dtype, or `dim`, a dimension of both. IDIOMS has them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conformance.fuzzer import idioms_of_memory, idioms_of_numbers

if TYPE_CHECKING:
    from torch import Tensor


def softmax_by_hand(x: Tensor, dim: int) -> Tensor:
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def layer_norm_by_hand(x: Tensor, dim: int) -> Tensor:
    centred = x - x.mean(dim, keepdim=True)
    return centred * (centred.square().mean(dim, keepdim=True) + 1e-5).rsqrt()


def rms_norm_in_float32(x: Tensor, dim: int) -> Tensor:
    wide = x.float()
    return (wide * (wide.square().mean(dim, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)


def gelu_by_hand(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())


def gate(x: Tensor, y: Tensor) -> Tensor:
    return x * y.sigmoid() + y


def swiglu(x: Tensor, dim: int) -> Tensor:
    import torch

    one, other = x.repeat_interleave(2, dim).chunk(2, dim)
    return torch.nn.functional.silu(one) * other


def scaled_by_largest(x: Tensor, dim: int) -> Tensor:
    return x / x.abs().amax(dim, keepdim=True).clamp_min(1e-3)


def statistics_beside(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.cat([x.sum(dim, keepdim=True), x.amax(dim, keepdim=True), x.mean(dim, keepdim=True), x], dim)


def variance_and_mean(x: Tensor, dim: int) -> Tensor:
    import torch

    variance, mean = torch.var_mean(x, dim, correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-3).sqrt() + mean


def stacked(x: Tensor, y: Tensor, dim: int) -> Tensor:
    import torch

    return torch.stack([x, y, x + y], dim).sum(dim)


def halves_exchanged(x: Tensor, dim: int) -> Tensor:
    import torch

    half = x.shape[dim] // 2
    return torch.cat([x.narrow(dim, half, x.shape[dim] - half), -x.narrow(dim, 0, half)], dim)


def rotated(x: Tensor, dim: int) -> Tensor:
    return x.roll(1, dim) + x.flip(dim)


def every_second_doubled(x: Tensor, dim: int) -> Tensor:
    result = x.clone()
    result.transpose(0, dim)[::2].mul_(2.0)
    return result


def row_overwritten(x: Tensor, dim: int) -> Tensor:
    result = x * 1.5
    result.select(dim, -1).copy_(result.select(dim, 0))
    return result


def written_in_place(x: Tensor) -> Tensor:
    x.mul_(0.5).add_(0.25)
    return x + 1


def view_read_after_write(x: Tensor) -> Tensor:
    result = x + 0.5
    view = result.flatten()
    result.add_(view.mean())
    return result * view.view_as(result)


def masked_assignment(x: Tensor) -> Tensor:
    result = x.clone()
    result[x < 0] = 0.125
    return result


def filled_where(x: Tensor) -> Tensor:
    return x.masked_fill(x > x.mean(), -1.0)


def where_of_branches(x: Tensor, y: Tensor) -> Tensor:
    import torch

    return torch.where(x > y, x.exp().clamp_max(4.0), y - x)


def transposed_sum(x: Tensor, dim: int) -> Tensor:
    return (x.transpose(0, dim).contiguous() + 1).transpose(0, dim) - x


def permuted_view(x: Tensor) -> Tensor:
    order = [*range(1, x.dim()), 0]
    return x.permute(order).relu().permute([x.dim() - 1, *range(x.dim() - 1)])


def grouped_mean(x: Tensor) -> Tensor:
    flat = x.flatten()
    size = flat.shape[0] // 2 * 2
    pairs = flat[:size].view(-1, 2)
    return pairs - pairs.mean(1, keepdim=True)


def gram(x: Tensor, dim: int) -> Tensor:
    rows = x.transpose(dim, -1).flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)
    return (rows.t() @ rows * 0.01).relu()


def product_with_epilogue(x: Tensor, y: Tensor) -> Tensor:
    one, other = x.flatten(0, -2) if x.dim() > 1 else x[None], y.flatten(0, -2) if y.dim() > 1 else y[None]
    return ((one.tanh() @ other.t()) * 0.1 + 1).sigmoid()


def attention_by_hand(x: Tensor, y: Tensor) -> Tensor:
    query = x.flatten(0, -2) if x.dim() > 1 else x[None]
    key = y.flatten(0, -2) if y.dim() > 1 else y[None]
    scores = query @ key.t() * query.shape[-1] ** -0.5
    return scores.softmax(-1) @ key


def causal_rows(x: Tensor) -> Tensor:
    import torch

    rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
    mask = torch.ones(rows.shape, dtype=torch.bool, device=x.device).tril()
    return rows.masked_fill(~mask, -1e4).logsumexp(-1)


def gathered(x: Tensor, dim: int) -> Tensor:
    return x.gather(dim, x.argsort(dim=dim, stable=True))


def taken_by_index(x: Tensor, dim: int) -> Tensor:
    import torch

    size = x.shape[dim]
    return x.index_select(dim, (torch.arange(size, device=x.device) * 3 + 1) % size)


def scattered(x: Tensor, y: Tensor, dim: int) -> Tensor:
    import torch

    index = torch.arange(x.shape[dim], device=x.device) // 2
    return x.index_add(dim, index, y)


def rows_put(x: Tensor) -> Tensor:
    import torch

    result = x.clone()
    index = torch.arange(0, x.shape[0], 2, device=x.device)
    result[index] = result[index] * 2 - 1
    return result


def sorted_values(x: Tensor, dim: int) -> Tensor:
    values, order = x.sort(dim=dim, stable=True)
    return values + order.to(x.dtype) * 0.01


def largest_ones(x: Tensor, dim: int) -> Tensor:
    return x.topk((x.shape[dim] + 1) // 2, dim).values


def running_sum(x: Tensor, dim: int) -> Tensor:
    return x.cumsum(dim) * 0.1 - x


def one_hot_of_largest(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.nn.functional.one_hot(x.argmax(dim), x.shape[dim]).to(x.dtype)


def padded(x: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.pad(x, (1, 2), value=0.5)


def strided_slice(x: Tensor) -> Tensor:
    return x[..., ::2].contiguous() - 0.5


def expanded_back(x: Tensor, dim: int) -> Tensor:
    return x.mean(dim, keepdim=True).expand_as(x).contiguous() * x


def through_bfloat16(x: Tensor) -> Tensor:
    import torch

    return x.to(torch.bfloat16).to(x.dtype)


def computed_in_float64(x: Tensor, dim: int) -> Tensor:
    return x.double().sin().sum(dim, keepdim=True).to(x.dtype) + x


def through_integers(x: Tensor) -> Tensor:
    import torch

    whole = (x.clamp(-100, 100) * 16).to(torch.int32)
    return (whole // 3 + whole % 5).to(x.dtype) / 16


def bits_of_bytes(x: Tensor) -> Tensor:
    import torch

    whole = (x.clamp(0, 1) * 255).to(torch.uint8)
    return ((whole << 1) ^ (whole >> 3)).to(x.dtype) / 255


def counted(x: Tensor, dim: int) -> Tensor:
    return (x > 0).sum(dim, keepdim=True) * x


def booleans_reduced(x: Tensor, dim: int) -> Tensor:
    return (x > 0.5).any(dim, keepdim=True).to(x.dtype) - (x > -2).all(dim, keepdim=True).to(x.dtype) + x


def more_where_wide(x: Tensor, dim: int) -> Tensor:
    return x.softmax(dim) if x.shape[dim] > 8 else x.sigmoid()


def scaled_by_size(x: Tensor, dim: int) -> Tensor:
    return x * x.shape[dim] ** -0.5 + x.numel() % 7


def outer_sum(x: Tensor) -> Tensor:
    one = x.flatten()[:40]
    return one[:, None] + one[None, :] * 0.5


def pooled(x: Tensor) -> Tensor:
    import torch

    rows = x.reshape(1, 1, -1)
    return torch.nn.functional.avg_pool1d(torch.nn.functional.pad(rows, (1, 1)), 3, stride=1).view_as(x)


def windows(x: Tensor, dim: int) -> Tensor:
    return x.unfold(dim, min(3, x.shape[dim]), 1).amax(-1)


def detached_branch(x: Tensor) -> Tensor:
    return x - (x.detach() - x.detach().mean()).relu()


def two_steps_of_sgd(x: Tensor, y: Tensor) -> Tensor:
    momentum = y * 0.9 + x
    weight = x - 0.1 * momentum
    momentum = momentum * 0.9 + weight
    return weight - 0.1 * momentum


def _functions_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of a module that are idioms: helpers begin with an underscore."""
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return {name: value for name, value in own.items() if not name.startswith("_")}


#: Name → function.
IDIOMS: dict[str, Callable[..., Any]] = {
    name: function
    for module in (sys.modules[__name__], idioms_of_memory, idioms_of_numbers)
    for name, function in _functions_of(module).items()
}
