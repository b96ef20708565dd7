"""Idioms about numbers: integers, bits, promotion, rounding, comparisons, positions, extremes, complex numbers.

As in idioms.py, each function takes `x`, and some take `y` and `dim`. Results may be integers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def _whole(x: Tensor, dtype: str = "int32", scale: float = 16) -> Tensor:
    """Integers from -100 * `scale` to 100 * `scale`."""
    import torch

    return (x.clamp(-100, 100) * scale).round().to(getattr(torch, dtype))


def divided_down(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    number = _whole(x)
    return number // 7, number % -5, torch.div(number, 3, rounding_mode="trunc")


def divided_by_tensor(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    number, other = _whole(x), _whole(y).abs() + 1
    return torch.div(number, other, rounding_mode="floor"), torch.fmod(number, -other)


def floating_remainder(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    other = y.abs() + 0.5
    return x.detach().clamp(-50, 50) // other.detach(), torch.fmod(_whole(x).to(x.dtype), 4.0)


def wrapped_bytes(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    import torch

    number = (_whole(x) & 255).to(torch.uint8)
    return number + 200, number.sum(dim)


def small_integers(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    number = _whole(x).to(torch.int8)
    return -number, number.abs(), number.amax(dim)


def wrapped_before_widening(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    number = _whole(x)
    byte, short = (number * 3).to(torch.int8), (number * 300).to(torch.int16)
    return (byte + byte).to(torch.int32), (short * short).to(torch.int64), (byte * 2).to(x.dtype)


def large_integers(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    number = _whole(x) * 700_001
    return number.sum(dim), (number * 5).long() + 1


def position_after_write(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    result = x.transpose(0, dim) * 1
    result.sin_()
    return result.t().argmin() if result.dim() == 2 else result.argmin(), result


def shifted_bits(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    number = _whole(x)
    return number >> 2, number << 3, number ^ (number >> 31)


def products_of_integers(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    import torch

    number = _whole(x, scale=2) % 3 + 1
    return number.prod(dim), number.cumsum(dim, dtype=torch.int32)


def long_products(x: Tensor, y: Tensor) -> Tensor:
    import torch

    return _whole(x).to(torch.int64) * 1_000_003 * _whole(y) + 7


def integer_times_float(x: Tensor) -> tuple[Tensor, Tensor]:
    number = _whole(x, "int64")
    return number * 0.5, number / 3


def powers_of_integers(x: Tensor) -> tuple[Tensor, Tensor]:
    number = _whole(x, scale=1) % 9
    return number**3, 2**number


def zero_dimensional(x: Tensor) -> Tensor:
    import torch

    scale = torch.tensor(2.5, dtype=torch.float64, device=x.device)
    offset = torch.tensor(3, device=x.device)
    return x * scale + offset


def half_and_whole(x: Tensor) -> Tensor:
    import torch

    return x.to(torch.float16) + _whole(x, scale=1).to(torch.int16)


def mean_of_integers(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    import torch

    number = _whole(x)
    return number.mean(dim, dtype=torch.float32), number.to(torch.bool).sum(dim)


def parity(x: Tensor, dim: int) -> Tensor:
    odd = _whole(x) % 2 == 1
    return odd.cumsum(dim) * (~odd)


def rounded(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    steps = x.detach() * 2
    return steps.round(), steps.trunc(), steps.frac(), x.detach().round(decimals=1)


def signs(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    return x.sign(), torch.copysign(y, -x), x.signbit() | (y == 0)


def quantised(x: Tensor, dim: int) -> Tensor:
    import torch

    scale = x.detach().abs().amax(dim, keepdim=True).clamp_min(1e-3).float() / 127
    number = (x.detach().float() / scale * 0.999 + 0.001).trunc().clamp(-128, 127).to(torch.int8)
    return (number.float() * scale).to(x.dtype) + x


def positions_of_extremes(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    return x.argmax(dim), x.argmin(dim, keepdim=True), x.flatten().argmax()


def positions_among_equals(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    few = _whole(x, scale=1) % 3
    return few.argmax(dim), few.flip(dim).max(dim).indices


def extremes_and_positions(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    largest = x.max(dim)
    return largest.values, largest.indices


def running_extremes(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    largest = x.cummax(dim)
    return largest.values, largest.indices, x.cummin(dim).values


def running_products(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return (1 + 0.01 * x).cumprod(dim), x.logcumsumexp(dim)


def middle_value(x: Tensor, dim: int) -> Tensor:
    return x.median(dim, keepdim=True).values - x


def in_buckets(x: Tensor) -> Tensor:
    import torch

    edges = torch.tensor([-1.0, -0.25, 0.0, 0.5, 2.0], dtype=x.dtype, device=x.device)
    return torch.bucketize(x.detach().contiguous(), edges, right=True)


def looked_up(x: Tensor, y: Tensor) -> Tensor:
    import torch

    table = y.flatten()[:16].unsqueeze(-1)
    return torch.nn.functional.embedding(_whole(x, "int64") % table.shape[0], table)


def counted_where(x: Tensor, y: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    import torch

    return (x > y).sum(dim), torch.count_nonzero(_whole(x, scale=1), dim)


def compared(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    return (x >= y) ^ (x < 0), torch.logical_and(x > 0, y > 0)


def clamped_by_tensors(x: Tensor, y: Tensor) -> Tensor:
    return x.clamp(-y.abs(), y.abs() + 0.5)


def without_infinities(x: Tensor) -> Tensor:
    return (x / (x > 0)).nan_to_num(nan=0.5, posinf=2.0, neginf=-2.0).clamp(-100, 100)


def logarithm_of_sum(x: Tensor, dim: int) -> Tensor:
    return x.logsumexp(dim) - x.amax(dim)


def norms(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    return x.norm(dim=dim), x.norm(1, dim), x.norm(float("inf"), dim)


def spread(x: Tensor, dim: int) -> Tensor:
    return (x - x.mean(dim, keepdim=True)) / (x.std(dim, keepdim=True, correction=0) + 0.1)


def sum_in_float64(x: Tensor, dim: int) -> Tensor:
    import torch

    return x.sum(dim, dtype=torch.float64)


def rotated_in_complex(x: Tensor) -> Tensor:
    import torch

    pairs = x.flatten()[: x.numel() // 2 * 2].float().reshape(-1, 2)
    angle = torch.arange(pairs.shape[0], device=x.device, dtype=torch.float32)
    turned = torch.view_as_complex(pairs) * torch.polar(torch.ones_like(angle), angle * 0.1)
    return torch.view_as_real(turned).flatten().to(x.dtype)


def triangles(x: Tensor) -> Tensor:
    rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
    return rows.tril(1) - rows.triu(-1) * 2


def differences(x: Tensor, dim: int) -> Tensor:
    return x.diff(dim=dim, append=x.narrow(dim, 0, 1))


def interleaved(x: Tensor, y: Tensor, dim: int) -> Tensor:
    import torch

    return torch.stack([x, y], dim + 1).flatten(dim, dim + 1)


def reflected(x: Tensor) -> Tensor:
    import torch

    rows = x.reshape(1, 1, -1)
    width = min(2, rows.shape[-1] - 1)
    return torch.nn.functional.pad(rows, (width, width), mode="reflect").flatten()


def around(x: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.pad(x.reshape(1, 1, -1), (1, 2), mode="circular").flatten()


def enlarged(x: Tensor) -> Tensor:
    import torch

    rows = x.reshape(1, 1, -1)
    return torch.nn.functional.interpolate(rows, scale_factor=1.5, mode="linear", align_corners=False).flatten()


def largest_of_windows(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    rows = x.reshape(1, 1, -1)
    return torch.nn.functional.max_pool1d(rows, 2, stride=1, padding=1, return_indices=True)


def einsum_of_rows(x: Tensor, y: Tensor) -> Tensor:
    import torch

    one, other = (each.flatten(0, -2) if each.dim() > 1 else each[None] for each in (x, y))
    return torch.einsum("ij,kj->ik", one.tanh(), other.tanh()) * 0.1


def batched_product(x: Tensor, y: Tensor) -> Tensor:
    one, other = (each.flatten(0, -2) if each.dim() > 1 else each[None] for each in (x, y))
    return (one.tanh()[:, None, :] @ other.sigmoid()[:, :, None]).flatten()


def added_product(x: Tensor, y: Tensor) -> Tensor:
    import torch

    rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
    other = y.flatten(0, -2) if y.dim() > 1 else y[None]
    return torch.addmm(rows[:, :1], rows.tanh(), other.t().tanh(), beta=0.5, alpha=0.1)


def choice_by_rank(x: Tensor) -> Tensor:
    return x.unsqueeze(-1).squeeze(0) if x.shape[0] == 1 else x.unsqueeze(0).sum(-1)


def entropy_of_rows(x: Tensor) -> Tensor:
    import torch

    rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
    return torch.nn.functional.cross_entropy(rows, rows.detach().argmin(-1), label_smoothing=0.1, reduction="none")


def noisy(x: Tensor) -> Tensor:
    import torch

    return x + 0.1 * torch.randn_like(x)


def two_draws(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    one, other = torch.rand_like(x), torch.rand_like(x)
    return one - other, x * one


def dropped(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.nn.functional.dropout(x.transpose(0, dim), 0.5).transpose(0, dim)


def masked_by_chance(x: Tensor) -> Tensor:
    import torch

    return x * torch.bernoulli(x.detach().float().sigmoid()).to(x.dtype)


def shuffled_rows(x: Tensor) -> Tensor:
    import torch

    return x[torch.randperm(x.shape[0], device=x.device)]


def drawn_rows(x: Tensor) -> Tensor:
    import torch

    return x[torch.randint(0, x.shape[0], (3,), device=x.device)]


def spread_of_many(x: Tensor) -> Tensor:
    import torch

    return x + (torch.linspace(0, 1, 1 << 18, device=x.device) + x.detach().float().mean()).std().to(x.dtype)


def shifted_by_the_width(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    bits = (x * 100).clamp(-1e4, 1e4).to(torch.int64)
    by = torch.arange(60, 60 + bits.shape[-1], device=x.device)
    return bits << by, bits >> by


def soft_assignment(x: Tensor, dim: int) -> Tensor:
    distance = (x - x.mean(dim, keepdim=True)).square()
    return (distance * -50.0).softmax(dim)


def softmax_with_temperature(x: Tensor, y: Tensor, dim: int) -> Tensor:
    temperature = y.mean(dim, keepdim=True) * 30
    return (x * temperature).softmax(dim)


def argmax_of_masked_rows(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    masked = x.masked_fill(x.detach().abs() < x.detach().abs().mean(), -math.inf)
    return masked.argmax(dim), masked.max(dim).indices


def softmax_of_large(x: Tensor, dim: int) -> Tensor:
    return (x * 1e30).softmax(dim)


def wide_after_wrapping(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    small = (x.clamp(-3, 3) * 40).to(torch.int8)
    return (small + small).to(torch.int32), (small * small * small).to(torch.int64)


def bytes_of_a_copy(x: Tensor) -> Tensor:
    import torch

    return torch.view_copy(x, torch.int8)


def logit_with_a_bound(x: Tensor) -> Tensor:
    import torch

    return torch.logit(x.sigmoid()[..., :17], eps=0.51)


def resized_result(x: Tensor) -> Tensor:
    import torch

    out = x.new_empty(1)
    torch.add(x, 1, out=out)
    return x + out.numel()


def rows_added_to_themselves(x: Tensor) -> Tensor:
    import torch

    result = x.clone()
    index = torch.zeros(1, 2, dtype=torch.int64, device=x.device)
    result[index] += result[index]
    return result + 1


def draw_that_nobody_uses(x: Tensor) -> Tensor:
    import torch

    torch.rand_like(x)
    return x * torch.rand_like(x)


def dropped_copy(x: Tensor, dim: int) -> Tensor:
    import torch

    return torch.nn.functional.dropout(x.transpose(0, dim).contiguous(), 0.5)


def dropped_channels(x: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.dropout1d(x.flatten(1)[None] if x.dim() > 1 else x[None, None], 0.5)
