"""Whether a real GPU still works after an item, and its memory."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from conformance.errors import first_line


@dataclass(frozen=True)
class DeviceState:
    """`error`: what the device reports after the item; "" for nothing. `is_broken`: it reports errors from now on."""

    error: str = ""
    is_broken: bool = False


def device_state(device: str) -> DeviceState:
    """Waits for the device, so that an error of an asynchronous kernel belongs to the item that started it.

    A failed assertion or an illegal address breaks the process's context: each later call fails with the same error.
    """
    error = _synchronize(device)
    return DeviceState(error, bool(error and _synchronize(device)))


def _synchronize(device: str) -> str:
    import torch

    try:
        getattr(torch, device).synchronize()
    except RuntimeError as error:  # torch.AcceleratorError is a RuntimeError too
        return first_line(error) or type(error).__name__
    return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the host or of a device; also where torch has wrapped such an error."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    inner = error.__cause__ or error.__context__
    return inner is not None and is_out_of_memory(inner)


def release_memory(device: str) -> None:
    """Returns the memory that torch keeps for later, so that the next item has it."""
    gc.collect()
    if device != "cpu":
        import torch

        getattr(torch, device).empty_cache()
