"""A gate as a Triton kernel. Inductor sees the kernel, because `triton_op` and `wrap_triton` show it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

BLOCK = 128


@triton.jit
def swiglu_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):  # noqa: N803 # Triton writes constants so
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x, y = tl.load(x_ptr + place, inside), tl.load(y_ptr + place, inside)
    tl.store(out_ptr + place, x / (1 + tl.exp(-x)) * y, inside)


@triton_op("gates::swiglu", mutates_args=())
def swiglu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """X · sigmoid(x) · y, for contiguous tensors of one shape."""
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    wrap_triton(swiglu_kernel)[grid](x, y, out, x.numel(), BLOCK=BLOCK)
    return out


def _keep(ctx, inputs, output):  # noqa: ARG001 # torch passes it
    ctx.save_for_backward(*inputs)


def _backward(ctx, gradient):
    x, y = ctx.saved_tensors
    gate = torch.sigmoid(x)
    return gradient * y * gate * (1 + x * (1 - gate)), gradient * x * gate


swiglu.register_autograd(_backward, setup_context=_keep)
