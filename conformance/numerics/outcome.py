"""Records what one call of a function did: outputs, gradients, changed inputs, and which tensors share storage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.cases.inputs import copy_to
from conformance.cases.special_values import unexpanded


@dataclass
class Arguments:
    """The positional and named arguments of a call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def copy_to(self, device: Any, *, widen: bool = False) -> Arguments:
        """Copies on `device`. `widen`: floating dtypes become float64, complex ones complex128."""
        args, kwargs = copy_to((self.args, self.kwargs), device, widen=widen)
        return Arguments(args, kwargs)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors among the arguments, by the names that messages use: "argument 0", "x", "x[1]"."""
        leaves = [(f"argument {i}{path}", leaf) for i, arg in enumerate(self.args) for path, leaf in leaves_of(arg)]
        leaves += [(f"{name}{path}", leaf) for name, arg in self.kwargs.items() for path, leaf in leaves_of(arg)]
        return {name: leaf for name, leaf in leaves if isinstance(leaf, torch.Tensor)}


@dataclass
class Outcome:
    """What one call did.

    `outputs`: name ("output", "output[0]['k']") → leaf. `structure`: the types of containers and leaves, readable.
    `inputs`: name → tensor as the call left it. `shared_storage`: pairs of names whose tensors share storage.
    `written_outside_view`: names of inputs whose storage changed outside of the tensor's elements.
    `gradients`: name of the input → its gradient as the backward returns it, with the input's shape, or None.
    """

    outputs: dict[str, Any]
    structure: str
    inputs: dict[str, torch.Tensor]
    shared_storage: set[tuple[str, str]]
    written_outside_view: set[str]
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)

    def output_tensors(self) -> dict[str, torch.Tensor]:
        """The outputs that are tensors, by name."""
        return {name: leaf for name, leaf in self.outputs.items() if isinstance(leaf, torch.Tensor)}

    def backward(self, cotangents: Mapping[str, torch.Tensor], *, widen: bool = False) -> None:
        """Runs the backward of all outputs that have a cotangent, and records the gradients of the inputs.

        Hooks record the gradients: what autograd then stores as `tensor.grad` has the input's dtype and layout.
        `cotangents`: name of the output → CPU tensor of its shape and dtype. `widen`: the call ran in float64.
        """
        pairs = [(tensor, cotangents[name]) for name, tensor in self.output_tensors().items() if name in cotangents]
        pairs = [(tensor, copy_to(cotangent, tensor.device, widen=widen)) for tensor, cotangent in pairs]
        leaves = {name: tensor for name, tensor in self.inputs.items() if tensor.is_leaf and tensor.requires_grad}
        recorded: dict[str, torch.Tensor] = {}
        hooks = [leaf.register_hook(functools.partial(recorded.__setitem__, name)) for name, leaf in leaves.items()]
        try:
            if pairs:
                torch.autograd.backward([tensor for tensor, _ in pairs], [cotangent for _, cotangent in pairs])
        finally:
            for hook in hooks:
                hook.remove()
        # A function that calls backward() itself has filled `tensor.grad`.
        self.gradients = {name: recorded.get(name, leaf.grad) for name, leaf in leaves.items()}


def call(fn: Callable[..., Any], arguments: Arguments) -> Outcome:
    """Calls `fn`, which may change the arguments, and records what it did. Raises what `fn` raises."""
    inputs = arguments.tensors()
    before = {name: _storage_outside_view(tensor) for name, tensor in inputs.items()}
    value = fn(*arguments.args, **arguments.kwargs)
    outputs = {f"output{path}": leaf for path, leaf in leaves_of(value)}
    outside = {name for name, tensor in inputs.items() if not torch.equal(before[name], _storage_outside_view(tensor))}
    return Outcome(outputs, structure(value), inputs, _shared_storage(outputs, inputs), outside)


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested tuples, lists and dicts: (path, leaf), such as ("[0]['k']", tensor)."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves_of(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, f"{path}[{key!r}]")
    else:
        yield path, value


def structure(value: Any) -> str:
    """The types of containers and leaves: `tuple(Tensor, dict(k=list(Tensor)), None)`."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(structure(item) for item in value)})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{key}={structure(item)}' for key, item in value.items())})"
    return "None" if value is None else type(value).__name__


def _storage_outside_view(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor's storage as uint8, with the tensor's elements set to 0; empty if there are no others."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    if elements == tensor.numel():
        return torch.empty(0)
    whole = tensor.detach().as_strided((elements,), (1,), 0).clone()
    unexpanded(whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())).zero_()
    return whole.view(torch.uint8)  # as bits, a NaN equals itself


def _shared_storage(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Pairs of names whose tensors share storage."""
    tensors = [(name, leaf) for name, leaf in (*outputs.items(), *inputs.items()) if isinstance(leaf, torch.Tensor)]
    by_storage: dict[int, list[str]] = {}
    pairs: set[tuple[str, str]] = set()
    for name, tensor in tensors:
        pointer = tensor.untyped_storage().data_ptr()
        earlier = by_storage.setdefault(pointer, []) if pointer else []  # empty storages all have the pointer 0
        pairs.update((other, name) for other in earlier)
        earlier.append(name)
    return pairs
