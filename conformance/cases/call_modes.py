"""Call modes: the context in which a case's function is called, the same for eager and compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

#: Values of @case(mode=...). "autocast" casts to torch.autocast's default: bfloat16 on cpu and xpu, float16 on cuda.
MODES = ("plain", "no_grad", "inference", "autocast")


@contextlib.contextmanager
def enter_mode(mode: str, device: str) -> Iterator[None]:
    """A context for one call. `mode`: one of MODES; `device`: as torch.device takes it, such as cpu or cuda:0."""
    import torch

    contexts: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast(torch.device(device).type),
    }
    with contexts.get(mode, contextlib.nullcontext)():
        yield


@contextlib.contextmanager
def without_tf32(device: str) -> Iterator[None]:
    """On cuda, float32 convolutions without TF32, as float32 matmuls are by default. No effect on other devices.

    By default cuDNN may round float32 to TF32, which has 10 bits. Whether it does depends on the layout of the input,
    which Inductor changes. So eager and compiled could differ by 3e-3, although both are right. No guard of Dynamo
    depends on this setting.
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
