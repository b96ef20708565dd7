"""Idioms about memory: views that are written to, results that share memory with arguments, copies, steps of training.

As in idioms.py, each function takes `x`, and some take `y` and `dim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def view_and_base(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    base = x + 1
    view = base.transpose(0, dim)
    view.mul_(2)
    return view, base


def argument_and_its_view(x: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    return x.flatten(0, 0)[::2], x.relu()


def copy_before_write(x: Tensor) -> tuple[Tensor, Tensor]:
    before = x.clone()
    x.sub_(x.mean())
    return before, x * 2


def view_of_argument_written(x: Tensor, dim: int) -> Tensor:
    x.select(dim, 0).fill_(0.25)
    return x.sum(dim)


def two_views_written(x: Tensor, dim: int) -> Tensor:
    result = x.clone()
    size = result.shape[dim]
    result.narrow(dim, 0, (size + 1) // 2).add_(1)
    result.narrow(dim, size // 2, size - size // 2).mul_(0.5)
    return result


def rows_exchanged(x: Tensor) -> Tensor:
    result = x.clone()
    result[[0, -1]] = result[[-1, 0]]
    return result


def copied_into_slice(x: Tensor, y: Tensor) -> Tensor:
    result = x.new_zeros((*x.shape, 2))
    result[..., 0].copy_(x)
    result[..., 1] = y
    return result.flatten(-2)


def filled_buffer(x: Tensor, y: Tensor, dim: int) -> Tensor:
    buffer = x.new_empty((2 * x.shape[dim], *x.shape))
    buffer[: x.shape[dim]] = x
    buffer[x.shape[dim] :] = y
    return buffer.mean(0)


def cache_of_keys(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    cache = x.new_zeros((4, *x.shape))
    cache[1] = x
    cache[2:3] = y
    return cache[:3].sum(0), cache


def diagonal_written(x: Tensor) -> Tensor:
    result = x.clone()
    if result.dim() > 1:
        result.diagonal(0, -2, -1).add_(1)
    return result


def accumulated_at(x: Tensor, y: Tensor) -> Tensor:
    import torch

    result = x.clone()
    index = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    result.index_put_((index,), y, accumulate=True)
    return result * 0.1


def scatter_into_slice(x: Tensor, y: Tensor, dim: int) -> Tensor:
    import torch

    result = x.clone()
    half = result.narrow(dim, 0, (x.shape[dim] + 1) // 2)
    index = torch.zeros(half.shape, dtype=torch.int64, device=x.device)
    half.scatter_add_(dim, index, y.narrow(dim, 0, half.shape[dim]))
    return result


def masked_rows(x: Tensor, y: Tensor) -> Tensor:
    import torch

    result = x.clone()
    rows = torch.arange(x.shape[0], device=x.device) % 2 == 0
    result[rows] = y[rows] + 1
    return result


def masked_copy(x: Tensor, y: Tensor) -> Tensor:
    return x.clone().masked_scatter_(x > y, y.flatten())


def same_tensor_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    result = x.sigmoid()
    return result, result.view(-1)


def clone_and_original(x: Tensor) -> tuple[Tensor, Tensor]:
    result = x * 0.5
    other = result.clone()
    other += 1
    return result, other


def contiguous_of_view(x: Tensor, dim: int) -> Tensor:
    copied = x.transpose(0, dim).contiguous()
    copied.add_(1)
    return copied - x.transpose(0, dim)


def strided_by_hand(x: Tensor) -> Tensor:
    flat = (x * 1).flatten()
    count = flat.numel()
    return flat.as_strided((max(count - 2, 1), min(3, count)), (1, 1)).amax(1)


def reversed_parts(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.stack(x.unbind(dim)[::-1], dim)


def uneven_parts(x: Tensor, dim: int) -> Tensor:
    import torch

    size = x.shape[dim]
    parts = x.split([size // 3, size - size // 3], dim)
    return torch.cat([parts[1].exp().clamp_max(3), parts[0], parts[1]], dim)


def parts_written(x: Tensor, dim: int) -> Tensor:
    result = x + 0
    for number, part in enumerate(result.chunk(3, dim)):
        part.add_(number)
    return result


def running_average(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    with torch.no_grad():
        average = y.detach().clone()
        average.lerp_(x.detach(), 0.1)
    return x - average, average


def step_of_adam(x: Tensor, y: Tensor) -> Tensor:
    first, second = x * 0.1, x * x * 0.001
    return y - 1e-2 * (first / 0.1) / ((second / 0.001).sqrt() + 1e-8)


def clipped_gradient(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    norm = (x.square().sum() + y.square().sum()).sqrt()
    scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    return x * scale, y * scale


def loop_of_writes(x: Tensor, dim: int) -> Tensor:
    result = x.clone()
    for row in range(1, min(x.shape[dim], 4)):
        result.select(dim, row).add_(result.select(dim, row - 1), alpha=0.5)
    return result


def added_to_expanded(x: Tensor, dim: int) -> Tensor:
    total = x.sum(dim, keepdim=True).expand_as(x).clone()
    total.narrow(dim, 0, 1).zero_()
    return total + x


def out_argument(x: Tensor, y: Tensor) -> Tensor:
    import torch

    result = torch.empty_like(x)
    with torch.no_grad():
        torch.add(x.detach(), y.detach(), out=result)
        torch.mul(result, 2, out=result)
    return result + x


def zeroed_after_use(x: Tensor) -> tuple[Tensor, Tensor]:
    buffer = x * 3
    kept = buffer + 1
    buffer.zero_()
    return kept, buffer
