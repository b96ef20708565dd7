"""Patches that make torch, Inductor and Triton see the GPU of a target during a capture, on a machine without it.

The patches answer with the target's data; pretended_device.py provides memory and operators. Inductor asks for the GPU
through `torch.cuda` or `torch.xpu`, Dynamo's device interface and Triton's driver. Only these three are replaced, so
Inductor makes its own decisions.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

from conformance.capture.deviceless import rocm_build, xpu_build
from conformance.capture.deviceless.device_queries import DeviceQueries
from conformance.capture.patching.patch import Patch
from conformance.devices.targets import GPUS, Target

_NO_GENERATOR = "Dynamo saves the generator's state around every frame, checkpoints too, and there is no generator"
#: Number of a state → that of the CPU at that time; the last ones.
_states: dict[int, Any] = {}
_numbers = itertools.count(1)
_KEPT_STATES = 64


def patches(target: Target, queries: DeviceQueries | None = None) -> list[Patch]:
    """All patches for a capture of `target` without its device. `queries`: gets what torch asks."""
    device, queries = target.device, queries or DeviceQueries(target)
    why = f"Inductor calls torch.{device} directly, and there is no device to answer"

    def answer(name: str, value: Any, optional: bool = False) -> Patch:
        return Patch(f"torch.{device}:{name}", _always(value), why, optional=optional)

    return [
        answer("device_count", 1),
        answer("current_device", 0),
        answer("get_device_properties", queries.properties()),
        answer("synchronize", None),
        answer("_lazy_init", None),
        answer("is_current_stream_capturing", False, optional=device == "xpu"),
        answer("_exchange_device", 0),
        answer("_maybe_exchange_device", 0),
        *(
            Patch(f"torch.{device}:{name}", functools.partial(_itself, function), _NO_GENERATOR)
            for name, function in (("get_rng_state", _rng_state), ("set_rng_state", _set_rng_state))
        ),
        *(
            Patch(
                f"torch._dynamo.variables.ctx_manager:{device.upper()}DeviceVariable.{name}",
                lambda _: staticmethod(_zero),
                "`with torch.cuda.device` calls the functions that the class kept when it was defined",
                since="2.13",
            )
            for name in ("_exchange_fn", "_maybe_exchange_fn")
        ),
        *_of_device_type(queries, answer),
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
        Patch(
            "torch._inductor.codegen.wrapper:PythonWrapperCodegen.generate_and_run_autotune_block",
            lambda _: write_autotune_block,
            "it runs the code that tunes kernels at compile time on the device",
        ),
        *queries.patches(),
    ]


def write_autotune_block(wrapper: Any) -> None:
    """Writes what tunes kernels (`triton.autotune_at_compile_time`) into the generated code, as a function of its own.

    Nothing calls it. The definitions of the kernels are in the generated code in any case.
    """
    wrapper.suffix.writelines(["", "def autotune_at_compile_time(args):"])
    with wrapper.suffix.indent():
        wrapper.suffix.splice(wrapper.kernel_autotune_calls.getvalue())


def _of_device_type(queries: DeviceQueries, answer: Callable[[str, Any], Patch]) -> list[Patch]:
    target = queries.target
    if target.platform == "rocm":
        by_architecture = "torch._utils_internal:max_clock_rate"  # so torch answers itself
        cuda = [patch for patch in _cuda(queries, answer) if patch.where != by_architecture]
        return [*cuda, *rocm_build.patches()]
    return _cuda(queries, answer) if target.device == "cuda" else _xpu(queries, answer)


def _cuda(queries: DeviceQueries, answer: Callable[[str, Any], Patch]) -> list[Patch]:
    return [
        answer("is_available", True),  # torch.xpu.is_available counts devices, so it needs no patch
        Patch(
            "torch.cuda:mem_get_info",
            lambda _: lambda *device: (queries.ask("memory"),) * 2,
            "Inductor calls torch.cuda directly, and there is no device to answer",
        ),
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
            lambda _: functools.partial(_max_clock_rate, queries),
            "it asks nvidia-smi, which is missing or describes another device: no estimate of a kernel's time",
        ),
        # `triton.cudagraphs` changes the generated code. Here no graph is recorded: the code is called directly.
        Patch(
            "torch._inductor.cudagraph_utils:check_caching_allocator_for_cudagraphs",
            _always(None),
            "it asks for the process's allocator, which a build without cuda does not have",
            since="2.13",
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


def _max_clock_rate(queries: DeviceQueries, device: int | None = None) -> float:
    """The clock in MHz: of the device with this index (torch 2.15), or as an integer, like nvidia-smi."""
    kilohertz = queries.ask("clock rate")
    return kilohertz // 1000 if device is None else kilohertz / 1000


def _xpu(queries: DeviceQueries, _answer: Callable[[str, Any], Patch]) -> list[Patch]:
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
            since="2.14",
        ),
        Patch(
            "torch.xpu:mem_get_info",
            lambda _: xpu_build.memory_information(queries.ask),
            "programs call it, and there is no device to answer",
        ),
        *xpu_build.patches(),
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


def _itself(function: Callable[..., Any], _original: Any) -> Callable[..., Any]:
    return function


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
    """Replaces the call of a jiterator function (CUDA C++): returns zeros like its results.

    Dynamo does not trace the replaced method, because it skips PyTorch's own files. It knows a file by the name in the
    function's code. So this function has that name too: then the graph breaks for the same reason.

    Private: torch._prims_common, which has the rules for shapes and dtypes of elementwise operators.
    """
    import torch
    from torch import _prims_common as elementwise
    from torch.cuda import jiterator

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

    __call__.__code__ = __call__.__code__.replace(co_filename=jiterator.__file__)
    return __call__


def _rng_state(*_device: Any) -> Any:
    """A state as large as a device's. It stands for that of the CPU, from which emulated operators draw."""
    import torch

    state = torch.zeros(16, dtype=torch.uint8)
    if not _has_mode():
        number = next(_numbers)
        _states[number] = torch.get_rng_state()
        _states.pop(number - _KEPT_STATES, None)
        state[:8] = torch.tensor([number]).view(torch.uint8)
    return state


