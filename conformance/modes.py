"""Modes of a case: what surrounds the call of a function, eager and compiled alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

#: Values of @case(mode=...). "autocast": to bfloat16 on cpu and xpu, float16 on cuda, as torch.autocast has it.
MODES = ("plain", "no_grad", "inference", "autocast")


@contextlib.contextmanager
def entered(mode: str, device: str) -> Iterator[None]:
    """Surrounds a call with `mode` on a device of this type (`cuda:0` will do)."""
    import torch

    surroundings = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast(torch.device(device).type),
    }
    with surroundings.get(mode, contextlib.nullcontext)():
        yield
