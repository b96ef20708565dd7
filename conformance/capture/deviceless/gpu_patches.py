"""Patches that make torch, Inductor and Triton see the GPU of a target during a capture, on a machine without it.

The patches answer with the target's data; pretended_device.py provides memory and operators. Inductor asks for the GPU
through `torch.cuda` or `torch.xpu`, Dynamo's device interface and Triton's driver. Only these three are replaced, so
Inductor makes its own decisions.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture.observers import fallbacks
from conformance.capture.patching.patch import Patch
from conformance.devices.targets import GPUS, Target, multiprocessor_count


def properties(target: Target) -> Any:
    """An object like the result of torch.cuda.get_device_properties() on the target's device."""
    major, minor = target.capability
    if target.device == "xpu":
        return types.SimpleNamespace(**target.properties)
    return types.SimpleNamespace(**target.properties, major=major, minor=minor, gcnArchName="")


#: Properties that only estimates use. On xpu, torch has them from 2.13 on.
_BANDWIDTH = ("memory_clock_rate", "memory_bus_width")


def compute_capability(target: Target) -> Any:
    """The result of get_compute_capability() in Inductor: 90 for (9, 0) on cuda, a dict of properties on xpu.

    The dict has no bandwidth: generated code contains the dict's text, which must not depend on torch's version.
    """
    major, minor = target.capability
    if target.device == "xpu":
        return {name: value for name, value in target.properties.items() if name not in _BANDWIDTH}
    return major * 10 + minor


def patches(target: Target) -> list[Patch]:
    """All patches for a capture of `target` without its device."""
    device = target.device
    why = f"Inductor calls torch.{device} directly, and there is no device to answer"

    def answer(name: str, value: Any, optional: bool = False) -> Patch:
        return Patch(f"torch.{device}:{name}", _always(value), why, optional=optional)

    return [
        answer("device_count", 1),
        answer("current_device", 0),
        answer("get_device_properties", properties(target)),
        answer("synchronize", None),
        answer("_lazy_init", None),
        answer("is_current_stream_capturing", False, optional=device == "xpu"),
        answer("_exchange_device", 0),
        answer("_maybe_exchange_device", 0),
        answer("set_rng_state", None),
        Patch(
            f"torch.{device}:get_rng_state",
            lambda _: _rng_state,
            "Dynamo saves the generator's state around every frame, and there is no generator",
        ),
        *(
            Patch(
                f"torch._dynamo.variables.ctx_manager:{device.upper()}DeviceVariable.{name}",
                lambda _: staticmethod(_zero),
                "`with torch.cuda.device` calls the functions that the class kept when it was defined",
                optional=True,  # from 2.12
            )
            for name in ("_exchange_fn", "_maybe_exchange_fn")
        ),
        *(_cuda if device == "cuda" else _xpu)(target, answer),
        Patch(
            "torch.storage:_StorageBase.clone",
            _clone,
            "it allocates with the build's allocator for the device, so constants could not be copied",
        ),
        Patch(
            "torch.utils._triton:triton_hash_with_backend",
            _always("no-device"),
            "it asks Triton's driver for the device; only the kernel's cache key depends on it",
        ),
    ]


def _cuda(target: Target, answer: Callable[[str, Any], Patch]) -> list[Patch]:
    return [
        answer("is_available", True),  # torch.xpu.is_available counts devices, so it needs no patch
        answer("mem_get_info", (target.properties["total_memory"],) * 2),
        Patch(
            "torch._C:_get_cudnn_batch_norm_reserve_space_size",
            _always(0),
            "a build with cuda asks the driver, other builds raise (0: cuDNN's size for contiguous inputs)",
        ),
        Patch(
            "torch.cuda.jiterator:_JittedFunction.__call__",
            lambda _: _jiterator_call(),
            "between two graphs, it compiles CUDA C++ for the device",
        ),
        Patch(
            "torch._utils_internal:max_clock_rate",
            lambda _: functools.partial(_max_clock_rate, target.properties.get("clock_rate", 0)),
            "it asks nvidia-smi, which is missing or describes another device: no estimate of a kernel's time",
        ),
        # `triton.cudagraphs` changes the generated code. Here no graph is recorded: the code is called directly.
        Patch(
            "torch._inductor.cudagraph_utils:check_caching_allocator_for_cudagraphs",
            _always(None),
            "it asks for the process's allocator, which a build without cuda does not have",
            optional=True,  # from 2.13
        ),
        Patch(
            "torch._inductor.compile_fx:cudagraphify",
            lambda _: lambda model, *args, **kwargs: model,
            "its first call records a graph on the device",
        ),
        Patch(
            "torch._inductor.output_code:maybe_handle_backward_generation",
            _always(None),
            "for a backward that is not recorded, it needs the state that recording the forward leaves",
        ),
    ]


