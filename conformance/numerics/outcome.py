"""What one call of a function did: its outputs, gradients, changed inputs, and who shares storage with whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from conformance.cases.inputs import copy_to
from conformance.cases.special_values import unexpanded


@dataclass
class Arguments:
    """Positional and named arguments; `named()` are all of their tensors, by the names that messages use."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def copy_to(self, device: Any, *, widen: bool = False) -> Arguments:
        args, kwargs = copy_to((self.args, self.kwargs), device, widen=widen)
        return Arguments(args, kwargs)

    def named(self) -> dict[str, torch.Tensor]:
        leaves = [(f"argument {i}{path}", leaf) for i, arg in enumerate(self.args) for path, leaf in flatten(arg)]
        leaves += [(f"{name}{path}", leaf) for name, arg in self.kwargs.items() for path, leaf in flatten(arg)]
        return {name: leaf for name, leaf in leaves if isinstance(leaf, torch.Tensor)}


@dataclass
class Outcome:
    """One call.

    `outputs`: name ("output", "output[0]['k']") → leaf. `structure`: the containers' types, readable.
    `inputs`: name → tensor as the call left it. `shared`: pairs of names whose tensors share storage.
    `spilled`: names of inputs whose storage changed outside of what the tensor shows. `gradients`: by input name.
    """

    outputs: dict[str, Any]
    structure: str
    inputs: dict[str, torch.Tensor]
    shared: set[tuple[str, str]]
    spilled: set[str]
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: leaf for name, leaf in self.outputs.items() if isinstance(leaf, torch.Tensor)}

    def backward(self, cotangents: dict[str, torch.Tensor], *, widen: bool = False) -> None:
        """Runs the backward of all outputs that have a cotangent (cpu tensors), and keeps the inputs' gradients."""
        pairs = [(tensor, cotangents[name]) for name, tensor in self.tensors().items() if name in cotangents]
        pairs = [(tensor, copy_to(cotangent, tensor.device, widen=widen)) for tensor, cotangent in pairs]
        if pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [cotangent for _, cotangent in pairs])
        self.gradients = {
            name: tensor.grad for name, tensor in self.inputs.items() if tensor.is_leaf and tensor.requires_grad
        }


def call(fn: Callable[..., Any], arguments: Arguments) -> Outcome:
    """Calls `fn`, which may change the arguments; what it raises is passed on."""
    inputs = arguments.named()
    before = {name: _unseen(tensor) for name, tensor in inputs.items()}
    value = fn(*arguments.args, **arguments.kwargs)
    outputs = {f"output{path}": leaf for path, leaf in flatten(value)}
    spilled = {name for name, tensor in inputs.items() if not torch.equal(before[name], _unseen(tensor))}
    return Outcome(outputs, structure(value), inputs, _shared(outputs, inputs), spilled)


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested tuples, lists and dicts, with their paths."""
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from flatten(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}[{key!r}]")
    else:
        yield path, value


def structure(value: Any) -> str:
    """`tuple(Tensor, dict(k=list(Tensor)), None)`: types of containers and of leaves."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(structure(item) for item in value)})"
    if isinstance(value, dict):
        return f"{type(value).__name__}({', '.join(f'{key}={structure(item)}' for key, item in value.items())})"
    return "None" if value is None else type(value).__name__


def cotangent(shape: torch.Size, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random values, normally distributed, of both signs: a sum's gradient of ones would hide most mistakes."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, dtype=wide, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _unseen(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor's storage, with what the tensor shows set to zero."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    if elements == tensor.numel():
        return torch.empty(0)
    whole = tensor.detach().as_strided((elements,), (1,), 0).clone()
    unexpanded(whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())).zero_()
    return whole.view(torch.uint8)  # so that NaN equals itself


def _shared(outputs: dict[str, Any], inputs: dict[str, torch.Tensor]) -> set[tuple[str, str]]:
    tensors = [(name, leaf) for name, leaf in (*outputs.items(), *inputs.items()) if isinstance(leaf, torch.Tensor)]
    by_storage: dict[int, list[str]] = {}
    pairs = set()
    for name, tensor in tensors:
        pointer = tensor.untyped_storage().data_ptr()
        earlier = by_storage.setdefault(pointer, []) if pointer else []  # an empty storage is nobody's
        pairs.update((other, name) for other in earlier)
        earlier.append(name)
    return pairs
