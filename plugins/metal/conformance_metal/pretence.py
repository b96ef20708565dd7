"""What torch asks a Mac: answered with the properties of a target, on a machine that is none."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock


@contextlib.contextmanager
def pretending(properties: Mapping[str, Any]) -> Iterator[None]:
    """Inside, torch.backends.mps answers as on the target, and Inductor generates Metal for mps.

    Private: functions of torch._C. A build for Linux has some of them, and they say that there is no mps.
    """
    import torch

    cores, macos = properties["cores"], tuple(properties["macos"])
    answers = {
        "_mps_is_available": lambda: True,
        "_mps_is_on_macos_or_newer": lambda major, minor=0: macos >= (major, minor),
        "_mps_get_name": lambda: properties["name"],
        "_mps_get_core_count": lambda: cores,
        "_mps_deviceSynchronize": lambda: None,
        "_mps_get_default_generator": lambda: torch.default_generator,
        "_has_mps": True,
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch._C, name, answer, create=True))
        for function in (torch.backends.mps.is_macos_or_newer, torch.backends.mps.get_core_count):
            function.cache_clear()
            stack.callback(function.cache_clear)
        yield


@functools.cache
def register() -> None:
    """Registers the operator of attention that mps alone has: its definition, computed on the CPU."""
    import torch

    def attention(query: Any, key: Any, value: Any, mask: Any = None, dropout: float = 0.0, *args: Any, **kwargs: Any):
        here = (each.cpu() if isinstance(each, torch.Tensor) else each for each in (query, key, value, mask))
        found = torch.ops.aten._scaled_dot_product_attention_math(*here, dropout, *args, **kwargs)
        return tuple(each.to(query.device) for each in found)

    _libraries.append(torch.library.Library("aten", "IMPL", "MPS"))
    _libraries[-1].impl("_scaled_dot_product_attention_math_for_mps", attention)


#: Registrations last as long as the process.
_libraries: list[Any] = []