def _max_clock_rate(kilohertz: int, device: int | None = None) -> float:
    """The clock in MHz: of the device with this index (torch 2.15), or as an integer, like nvidia-smi."""
    return kilohertz // 1000 if device is None else kilohertz / 1000


def _xpu(_target: Target, answer: Callable[[str, Any], Patch]) -> list[Patch]:
    return [
        Patch(
            "torch._higher_order_ops.triton_kernel_wrap:generate_ttir",
            _generate_ttir_for_supported_target,
            "torch finds the arguments that a user's kernel writes in Triton's first stage, which is the same for all "
            "devices; without xpu's backend, all arguments would count as written",
        ),
        Patch(
            "torch._inductor.runtime.triton_helpers:get_backend_options_for_target",
            _options_of_supported_target,
            "it returns the options that a user's launch may give; without xpu's backend, cuda's serve",
            optional=True,  # from 2.15
        ),
        answer("is_tf32_supported", True),
        Patch(
            "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init",
            lambda _: property(lambda self: False),
            "a build without xpu looks for cuda, so it would make constants on the CPU and copy them",
        ),
    ]


def _generate_ttir_for_supported_target(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def generate_ttir(*args: Any, **kwargs: Any) -> Any:
        from triton.runtime.driver import driver

        active = driver.active
        get_current_target, supported = active.get_current_target, _supported_target(active.get_current_target())
        active.get_current_target = lambda: supported
        try:
            return original(*args, **kwargs)
        finally:
            active.get_current_target = get_current_target

    return generate_ttir


def _options_of_supported_target(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_backend_options_for_target(target: Any, *args: Any) -> Any:
        return original(_supported_target(target), *args)

    return get_backend_options_for_target


def _supported_target(target: Any) -> Any:
    """The GPUTarget itself if the installed Triton has a backend for it, else one for cuda."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    if any(each.compiler.supports_target(target) for each in backends.values()):
        return target
    return GPUTarget("cuda", 90, 32)


def _zero(*_device: Any) -> int:
    return 0


def _always(value: Any) -> Callable[[Any], Callable[..., Any]]:
    return lambda _original: lambda *args, **kwargs: value


def _clone(original: Callable[..., Any]) -> Callable[..., Any]:
    def clone(self: Any) -> Any:
        import torch

        if self.device.type not in GPUS:
            return original(self)
        copy = torch.empty(self.nbytes(), dtype=torch.uint8, device=self.device).untyped_storage()
        return copy.copy_(self)

    return clone


def _jiterator_call() -> Callable[..., Any]:
    """Replaces the call of a jiterator function (CUDA C++): returns zeros like its results. Dynamo does not trace it.

    Private: torch._prims_common, which has the rules for shapes and dtypes of elementwise operators, and
    torch._dynamo.disable (2.11 to 2.15).
    """
    import torch
    from torch import _prims_common as elementwise

    def __call__(function: Any, *tensors: Any, **arguments: Any) -> Any:  # noqa: N807 - the name of the replaced method
        if unknown := arguments.keys() - function.kwargs_dict.keys():
            raise KeyError(f"{min(unknown)} is not declared in function definition")
        promote = elementwise.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        _, dtype = elementwise.elementwise_dtypes(*tensors, type_promotion_kind=promote)
        expanded = torch.broadcast_tensors(*tensors)
        strides = elementwise.compute_elementwise_output_strides(*expanded)
        outputs = tuple(
            torch.empty_strided(expanded[0].shape, strides, dtype=dtype, device=tensors[0].device).zero_()
            for _ in range(function.num_outputs)
        )
        return outputs if len(outputs) > 1 else outputs[0]

    return torch._dynamo.disable(__call__)


def _rng_state(*_device: Any) -> Any:
    import torch

    return torch.zeros(16, dtype=torch.uint8)


@contextlib.contextmanager
def registered_target(target: Target) -> Iterator[None]:
    """Makes Dynamo's device interface and Triton's driver answer for the target, and restores them afterwards.

    Private: torch._dynamo.device_interface, where Inductor looks up devices (2.11 to 2.15).
    """
    from torch._dynamo import device_interface

    list(device_interface.get_registered_device_interfaces())  # makes torch register its own interfaces first
    before = dict(device_interface.device_interfaces)
    interface = _interface(target)
    for name in (target.device, f"{target.device}:0"):
        device_interface.register_interface_for_device(name, interface)
    try:
        with _triton_driver(target), _xpu_fallbacks(target):
            yield
    finally:
        device_interface.device_interfaces.clear()
        device_interface.device_interfaces.update(before)


@contextlib.contextmanager
def _xpu_fallbacks(target: Target) -> Iterator[None]:
    """Registers the lowering that Inductor registers only in a build for xpu (2.11 to 2.15)."""
    import torch
    from torch._inductor import lowering

    operator = torch.ops.aten.embedding_dense_backward
    if target.device != "xpu" or operator.default in lowering.lowerings:
        yield
        return
    fallbacks.registered_fallbacks()
    lowering.make_fallback(operator, warn=False)
    try:
        yield
    finally:
        for overload in (operator, operator.default, operator.out):
            lowering.lowerings.pop(overload, None)


def _interface(target: Target) -> type:
    import torch
    from torch._dynamo.device_interface import DeviceInterface

    device_properties = properties(target)

    def has_bf16(including_emulation: bool = False) -> bool:
        return including_emulation or target.device == "xpu" or target.capability >= (8, 0)

    class PretendedDevice(DeviceInterface):
        class Worker:
            set_device = staticmethod(lambda device: None)
            current_device = staticmethod(lambda: 0)
            get_device_properties = staticmethod(lambda device=None: device_properties)

        class device:  # noqa: N801 - the interface's own name
            def __init__(self, device: Any) -> None: ...

            def __enter__(self) -> None: ...

            def __exit__(self, *exc: object) -> None: ...

        Event, Stream = torch.Event, torch.Stream
        current_device = staticmethod(lambda: 0)
        set_device = staticmethod(lambda device: None)
        exchange_device = staticmethod(lambda device: 0)
        maybe_exchange_device = staticmethod(lambda device: 0)
        device_count = staticmethod(lambda: 1)
        is_available = staticmethod(lambda: True)
        get_raw_stream = staticmethod(lambda index: 0)
        synchronize = staticmethod(lambda device=None: None)
        memory_allocated = staticmethod(lambda device=None: 0)
        get_multi_processor_count = staticmethod(lambda device=None: multiprocessor_count(target.properties))
        get_compute_capability = staticmethod(lambda device=None: compute_capability(target))
        is_bf16_supported = staticmethod(has_bf16)
        is_triton_capable = staticmethod(lambda device=None: True)
        raise_if_triton_unavailable = staticmethod(lambda device=None: None)

    return PretendedDevice


@contextlib.contextmanager
def _triton_driver(target: Target) -> Iterator[None]:
    """Makes `triton.runtime.driver.active` answer for the target (Triton 3.6 to 3.9)."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    answers = {
        "max_shared_mem": target.properties.get(
            "shared_memory_per_block_optin", target.properties.get("local_mem_size")
        ),
        "multiprocessor_count": multiprocessor_count(target.properties),
        "warpSize": target.properties.get("warp_size", 32),
        "mem_clock_rate": target.properties.get("memory_clock_rate", 0),
        "mem_bus_width": target.properties.get("memory_bus_width", 0),
    }
    pretended = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget(target.device, compute_capability(target), answers["warpSize"]),
        get_current_device=lambda: 0,
        get_device_interface=lambda: getattr(torch, target.device),
        get_device_capability=lambda device=0: target.capability,
        utils=types.SimpleNamespace(get_device_properties=lambda device: answers),
    )
    before = driver._active
    driver.set_active(pretended)
    try:
        yield
    finally:
        driver._active = before
