"""The patterns of a capture: those of its device type, whatever the process compiled before.

Inductor registers its patterns once per process, for the first device that it compiles for. Here it registers those of
the CPU, which all devices have. Since torch 2.13, CUDA has further ones (exponents of MX formats, e8m0), and which GPU
it is decides what they are replaced with. So a capture for CUDA registers both replacements, and each is used only for
a GPU that it is for. The question which GPU it is counts as asked only for a graph that has such a pattern. Before
2.13, torch has them for sm100 alone, and registers them for the device "cuda" but not for "cuda:0": no graph gets them.

Private parts of torch: torch/_inductor/fx_passes/misc_patterns.py registers its patterns
with its names `register_replacement` and, since 2.13, `is_nvidia_sm100_or_later`; `pass_patterns` of post_grad.py keep
them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

from conformance.capture.patching.patch import Patch
from conformance.devices.environment import torch_build

_MISC = "torch._inductor.fx_passes.misc_patterns"


def patch(device: str) -> Patch:
    """The patch for a capture on a device type, such as "cpu"."""
    return Patch(
        "torch._inductor.fx_passes.joint_graph:lazy_init",
        functools.partial(_initialising, of_cuda=device == "cuda" and torch_build().release >= (2, 13)),
        "it registers patterns once per process, for the first device that is compiled for",
    )


def _initialising(original: Callable[..., None], *, of_cuda: bool) -> Callable[..., None]:
    def initialise(_device: Any = None) -> None:
        import torch

        original(torch.device("cpu"))
        if of_cuda:
            _register_those_of_cuda_alone()

    return initialise


@functools.cache
def _register_those_of_cuda_alone() -> None:
    import torch
    from torch._inductor import utils
    from torch._inductor.fx_passes import misc_patterns, post_grad
    from torch._subclasses import FakeTensorMode

    register = misc_patterns.register_replacement
    initialise = inspect.unwrap(misc_patterns._misc_patterns_init)
    of_all: set[str] = set()

    def note(searched: Callable[..., Any], *_: Any, **__: Any) -> None:
        of_all.add(searched.__name__)

    def register_for(newer: bool, searched: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if searched.__name__ in of_all:
            return
        check = kwargs.pop("extra_check")

        def is_for(match: Any) -> bool:
            return check(match) and utils.is_nvidia_sm100_or_later() == newer

        with contextlib.ExitStack() as stack:
            for each in post_grad.pass_patterns:  # else the other replacement of a pattern counts as a duplicate
                stack.enter_context(mock.patch.object(each, "seen_patterns", defaultdict(list)))
            register(searched, *args, extra_check=is_for, **kwargs)

    with torch._guards.tracing(None), FakeTensorMode():  # as Inductor registers them
        with mock.patch(f"{_MISC}.register_replacement", note):
            initialise(torch.device("cpu"))
        for newer in (False, True):
            with (
                mock.patch(f"{_MISC}.register_replacement", functools.partial(register_for, newer)),
                mock.patch(f"{_MISC}.is_nvidia_sm100_or_later", lambda newer=newer: newer),
            ):
                initialise(torch.device("cuda", 0))
