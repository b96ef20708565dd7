"""A case of a function and of arguments that exist already: nothing declares how to make them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.capture import call_modes
from conformance.cases.case import Case, CaseError
from conformance.containers import copy_to, is_module, leaves_of


@dataclass(frozen=True, eq=False)
class GivenCase(Case):
    """`given`: the arguments of `fn` by name. `with_gradients`: tensors require a gradient where the given ones do."""

    given: Mapping[str, Any] = field(default_factory=dict)
    with_gradients: bool = False

    def build(self, call: int = 0) -> dict[str, Any]:  # noqa: ARG002 - each call has the same values
        """Copies of the arguments, on the CPU. Raises ModuleCopyError for a module that cannot be copied."""
        made = copy_to(dict(self.given), "cpu")
        if not self.with_gradients:
            for _, leaf in leaves_of(made):
                if getattr(leaf, "requires_grad", False):
                    leaf.requires_grad_(False)
        return made


def given_case(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    *,
    config: Mapping[str, Any],
    dynamic: bool,
    grad: bool,
    mode: str,
) -> GivenCase:
    """The case of `function(*inputs, **named)`. `function`: a function or a torch.nn.Module.

    Raises CaseError for an unknown mode, and for what cannot be called.
    """
    if not callable(function):
        raise CaseError(f"{function!r} cannot be called; give a function, or a torch.nn.Module")
    if mode not in call_modes.MODES:
        raise CaseError(f"mode is {mode!r}; it must be one of {', '.join(call_modes.MODES)}")
    given = _by_name(function, inputs, named)
    fn = function
    if given is None:
        given, fn = {"inputs": list(inputs), "named": dict(named)}, _caller(function)
    if is_module(function):
        given, fn = {"module": function, "inputs": list(inputs), "named": dict(named)}, _call_module
    source = function if inspect.isroutine(function) else type(function)
    try:
        file = inspect.getsourcefile(inspect.unwrap(source)) or "unknown"
    except TypeError:
        file = "unknown"  # written in C
    return GivenCase(
        operator="contract",
        name=getattr(function, "__name__", type(function).__name__),
        labels=(),
        fn=fn,
        file=Path(file),
        arguments={},
        dynamic=dynamic,
        config=dict(config),
        mode=mode,
        given=given,
        with_gradients=grad,
    )


def _by_name(function: Callable[..., Any], inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by the names of the parameters; None if some have no name, so that the function needs a wrapper.

    A wrapper is another function for Dynamo: it would count a graph break in the function twice.
    """
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*inputs, **named)
    except (TypeError, ValueError):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not inspect.isroutine(function) or any(
        signature.parameters[name].kind not in by_name for name in bound.arguments
    ):
        return None
    return dict(bound.arguments)


def _caller(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(inputs: list[Any], named: dict[str, Any]) -> Any:
        return function(*inputs, **named)

    return call


def _call_module(module: Any, inputs: list[Any], named: dict[str, Any]) -> Any:
    """The module is an input, because its parameters must be on the device."""
    return module(*inputs, **named)
