"""Operators that a wrapper calls run on the cpu; their results get the strides that the device's kernels would give.

Which strides those are, PyTorch's own fake tensors of the device say: the assertions in the wrapper come from them.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from conformance.devices.targets import GPUS

if TYPE_CHECKING:
    from conformance.cases.case import Case

#: Operators whose result is contiguous on a device, whatever its fake tensors say. PyTorch's meta functions make an
#: exception of cuda alone where a channels-last input of a cpu's gives such a result (2.13 to 2.15; before, of none).
#: On xpu reflection resizes an empty result without a memory format, and replication is given its sizes alone by
#: ATen's meta function: intel/torch-xpu-ops, src/ATen/native/xpu/sycl/ReflectionPadKernels.cpp, ReplicationPadding.cpp.
_CONTIGUOUS = {"xpu": ("reflection_pad2d", "replication_pad2d")}


class DeviceLayout(TorchDispatchMode):
    """While it is on, what an operator of the pretended device returns has the device's strides."""

    supports_higher_order_operators = True  # else torch (2.11 to 2.15) refuses them under any mode it does not know

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What eager's torch.cond compiles, Dynamo refuses under any other mode (2.11 to 2.15)."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*self._inside(args), **self._inside(kwargs))
        if not _is_computed(func, args, kwargs):
            return func(*args, **kwargs)
        strides = expected(func, args, kwargs)
        result = func(*args, **kwargs)
        return laid_out(result, strides)

    def _inside(self, arguments: Any) -> Any:
        """The functions among the arguments of torch.cond and the like, with the mode on while they run: outside of
        them it is off, and results have the strides of what they computed.
        """

        def inside(value: Any) -> Any:
            if not callable(value) or isinstance(value, (type, torch.Tensor)):
                return value

            @functools.wraps(value, updated=())
            def run(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return value(*args, **kwargs)

            return run

        return tree_map(inside, arguments)


def expected(func: Any, args: Any, kwargs: Any) -> Any:
    """Fake results, with the device's strides; None where they depend on values."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake_args, fake_kwargs = tree_map(lambda v: _fake(mode, v) if _is_tensor(v) else v, (args, kwargs))
        try:
            return _corrected(func, func(*fake_args, **fake_kwargs))
        except torch._subclasses.fake_tensor.DataDependentOutputException:
            return None
        except torch._subclasses.fake_tensor.DynamicOutputShapeException:
            return None


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """Of its sizes and strides alone where it shows another dtype than its base has: from_tensor would apply the same
    view to the base, which a reshape between them forbids (2.11 to 2.15).
    """
    if tensor._base is None or tensor._base.dtype == tensor.dtype or tensor.is_conj():
        return mode.from_tensor(tensor)
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _corrected(func: Any, fake: Any) -> Any:
    def correct(value: Any) -> Any:
        if _is_tensor(value) and func.overloadpacket.__name__ in _CONTIGUOUS.get(value.device.type, ()):
            return value.contiguous()
        return value

    return tree_map(correct, fake)


def laid_out(result: Any, like: Any) -> Any:
    """`result` with the strides of `like`, wherever both are tensors of one size and no view of something else."""
    values, spec = tree_flatten(result)
    wanted, _ = tree_flatten(like)
    if like is None or len(values) != len(wanted):
        return result
    return tree_unflatten([_strided(v, w) for v, w in zip(values, wanted, strict=True)], spec)


def _strided(value: Any, like: Any) -> Any:
    if not (_is_tensor(value) and _is_tensor(like)) or value.size() != like.size():
        return value
    if value.device.type != like.device.type:  # of 1 - x the pretended device's fallback, by its first argument, is cpu
        value = value.to(like.device)
    if value.stride() == like.stride():
        return value
    return torch.empty_strided(value.size(), like.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _is_computed(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether new tensors come out, computed on a pretended device: no view, no allocation, no `out=`."""
    schema = func._schema
    if any(returned.alias_info is not None for returned in schema.returns) or not schema.returns:
        return False
    if func.namespace != "aten" or func.overloadpacket.__name__ in ("empty_strided", "empty", "_local_scalar_dense"):
        return False
    flat, _ = tree_flatten((args, kwargs))
    return any(_is_tensor(value) and value.device.type in GPUS for value in flat)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def as_on_device(case: Case) -> Case:
    """The case, its function run eagerly with the device's strides for each operator's results."""

    @functools.wraps(case.fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        with DeviceLayout():
            return case.fn(*args, **kwargs)

    return dataclasses.replace(case, fn=eager)
