"""Gives results of operators that run on the CPU the strides of the device's kernels.

PyTorch's fake tensors of the device say which strides these are. The assertions in a wrapper use the same fake tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from conformance.capture.torch_logs import without_error_logs

#: Device type → operators whose result is contiguous on the device, although the fake tensor is not. For a
#: channels-last input, PyTorch's meta functions return the channels-last strides of the CPU, except on cuda (2.13 to
#: 2.15; before, on cuda too). On xpu, reflection resizes an empty result without a memory format, and replication gets
#: only the sizes from ATen's meta function: intel/torch-xpu-ops, src/ATen/native/xpu/sycl/ReflectionPadKernels.cpp,
#: ReplicationPadding.cpp. From 2.15 on, PyTorch's reference of group_norm (torch/_refs/__init__.py) names the devices
#: whose kernels keep the memory format. xpu is not one of them, but its fake tensor has the strides of one that is.
_CONTIGUOUS = {"xpu": ("reflection_pad2d", "replication_pad2d", "native_group_norm")}


class DeviceStrides(TorchDispatchMode):
    """Inside, results of operators on the pretended device have the device's strides."""

    supports_higher_order_operators = True  # torch refuses them under any mode without this

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: eager's torch.cond compiles, and Dynamo refuses that under any other mode."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*self._with_mode_inside(args), **self._with_mode_inside(kwargs))
        if not _is_computed_on_gpu(func, args, kwargs):
            return func(*args, **kwargs)
        strides = fake_results(func, args, kwargs)
        result = func(*args, **kwargs)
        return with_strides_of(result, strides)

    def _with_mode_inside(self, arguments: Any) -> Any:
        """The arguments of torch.cond and similar operators, with the mode on inside their functions.

        Outside of these functions the mode is off: the operator's results keep the strides that the functions give.
        """

        def with_mode(value: Any) -> Any:
            if not callable(value) or isinstance(value, (type, torch.Tensor)):
                return value

            @functools.wraps(value, updated=())
            def run(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return value(*args, **kwargs)

            return run

        return tree_map(with_mode, arguments)


#: The results of `fake_results` for the calls of one item, which call the same operators with other values.
_results: dict[Any, Any] = {}


def forget_results() -> None:
    """Call it at the beginning of an item: the results belong to one target."""
    _results.clear()


def fake_results(func: Any, args: Any, kwargs: Any) -> Any:
    """Fake results of an operator, with the device's strides. None if their sizes depend on values.

    They depend on the operator, on sizes, strides and dtypes of its tensors, and on its other arguments.
    """
    key = (func, _description(args), _description(kwargs))
    try:
        if key in _results:
            return _results[key]
    except TypeError:  # an argument that has no hash
        return _fake_results(func, args, kwargs)
    _results[key] = _fake_results(func, args, kwargs)
    return _results[key]


def _description(value: Any) -> Any:
    """All of an argument that fake results depend on. It can be hashed unless a leaf cannot."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return [id(value)]  # without a hash
        base = None if value._base is None else value._base.dtype
        flags = (value.is_conj(), value.is_neg(), value.requires_grad)
        where = (value.device, value.storage_offset(), base)
        return type(value), value.dtype, value.size(), value.stride(), where, flags
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_description, value))
    if isinstance(value, dict):
        return tuple((name, _description(item)) for name, item in value.items())
    return type(value), value


def _fake_results(func: Any, args: Any, kwargs: Any) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake_args, fake_kwargs = tree_map(lambda v: _fake(mode, v) if _is_tensor(v) else v, (args, kwargs))
        try:
            with without_error_logs():
                found = func(*fake_args, **fake_kwargs)
            return _corrected(func, found)
        except torch._subclasses.fake_tensor.DataDependentOutputException:
            return None
        except torch._subclasses.fake_tensor.DynamicOutputShapeException:
            return None


def _fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """The fake tensor of a tensor.

    For a view with another dtype than its base, uses only sizes and strides: from_tensor would apply the view to the
    base, which fails if there is a reshape between them.
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


def with_strides_of(result: Any, like: Any) -> Any:
    """`result` with the strides of `like`, where both are tensors of one size."""
    values, spec = tree_flatten(result)
    templates, _ = tree_flatten(like)
    if like is None or len(values) != len(templates):
        return result
    return tree_unflatten([_with_stride(v, t) for v, t in zip(values, templates, strict=True)], spec)


def _with_stride(value: Any, like: Any) -> Any:
    if not (_is_tensor(value) and _is_tensor(like)) or value.size() != like.size():
        return value
    if value.device.type != like.device.type:  # of 1 - x: the fallback takes the device of the 1
        value = value.to(like.device)
    if value.stride() == like.stride():
        return value
    return torch.empty_strided(value.size(), like.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _is_computed_on_gpu(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether the operator computes new tensors on a pretended device: no view, no allocation, no `out=`."""
    schema = func._schema
    if any(returned.alias_info is not None for returned in schema.returns) or not schema.returns:
        return False
    if func.namespace != "aten" or func.overloadpacket.__name__ in ("empty_strided", "empty", "_local_scalar_dense"):
        return False
    flat, _ = tree_flatten((args, kwargs))
    return any(_is_tensor(value) and value.device.type not in ("cpu", "meta") for value in flat)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def with_device_strides(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with results that have the device's strides, operator by operator."""

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        with DeviceStrides():
            return function(*args, **kwargs)

    return eager
