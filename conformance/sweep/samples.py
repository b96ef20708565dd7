"""PyTorch's sample inputs: drawn with a fixed seed, and given to a case as recipes of its tensors.

A case makes its arguments for several calls. The first call has the values that torch.manual_seed(0) gives. Each
further call has other values of the same shapes; where PyTorch's function then draws other shapes, the first ones.
"""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases import run_values
from conformance.cases.axes import CaseError
from conformance.cases.dtypes import dtype_of
from conformance.cases.inputs import Input
from conformance.containers import copy_to, leaves_of

if TYPE_CHECKING:
    import torch

#: A run's seed moves those of its calls by so much.
_CALLS = 1000


@dataclass(frozen=True, eq=False)  # an OpInfo has no hash
class Source:
    """Where a sample is from: an OpInfo, the short name of a dtype, and the sample's number. `grad`: with gradients."""

    op: Any
    dtype: str
    number: int
    grad: bool

    def drawn(self, call: int = 0) -> dict[str, Any]:
        """The arguments `input`, `args` and `kwargs` of the sample. Do not change them: they are kept.

        Raises CaseError if there is no such sample.
        """
        return _drawn(self, _seed(call))


def drawn_samples(op: Any, dtype: str, *, grad: bool, most: int) -> Iterator[tuple[Source, dict[str, Any]]]:
    """The samples of an OpInfo, at most `most` (0 for no limit), each with what `Source.drawn` gives of it.

    Draws them once. Do not draw anything else before the iterator ends.
    """
    with _seeded(_seed(0)):
        found = _sample_inputs(op, dtype, grad)
        for number, sample in enumerate(itertools.islice(found, most) if most else found):
            yield Source(op, dtype, number, grad), _arguments(sample)


@dataclass(frozen=True)
class SampleInput(Input):
    """One tensor of a sample. `source`: of the sample. `path`: of the tensor, such as `args[0]`."""

    source: Source | None = None
    path: str = ""

    def build(self, choice: Mapping[str, Any], position: int, call: int | str) -> torch.Tensor:  # noqa: ARG002
        """A copy of the tensor. Its values depend on the call and on the seed of the run."""
        if self.source is None:
            raise CaseError("a SampleInput without a source")
        first = _tensors(self.source, 0)[self.path]
        if isinstance(call, int) and call:
            other = _tensors(self.source, call).get(self.path)
            if other is not None and _kind(other) == _kind(first):
                return copy_to(other, "cpu").detach()
        return copy_to(first, "cpu").detach()


def tensors_of(arguments: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Path → tensor, of all that a sample holds."""
    import torch

    return {
        path: leaf
        for name, argument in arguments.items()
        for path, leaf in leaves_of(argument, name)
        if isinstance(leaf, torch.Tensor)
    }


def _tensors(source: Source, call: int) -> dict[str, torch.Tensor]:
    return tensors_of(source.drawn(call))


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    import torch

    strides = tensor.stride() if tensor.layout == torch.strided else ()
    return tensor.shape, tensor.dtype, tensor.layout, strides


def _seed(call: int) -> int:
    return run_values.current().seed * _CALLS + call


@functools.lru_cache(maxsize=4)  # a call builds each tensor by itself, and an item makes few calls
def _drawn(source: Source, seed: int) -> dict[str, Any]:
    with _seeded(seed):
        found = itertools.islice(_sample_inputs(source.op, source.dtype, source.grad), source.number, None)
        sample = next(found, None)
    if sample is None:
        raise CaseError(f"{source.op.name} has no sample {source.number} of {source.dtype}: its samples begin with 0")
    return _arguments(sample)


def _arguments(sample: Any) -> dict[str, Any]:
    return {"input": sample.input, "args": tuple(sample.args), "kwargs": dict(sample.kwargs)}


def _sample_inputs(op: Any, dtype: str, grad: bool) -> Iterator[Any]:
    # op.sample_inputs() sets a seed of its own for each sample, and looks for a test in Python's stack: 50 ms a call.
    return iter(op.sample_inputs_func(op, "cpu", dtype_of(dtype), grad))


class _seeded:  # noqa: N801 - used like a function
    """Inside, all generators that PyTorch's functions draw from have this seed. Afterwards they go on as before."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __enter__(self) -> None:
        import numpy as np
        import torch

        self._before = (torch.get_rng_state(), random.getstate(), np.random.get_state())
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")  # of deprecated operators, which are tested too
        torch.manual_seed(self._seed)
        random.seed(self._seed)
        np.random.seed(self._seed)

    def __exit__(self, *_error: object) -> None:
        import numpy as np
        import torch

        state, of_python, of_numpy = self._before
        torch.set_rng_state(state)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        self._warnings.__exit__(None, None, None)
