"""Records what one call of a function did: outputs, gradients, changed inputs, and which tensors share storage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.cases.special_values import unexpanded
from conformance.containers import copy_to, leaves_of, structure


@dataclass
class Arguments:
    """The positional and named arguments of a call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def copy_to(self, device: Any, *, widen: bool = False) -> Arguments:
        """Copies on `device`. `widen`: floating dtypes become float64, complex ones complex128."""
        args, kwargs = copy_to((self.args, self.kwargs), device, widen=widen)
        return Arguments(args, kwargs)

    def leaves(self, *, into_modules: bool = True) -> dict[str, Any]:
        """All that is no container, by the names that messages use: "argument 0", "x", "x[1]", "net.0.weight"."""
        named = {f"argument {i}": arg for i, arg in enumerate(self.args)} | self.kwargs
        return {
            path: leaf
            for name, argument in named.items()
            for path, leaf in leaves_of(argument, name, into_modules=into_modules)
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among the `leaves`, by name."""
        return {name: leaf for name, leaf in self.leaves().items() if isinstance(leaf, torch.Tensor)}

    def structure(self) -> dict[str, str]:
        """Name of each argument → the types of its containers and leaves."""
        found = {f"argument {i}": structure(arg) for i, arg in enumerate(self.args)}
        return found | {name: structure(arg) for name, arg in self.kwargs.items()}


@dataclass
class Outcome:
    """What one call did.

    `outputs`: name ("output", "output[0]['k']") → leaf. `structure`: the types of containers and leaves, readable.
    `inputs`: name → leaf of the arguments as the call left it: it may have put others into a container. A tensor that
    it took out of one, and not out of a module, is there as "x, as passed". `input_structure`: argument → the types of
    its containers and leaves. `passed`: name → tensor that the call got.
    `shared_storage`: pairs of names whose tensors share storage.
    `written_outside_view`: names of inputs whose storage changed outside of the tensor's elements.
    `gradients`: name of the input → its gradient as the backward returns it, with the input's shape, or None.
    """

    outputs: dict[str, Any]
    structure: str
    inputs: dict[str, Any]
    input_structure: dict[str, str]
    passed: dict[str, torch.Tensor]
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
        leaves = {name: tensor for name, tensor in self.passed.items() if tensor.is_leaf and tensor.requires_grad}
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
    passed, outside_modules = arguments.tensors(), arguments.leaves(into_modules=False)
    before = {name: _storage_outside_view(tensor) for name, tensor in passed.items()}
    value = fn(*arguments.args, **arguments.kwargs)
    outputs = {f"output{path}": leaf for path, leaf in leaves_of(value)}
    outside = {name for name, tensor in passed.items() if not torch.equal(before[name], _storage_outside_view(tensor))}
    inputs = arguments.leaves()
    inputs |= {
        f"{name}, as passed": tensor
        for name, tensor in passed.items()
        if name in outside_modules and inputs.get(name) is not tensor
    }
    shared = _shared_storage(outputs, inputs)
    return Outcome(outputs, structure(value), inputs, arguments.structure(), passed, shared, outside)


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


def ends_the_check(error: BaseException) -> bool:
    """Whether an exception says nothing about the code: memory, the disk, or something that is not emulated."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError, OSError, NotEmulatedError))
