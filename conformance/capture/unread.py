"""Patches that leave out what nobody reads: torch computes it in each compile, for a log, a trace or a cache.

It is 4 % of an item's time. No patch changes a graph or generated code: without them, a capture gives the same.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from conformance.capture.patching.patch import Patch

#: With one of these variables, the user reads torch's logs or its trace.
_READERS = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG")
#: Functions that return options as JSON, and the first release that has each. They may return None as well.
_OPTIONS = {
    "_scrubbed_inductor_config_for_logging": "",
    "_functorch_config_for_logging": "2.13",
    "_get_dynamo_config_for_logging": "",
}


def patches(*, explore: bool) -> list[Patch]:
    """The patches; fewer if somebody reads torch's logs or its trace. `explore`: the capture records torch's logs."""
    repro = Patch(
        "torch._dynamo.repro.after_aot:save_graph_repro",
        lambda _: lambda *args, **kwargs: None,
        "it writes a script for each graph into torch's trace, even without a trace",
        optional=True,
    )
    if explore or any(name in os.environ for name in _READERS):
        return [] if "TORCH_TRACE" in os.environ else [repro]
    stages = "torch._functorch._aot_autograd.graph_compile"
    return [
        repro,
        *(
            Patch(
                f"torch._dynamo.utils:{name}",
                lambda _: lambda: None,
                "after each compile, it serialises all options of torch for a log that is off",
                optional=True,
                since=since,
            )
            for name, since in _OPTIONS.items()
        ),
        Patch(
            "torch.fx.graph_module:GraphModule.print_readable",
            _print_readable,
            "Inductor prints each graph for the entry of its cache, which captures switch off",
            optional=True,
        ),
        Patch(
            f"{stages}:_log_joint_graph",
            lambda _: lambda *args, **kwargs: None,
            "it prints the joint graph for the entry of AOTAutograd's cache, which captures switch off",
            optional=True,
        ),
        Patch(
            f"{stages}:_log_fw_bw_graphs",
            lambda _: lambda *args, **kwargs: (None, None),
            "the same for the graphs of forward and backward",
            optional=True,
        ),
        Patch(
            "torch._decomp.decompositions_for_rng:PhiloxState.reset",
            _reset,
            "it makes six fake tensors for each compile, which only functionalize_rng_ops reads",
            optional=True,
        ),
        Patch(
            "torch.fx.graph:CodeGen._call_method_with_signature_check",
            lambda _: _call_method_with_signature_check,
            "it inspects the signature of the same few methods for each graph",
            optional=True,
        ),
    ]


def _print_readable(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def print_readable(self: Any, *args: Any, **kwargs: Any) -> str:
        if kwargs.get("fast_sympy_print"):  # Inductor says so for the cache's text alone
            return ""
        return original(self, *args, **kwargs)

    return print_readable


def _reset(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reset(self: Any) -> None:
        from torch._functorch import config

        if config.functionalize_rng_ops:
            original(self)
        else:
            self.relative_offset = 0
            self.offset_advanced_at_least_once = False

    return reset


def _call_method_with_signature_check(_self: Any, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    names = _parameters(getattr(method, "__func__", method))
    return method(*args, **{name: value for name, value in kwargs.items() if name in names})


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters. There are a few functions, and they live as long as torch."""
    return frozenset(inspect.signature(function).parameters)
