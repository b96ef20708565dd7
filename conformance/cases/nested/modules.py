"""module(): an argument that is a torch.nn.Module, built in the case."""

from __future__ import annotations

import inspect
import traceback
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases import run_values
from conformance.cases.axes import CaseError
from conformance.cases.dtypes import DTYPES, dtype_of
from conformance.cases.inputs import Recipe
from conformance.cases.property_values import problem_of_name
from conformance.cases.seeds import seed_of
from conformance.containers import copied_module, copy_to, is_module, tensors_of_module

if TYPE_CHECKING:
    import torch

#: Modules of so many bytes in all are kept as they were built. The calls of a case get copies of one, because a module
#: that is built again may have a class of its own, as parametrisations do, and then its code is compiled again. A batch
#: of cases that are captured ahead needs all its modules.
_KEPT_BYTES = 1 << 29
#: Values of parameters and buffers are multiplied by numbers in this range.
_LOW, _HIGH = 0.5, 1.5


@dataclass(frozen=True)
class ModuleInput(Recipe):
    """A torch.nn.Module.

    `arguments`: positional arguments of the function that makes it. `properties`: "factory", the function; "dtype",
    "training", and the function's named arguments. `named`: the names of the latter.
    """

    arguments: tuple[Any, ...]
    properties: Mapping[str, Any]
    named: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ("dtype", "training")

    def problem_of(self, choice: Mapping[str, Any]) -> str:
        """What is wrong with `dtype`, `training` or the arguments; "" if nothing is. Makes no module."""
        dtype, training = choice.get("dtype"), choice.get("training")
        if dtype is not None and (problem := problem_of_name(dtype, DTYPES)):
            return f"dtype is {dtype!r}: {problem}"
        if training not in (None, True, False):
            return f"training is {training!r}: it must be True or False"
        return self._problem_of_call(choice["factory"], {name: choice[name] for name in self.named})

    def _problem_of_call(self, factory: Any, named: Mapping[str, Any]) -> str:
        """Why the function that makes the module does not take these arguments; "" if it does, or nobody knows."""
        try:
            signature = inspect.signature(factory)
        except (TypeError, ValueError):  # a class of C++ has none
            return ""
        try:
            signature.bind(*self.arguments, **named)
        except TypeError as error:
            given = [each for each in signature.parameters.values() if each.default is each.empty]
            needed = [f"{each.name}=…" for each in given if "VAR" not in each.kind.name]
            takes, call = ", ".join(signature.parameters) or "none", ", ".join([_name_of(factory), *needed])
            return f"factory is {_name_of(factory)}: {error}; it takes {takes}: write module({call})"
        return ""

    def build(self, choice: Mapping[str, Any], position: int, call: int) -> Any:
        """The module on the CPU. The same choice, position, call and seed of the run give the same weights."""
        import torch

        generator = torch.Generator().manual_seed(seed_of("module", position, call))
        dtype = choice.get("dtype")

        def converted(tensor: torch.Tensor) -> torch.Tensor:
            copied = copy_to(_varied(tensor.detach(), generator, again=call != 0), "cpu")
            copied = copied.to(dtype_of(dtype)) if dtype is not None and copied.is_floating_point() else copied
            return copied.requires_grad_(tensor.requires_grad)

        return copied_module(self._built(choice, position), converted)

    def make(self, choice: Mapping[str, Any]) -> Any:
        """Calls the function that makes the module. Raises CaseError."""
        named = {name: choice[name] for name in self.named}
        factory = choice["factory"]
        try:
            made = factory(*self.arguments, **named)
        except (TypeError, ValueError) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} (raised in {place.filename}:{place.lineno})"
            raise CaseError(f"module() cannot make {_name_of(factory)}: {said}") from error
        if not is_module(made):
            raise CaseError(
                f"module() got a function that returns a {type(made).__name__}; it must return a torch.nn.Module"
            )
        if choice.get("training") is not None:
            made.train(choice["training"])
        return made

    def _built(self, choice: Mapping[str, Any], position: int) -> Any:
        """The module as its own initialisation leaves it."""
        import torch

        key = (id(self), repr(sorted(choice.items())), position, run_values.current().seed)
        if key not in _built:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed_of("initialisation", position))
                _built[key] = (self, self.make(choice))  # the recipe too: so its id stays its own
            while len(_built) > 1 and sum(_bytes(made) for _, made in _built.values()) > _KEPT_BYTES:
                _built.popitem(last=False)
        _built.move_to_end(key)
        return _built[key][1]


_built: OrderedDict[tuple[Any, ...], tuple[ModuleInput, Any]] = OrderedDict()


def _bytes(made: torch.nn.Module) -> int:
    import torch

    tensors = tensors_of_module(made).values()
    return sum(tensor.nbytes for tensor in tensors if not torch.nn.parameter.is_lazy(tensor))


def _name_of(factory: Any) -> str:
    return str(getattr(factory, "__name__", type(factory).__name__)).strip("<>")


def module(factory: Any, /, *arguments: Any, dtype: Any = None, training: Any = None, **named: Any) -> ModuleInput:
    """An argument that is a torch.nn.Module, built in the case: `factory(*arguments, **named)`.

        net=module(nn.Linear, 33, 17, dtype=["f32", "bf16"])
        net=module(Block, dim=[48, 65], training=False)
        net=module(lambda: nn.Sequential(nn.Linear(33, 17), nn.ReLU()))
        net=module({"gru": nn.GRU, "lstm": nn.LSTM}, 33, 17)

    `factory`: a class or a function, or a dict of label → function, which is an axis. `named`: a list or a dict is an
    axis, as elsewhere. `dtype`: that of floating parameters and buffers; without it, as they were made. `training`:
    True for `train()`, False for `eval()`; without it, as the factory leaves it, which is training for torch's classes.

    The weights are what the module's own initialisation draws with the seed of the run; a parameter or buffer that it
    fills with one number, as it does with biases, gets other numbers near it. Further calls have other weights. Eager,
    compiled and float64 get copies of one module, on their device.
    Parameters and buffers are inputs: what a call changes in them is compared. With `grad`, so are the gradients of
    the parameters that require one. They are named as in `named_parameters()`: "net.0.weight".
    Special values are for tensors, not for weights.

    Raises CaseError.
    """
    if is_module(factory):
        raise CaseError(
            f"module() got a {type(factory).__name__} that exists already; give it what makes one, such as "
            f"module({type(factory).__name__}, …) or module(lambda: …), so that each case has weights of its own"
        )
    factories = factory.values() if isinstance(factory, Mapping) else [factory]
    if wrong := [each for each in factories if not callable(each)]:
        raise CaseError(f"module() got a {type(wrong[0]).__name__}; give it a class or a function that makes a module")
    properties = {"factory": factory, "dtype": dtype, "training": training} | named
    return ModuleInput(arguments, properties, tuple(named))


def _varied(tensor: torch.Tensor, generator: torch.Generator, *, again: bool) -> torch.Tensor:
    """The tensor with other values, of the same signs. `again`: also where it is not one constant.

    Integers, booleans, infinities and NaN stay as they are.
    """
    import torch

    expanded = any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel() or expanded:
        return tensor
    first = tensor.flatten()[0]
    constant = bool((tensor == first).all())
    if not constant and not again:
        return tensor
    factors = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) * (_HIGH - _LOW) + _LOW
    varied = factors - 1 if constant and first == 0 else tensor * factors
    result = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    return result.copy_(torch.where(tensor.isfinite(), varied, tensor))
