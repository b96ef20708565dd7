"""A gate as an operator in C++: where its source is, and its autograd formula."""

from __future__ import annotations

from pathlib import Path

import torch

#: What an extension of the package is built from. A wheel would hold the library instead.
SOURCE = (Path(__file__).parent / "csrc" / "gates.cpp").read_text(encoding="utf-8")


def _keep(ctx, inputs, output):  # noqa: ARG001 # torch passes it
    ctx.save_for_backward(*inputs)


def _backward(ctx, gradient):
    x, gate = ctx.saved_tensors
    share = torch.sigmoid(gate)
    return gradient * share, gradient * x * share * (1 - share)


def register_formula() -> None:
    """Call it when the library is loaded: before, torch does not know the operator."""
    torch.library.register_autograd("gates::gated", _backward, setup_context=_keep)
