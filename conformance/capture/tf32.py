"""Float32 convolutions without TF32, for the calls whose numbers are compared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def without_tf32(device: str) -> Iterator[None]:
    """On cuda, float32 convolutions without TF32, as float32 matmuls are by default. No effect on other devices.

    By default cuDNN may round float32 to TF32, which has 10 bits. Whether it does depends on the layout of the input,
    which Inductor changes. So eager and compiled could differ by 3e-3, although both are right. No guard of Dynamo
    depends on this setting.

    Importing PyTorch's own test utilities forbids assignments to such settings in the whole process. PyTorch lifts that
    with a private context. Its public one, cudnn.flags, sets all other settings as well.
    """
    import torch

    if torch.device(device).type != "cuda":
        yield
        return
    cudnn, assignable = torch.backends.cudnn, torch.backends.__allow_nonbracketed_mutation
    before = cudnn.allow_tf32
    with assignable():
        cudnn.allow_tf32 = False
    try:
        yield
    finally:
        with assignable():
            cudnn.allow_tf32 = before
