"""Optimizers with `capturable=True`, on the CPU as well, where the float64 results of cases for a GPU are computed.

torch.optim refuses them there, although they compute the same: on the CPU there is nothing to capture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from conformance.capture.patching.patch import Patch


def _with_cpu(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @functools.wraps(original)
    def supported_devices(*args: object, **kwargs: object) -> list[str]:
        return [*original(*args, **kwargs), "cpu"]

    return supported_devices


#: The modules of torch.optim that ask which devices can capture.
_MODULES = ("adadelta", "adam", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop")

PATCHES = [
    Patch(
        f"torch.optim.{module}:_get_capturable_supported_devices",
        _with_cpu,
        "the float64 result of a case for a GPU is computed on the CPU, with the same options",
        optional=True,
    )
    for module in _MODULES
]
