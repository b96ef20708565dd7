"""Runs Metal kernels on the CPU: torch compiles them with the shim in place of Apple's compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from conformance_metal.shader import Library


@contextlib.contextmanager
def emulating() -> Iterator[None]:
    """Inside, torch.mps.compile_shader builds Metal source for the CPU."""
    import torch

    with mock.patch.object(torch.mps, "compile_shader", Library):
        yield
