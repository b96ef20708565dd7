"""Our operators. Here PyTorch computes them; in an engine they are kernels in CUDA C++, and calls of NCCL."""

import torch


@torch.library.custom_op("engine::add_rms_norm", mutates_args=())
def add_rms_norm(
    hidden: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of `hidden + residual`, and that sum. In one pass over memory."""
    total = hidden + residual
    wide = total.float()
    norm = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return norm.to(total.dtype) * weight, total


@add_rms_norm.register_fake
def _(hidden, residual, weight, eps):  # noqa: ARG001 - the signature is the operator's
    return torch.empty_like(hidden), torch.empty_like(hidden)


@torch.library.custom_op("engine::all_reduce", mutates_args=())
def all_reduce(partial: torch.Tensor) -> torch.Tensor:
    """The sum over all devices of a tensor-parallel group. This group has one."""
    return partial.clone()


@all_reduce.register_fake
def _(partial):
    return torch.empty_like(partial)
