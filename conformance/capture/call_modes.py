"""Call modes: the context in which a case's function is called, the same for eager and compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

#: Values of @case(mode=...). "autocast" casts to torch.autocast's default: bfloat16 on cpu and xpu, float16 on cuda.
MODES = ("plain", "no_grad", "inference", "autocast")
#: Those in which nothing has a gradient.
WITHOUT_GRADIENT = ("no_grad", "inference")


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