def _set_rng_state(state: Any, *_device: Any) -> None:
    import torch

    kept = None if _has_mode() else _states.get(int(state[:8].view(torch.int64)))
    if kept is not None:
        torch.set_rng_state(kept)


def _has_mode() -> bool:
    """Whether tensors may have no values here. Private: torch.utils._python_dispatch, which alone knows."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode() is not None


@contextlib.contextmanager
def registered_target(queries: DeviceQueries) -> Iterator[None]:
    """Makes Dynamo's device interface and Triton's driver answer for the target, and restores them afterwards.

    Private: torch._dynamo.device_interface, where Inductor looks up devices.
    """
    from torch._dynamo import device_interface

    list(device_interface.get_registered_device_interfaces())  # makes torch register its own interfaces first
    before = dict(device_interface.device_interfaces)
    interface, target = _interface(queries), queries.target
    for name in (target.device, f"{target.device}:0"):
        device_interface.register_interface_for_device(name, interface)
    try:
        with _triton_driver(queries), _as_built(target):
            yield
    finally:
        device_interface.device_interfaces.clear()
        device_interface.device_interfaces.update(before)


def _as_built(target: Target) -> contextlib.AbstractContextManager[None]:
    """The context that changes in place what torch decided by its build, for a target that needs another build."""
    if target.device == "xpu":
        return xpu_build.registered_lowerings()
    return rocm_build.largest_blocks() if target.platform == "rocm" else contextlib.nullcontext()


def _interface(queries: DeviceQueries) -> type:
    import torch
    from torch._dynamo.device_interface import DeviceInterface

    device_properties = queries.properties(queries.ask_number)

    def has_bf16(including_emulation: bool = False) -> bool:
        return including_emulation or queries.ask("bf16")

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
        is_gpu = staticmethod(lambda: True)  # from torch 2.14
        current_device = staticmethod(lambda: 0)
        set_device = staticmethod(lambda device: None)
        exchange_device = staticmethod(lambda device: 0)
        maybe_exchange_device = staticmethod(lambda device: 0)
        device_count = staticmethod(lambda: 1)
        is_available = staticmethod(lambda: True)
        get_raw_stream = staticmethod(lambda index: 0)
        synchronize = staticmethod(lambda device=None: None)
        memory_allocated = staticmethod(lambda device=None: 0)
        get_multi_processor_count = staticmethod(lambda device=None: queries.ask("multiprocessors"))
        get_compute_capability = staticmethod(lambda device=None: queries.ask("compute capability"))
        is_bf16_supported = staticmethod(has_bf16)
        is_triton_capable = staticmethod(lambda device=None: True)
        raise_if_triton_unavailable = staticmethod(lambda device=None: None)

    return PretendedDevice


@contextlib.contextmanager
def _triton_driver(queries: DeviceQueries) -> Iterator[None]:
    """Makes `triton.runtime.driver.active` answer for the target (Triton 3.6 to 3.9)."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    ask, device_type = queries.ask, queries.target.device

    def get_current_target() -> Any:
        backend = "hip" if queries.target.platform == "rocm" else device_type
        return GPUTarget(backend, ask("compute capability"), ask("warp size"))

    def get_device_properties(_device: Any) -> dict[str, Any]:
        return {
            "max_shared_mem": ask("shared memory"),
            "multiprocessor_count": ask("multiprocessors"),
            "warpSize": ask("warp size"),
            "mem_clock_rate": ask("memory clock rate"),
            "mem_bus_width": ask("memory bus width"),
        }

    pretended = types.SimpleNamespace(
        get_current_target=get_current_target,
        get_current_device=lambda: 0,
        get_device_interface=lambda: getattr(torch, device_type),
        get_device_capability=lambda device=0: ask("capability"),
        utils=types.SimpleNamespace(get_device_properties=get_device_properties),
    )
    before = driver._active
    driver.set_active(pretended)
    try:
        yield
    finally:
        driver._active = before
