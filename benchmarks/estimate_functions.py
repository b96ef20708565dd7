"""Functions of realistic size for estimate_order.py: from 1 MB to 500 MB, in float32, bfloat16 and a few others.

The most telling ones come first: where the time is limited, the last ones are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from conformance import case
from conformance.cases.dtypes import dtype_of
from conformance.cases.inputs import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

#: Random values that a large tensor repeats: making each value would take minutes.
_PERIOD = 1_000_003


def _large(*, shape: Sequence[int], dtype: str, layout: str, high: int, generator: torch.Generator) -> torch.Tensor:
    """Normally distributed, or integers below `high`."""
    import torch

    count = math.prod(shape)
    period = min(count, _PERIOD)
    if high:
        values = torch.randint(0, high, (period,), generator=generator)
    else:
        values = torch.randn(period, generator=generator)
    values = values.to(dtype_of(dtype)).repeat(-(-count // period))[:count].view(tuple(shape))
    return values.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else values


def large(*shape: int, dtype: str = "f32", layout: str = "contiguous", high: int = 0) -> Input:
    return Input(_large, {"shape": shape, "dtype": dtype, "layout": layout}, {"high": high})


def indices(*shape: int, high: int) -> Input:
    return large(*shape, dtype="i64", high=high)


@case(x=large(32, 1024, 1024), y=large(32, 1024, 1024))
def test_add(x: Any, y: Any) -> Any:
    return x + y


@case(x=large(8192, 8192))
def test_sum_rows(x: Any) -> Any:
    return x.sum(-1)


@case(x=large(8192, 8192))
def test_sum_columns(x: Any) -> Any:
    return x.sum(0)


@case(x=large(8192, 1024))
def test_softmax_short(x: Any) -> Any:
    return x.softmax(-1)


@case(x=large(4096, 32768, dtype="bf16"))
def test_softmax_long(x: Any) -> Any:
    return x.softmax(-1)


@case(x=large(16384, 1024, dtype="bf16"), w=large(1024, dtype="bf16"), b=large(1024, dtype="bf16"))
def test_layer_norm(x: Any, w: Any, b: Any) -> Any:
    import torch.nn.functional as F

    return F.layer_norm(x, (1024,), w, b)


@case(x=large(8192, 8192))
def test_transpose(x: Any) -> Any:
    return x.t().contiguous()


@case(x=large(100_000, 256), index=indices(65536, high=100_000))
def test_rows_by_index(x: Any, index: Any) -> Any:
    return x[index] * 2


@case(a=large(4096, 4096, dtype="bf16"), b=large(4096, 4096, dtype="bf16"))
def test_mm_middle(a: Any, b: Any) -> Any:
    return a @ b


@case(a=large(1024, 1024, dtype="bf16"), b=large(1024, 1024, dtype="bf16"))
def test_mm_small(a: Any, b: Any) -> Any:
    return a @ b


@case(
    q=large(8, 16, 2048, 64, dtype="bf16"),
    k=large(8, 16, 2048, 64, dtype="bf16"),
    v=large(8, 16, 2048, 64, dtype="bf16"),
)
def test_attention(q: Any, k: Any, v: Any) -> Any:
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q, k, v)


@case(
    x=large(32, 64, 112, 112, dtype="bf16", layout="channels_last"),
    w=large(64, 64, 3, 3, dtype="bf16", layout="channels_last"),
)
def test_conv_3x3(x: Any, w: Any) -> Any:
    import torch.nn.functional as F

    return F.conv2d(x, w, padding=1).relu()


@case(a=large(8, 1024, 1024), b=large(8, 1024, 1024), c=large(8, 1024, 1024), d=large(8, 1024, 1024))
def test_cat(a: Any, b: Any, c: Any, d: Any) -> Any:
    import torch

    return torch.cat([a, b, c, d], 1)


@case(x=large(4096, 16384))
def test_cumsum_rows(x: Any) -> Any:
    return x.cumsum(-1)


@case(table=large(50_000, 1024, dtype="bf16"), tokens=indices(16, 2048, high=50_000))
def test_embedding(table: Any, tokens: Any) -> Any:
    import torch.nn.functional as F

    return F.embedding(tokens, table)


@case(x=large(32, 1024, 1024))
def test_dropout(x: Any) -> Any:
    import torch.nn.functional as F

    return F.dropout(x, 0.1)


@case(x=large(512, 512))
def test_relu_1mb(x: Any) -> Any:
    return x.relu()


@case(x=large(2, 1024, 1024))
def test_exp_8mb(x: Any) -> Any:
    return x.exp() + 1


@case(x=large(64, 1024, 1024, dtype="bf16"))
def test_gelu(x: Any) -> Any:
    import torch.nn.functional as F

    return F.gelu(x)


@case(gate=large(8192, 4096, dtype="bf16"), up=large(8192, 4096, dtype="bf16"))
def test_swiglu(gate: Any, up: Any) -> Any:
    import torch.nn.functional as F

    return F.silu(gate) * up


@case(x=large(16, 1024, 1024))
def test_sin_chain(x: Any) -> Any:
    for _ in range(8):
        x = x.sin()
    return x


@case(x=large(64, 1024, 1024, dtype="bf16"))
def test_sum_all(x: Any) -> Any:
    return x.float().sum()


@case(x=large(1024 * 1024, 64))
def test_mean_of_short_rows(x: Any) -> Any:
    return x.mean(-1)


@case(logits=large(8192, 32000, dtype="bf16"), target=indices(8192, high=32000))
def test_cross_entropy(logits: Any, target: Any) -> Any:
    import torch.nn.functional as F

    return F.cross_entropy(logits.float(), target)


@case(x=large(16384, 4096, dtype="bf16"), residual=large(16384, 4096, dtype="bf16"), w=large(4096, dtype="bf16"))
def test_rms_norm_and_residual(x: Any, residual: Any, w: Any) -> Any:
    total = (x + residual).float()
    return total.to(x.dtype), (total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype) * w


@case(x=large(64, 128, 56, 56))
def test_batch_statistics(x: Any) -> Any:
    var, mean = x.var((0, 2, 3), correction=0, keepdim=True), x.mean((0, 2, 3), keepdim=True)
    return (x - mean) * (var + 1e-5).rsqrt()


@case(x=large(64, 64, 112, 112, dtype="bf16"))
def test_to_channels_last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1).contiguous()


@case(x=large(4096, 4096), y=large(4096, 4096))
def test_add_transposed(x: Any, y: Any) -> Any:
    return x + y.t()


@case(x=large(10_000, 256), index=indices(65536, high=10_000), y=large(65536, 256))
def test_index_add(x: Any, index: Any, y: Any) -> Any:
    return x.index_add(0, index, y)


@case(x=large(1_000_000), index=indices(16_000_000, high=1_000_000), y=large(16_000_000))
def test_scatter_add(x: Any, index: Any, y: Any) -> Any:
    return x.scatter_add(0, index, y)


@case(x=large(4096, 8192), index=indices(4096, 8192, high=8192))
def test_gather(x: Any, index: Any) -> Any:
    return x.gather(1, index)


@case(a=large(8192, 8192, dtype="bf16"), b=large(8192, 8192, dtype="bf16"))
def test_mm_large(a: Any, b: Any) -> Any:
    return a @ b


@case(a=large(2048, 2048), b=large(2048, 2048))
def test_mm_f32(a: Any, b: Any) -> Any:
    return a @ b


@case(a=large(16, 8192, dtype="bf16"), b=large(8192, 8192, dtype="bf16"))
def test_mm_few_rows(a: Any, b: Any) -> Any:
    return a @ b


@case(a=large(256, 512, 64, dtype="f16"), b=large(256, 64, 512, dtype="f16"))
def test_bmm(a: Any, b: Any) -> Any:
    return (a @ b).softmax(-1)


@case(x=large(8192, 1024, dtype="bf16"), w=large(4096, 1024, dtype="bf16"), b=large(4096, dtype="bf16"))
def test_linear_gelu(x: Any, w: Any, b: Any) -> Any:
    import torch.nn.functional as F

    return F.gelu(F.linear(x, w, b))


@case(
    q=large(4, 16, 4096, 128, dtype="bf16"),
    k=large(4, 16, 4096, 128, dtype="bf16"),
    v=large(4, 16, 4096, 128, dtype="bf16"),
)
def test_causal_attention(q: Any, k: Any, v: Any) -> Any:
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@case(x=large(16, 256, 56, 56), w=large(64, 256, 1, 1))
def test_conv_1x1(x: Any, w: Any) -> Any:
    import torch.nn.functional as F

    return F.conv2d(x, w)


@case(x=large(32, 64, 112, 112))
def test_max_pool(x: Any) -> Any:
    import torch.nn.functional as F

    return F.max_pool2d(x, 3, 2, 1)


@case(x=large(8, 16, 2048, 128, dtype="bf16"), cos=large(2048, 128, dtype="bf16"), sin=large(2048, 128, dtype="bf16"))
def test_rotary_embedding(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


@case(p=large(16, 1024, 1024), g=large(16, 1024, 1024), m=large(16, 1024, 1024), v=large(16, 1024, 1024))
def test_adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = m * 0.9 + g * 0.1, v.abs() * 0.999 + g * g * 0.001
    return p - 0.001 * m / (v.sqrt() + 1e-8), m, v


@case(x=large(32, 1024, 1024))
def test_to_bf16(x: Any) -> Any:
    import torch

    return x.to(torch.bfloat16)


@case(x=large(16, 1024, 1024, dtype="i64", high=1000))
def test_integers(x: Any) -> Any:
    return (x * 3 + 1) % 7


@case(x=large(8, 1024, 1024, dtype="f64"))
def test_f64(x: Any) -> Any:
    return x.exp() * x


@case(x=large(8192, 8192))
def test_argmax(x: Any) -> Any:
    return x.argmax(-1)


@case(x=large(8, 64, 112, 112))
def test_upsample(x: Any) -> Any:
    import torch.nn.functional as F

    return F.interpolate(x, scale_factor=2, mode="bilinear")


@case(x=large(65536, 256))
def test_sort_short_rows(x: Any) -> Any:
    return x.sort(-1)


@case(x=large(8192, 2048))
def test_cumsum_columns(x: Any) -> Any:
    return x.cumsum(0)


@case(x=large(1024, 256), w=large(1024, 256), b=large(1024))
def test_linear_1mb(x: Any, w: Any, b: Any) -> Any:
    import torch.nn.functional as F

    return F.linear(x, w, b).relu()
