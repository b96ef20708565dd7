"""The module `torch.acme`: what PyTorch asks a device's module for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

NAME = "acme"

#: PyTorch's own classes know the device by its C++ guard.
Stream, Event = torch.Stream, torch.Event


@dataclass(frozen=True)
class Properties:
    """What the device says of itself. `total_memory`: bytes."""

    name: str = "Acme stand-in over host memory"
    total_memory: int = 1 << 34
    multi_processor_count: int = 1


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: Any) -> None:
    torch.empty(0, device=torch.device(NAME, device) if isinstance(device, int) else device)  # refuses an unknown one


def get_device_properties(device: Any = None) -> Properties:
    return Properties()


def get_device_name(device: Any = None) -> str:
    return Properties().name


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: a call returns when its work is done."""


def empty_cache() -> None:
    """Nothing to free: no memory is kept for later."""


def current_stream(device: Any = None) -> torch.Stream:
    return torch.Stream(device=torch.device(NAME, 0))


def set_stream(stream: torch.Stream) -> None:
    """There is one stream."""


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    yield


class device:  # noqa: N801 - the name that PyTorch asks for
    """`with torch.acme.device(0):`."""

    def __init__(self, device: Any) -> None:
        set_device(device)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """Nothing to do: random operators draw from the host's generator, which torch.manual_seed has seeded."""


def get_rng_state(device: Any = NAME) -> torch.Tensor:
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = NAME) -> None:
    torch.default_generator.set_state(new_state)
