"""Modes of a case: what surrounds the call of a function, eager and compiled alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

#: Values of @case(mode=...). "autocast": to bfloat16 on cpu and xpu, float16 on cuda, as torch.autocast has it.
MODES = ("plain", "no_grad", "inference", "autocast")


@contextlib.contextmanager
def enter_mode(mode: str, device: str) -> Iterator[None]:
    """Surrounds a call with `mode` on a device of this type (`cuda:0` will do)."""
    import torch

    surroundings = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast(torch.device(device).type),
    }
    with surroundings.get(mode, contextlib.nullcontext)():
        yield


@contextlib.contextmanager
def without_tf32(device: str) -> Iterator[None]:
    """On cuda, convolutions of float32 without TF32, as products are; nothing elsewhere.

    By default cuDNN may round float32 to the 10 bits of TF32. It does so or not by an input's layout, which Inductor
    changes, so that eager and compiled would differ by 3e-3 for no fault of either. No guard of Dynamo looks at it.
    """
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32
    cudnn.allow_tf32 = False
    try:
        yield
    finally:
        cudnn.allow_tf32 = before
