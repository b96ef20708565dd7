"""A stand-in for an Intel GPU and a torch that is built for it, for processes on a machine that has neither.

torch.xpu is Python over functions of torch._C, which a build without xpu lacks. The stand-in adds these functions when
torch._C is imported, so that torch.xpu's own code runs, with its argument checks and errors. Variables:

    STAND_IN_XPU           the row of targets.toml that the GPU is like
    STAND_IN_PROPERTIES    JSON: properties that differ from the row, to have a GPU without a row
    STAND_IN_LOST          after so many calls of synchronize, the device is lost: each further call raises

It needs a torch that is built without cuda: torch refuses a build for both. The GPU-free worker hides GPUs by a
variable; then the stand-in has no device, like a real build.

What it cannot try, because it has no device and no compiler for one:

- Memory and operators: tensors on xpu are those of the pretended device, whose operators run on the CPU.
- Kernels: Triton's interpreter runs them, where a real run compiles and launches them. So it does not try Intel's
  Triton, its driver, launchers, autotuning, C++ wrappers, and kernels that a case brings.
- The generated wrapper's imports from torch._C are replaced, where a real run uses the build's own.
- The driver: asynchronous errors, running out of memory, several processes on one GPU, ZE_AFFINITY_MASK.
- The GPU-free worker in a real build: there, the pretended device replaces operators that the build has registered.
- Timing: events give the CPU's time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import runpy
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

#: torch.version.xpu of a real build.
COMPILER = "20260000"
#: Xpu's number among torch's device types.
XPU = 12
#: What an Intel runtime raises for a device that does not answer any more.
LOST = "Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)"


def is_hidden() -> bool:
    """Whether this process sees no GPU: the variable that the GPU-free worker gets."""
    return os.environ.get("ONEAPI_DEVICE_SELECTOR", "") == "opencl:cpu"


def install() -> None:
    """Lets modules be changed when they are imported. Imports nothing of torch."""
    sys.meta_path = _MetaPath([_Hooks(), *sys.meta_path])
    original = runpy.run_path

    def run_path(path: str, *args: Any, **options: Any) -> dict[str, Any]:
        found = original(path, *args, **options)
        return found | {"xpu": COMPILER} if str(path).endswith("torch/version.py") else found

    runpy.run_path = run_path


class _MetaPath(list):  # type: ignore[type-arg]
    """Keeps the first finder first: pytest inserts its own before it, which rewrites the modules of plugins."""

    def insert(self, index: Any, item: Any) -> None:
        super().insert(max(index, 1), item)


class _Hooks(importlib.abc.MetaPathFinder):
    """Calls a function of CHANGES after the module of that name is executed."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in CHANGES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, CHANGES[name])
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, change: Callable[[Any], None]) -> None:
        self._loader, self._change = loader, change

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        self._change(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _nothing(*_arguments: Any, **_named: Any) -> None: ...


class Runtime:
    """The functions of torch._C that torch.xpu calls. `synchronized`: how often synchronize was called."""

    def __init__(self) -> None:
        self.synchronized = 0
        self.device = 0

    def count(self) -> int:
        return 0 if is_hidden() else 1

    def properties(self, device: int) -> DeviceProperties:
        if not 0 <= device < self.count():
            raise RuntimeError(f"device index out of range: {device}, total devices: {self.count()}")
        return DeviceProperties()

    def set_device(self, device: int) -> None:
        if not isinstance(device, int):
            raise TypeError("invalid argument to setDevice")
        self.device = device

    def exchange(self, device: int) -> int:
        if device < 0:
            return -1
        before, self.device = self.device, device
        return before

    def synchronize(self, device: int) -> None:
        if not isinstance(device, int):
            raise TypeError("invalid argument to synchronize")
        self.synchronized += 1
        lost = os.environ.get("STAND_IN_LOST")
        if lost and self.synchronized > int(lost):
            raise RuntimeError(LOST)

    def init(self) -> None:
        """As torch._C._xpu_init: gives torch.xpu what only the build's C++ can make."""
        import torch

        if not self.count():
            raise RuntimeError("No XPU devices are available.")
        torch.xpu.default_generators = tuple(torch.Generator() for _ in range(self.count()))
        torch.xpu._get_device_properties = self.properties

    def memory(self, device: int) -> tuple[int, int]:
        total = self.properties(device).total_memory
        return total, total

    def statistics(self, device: int) -> dict[str, Any]:
        self.properties(device)  # refuses a device that is not here
        sizes = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
        kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        return {kind: {pool: dict(sizes) for pool in ("all", "small_pool", "large_pool")} for kind in kinds}

    def attributes(self) -> dict[str, Any]:
        """Name in torch._C → value."""
        return {
            "_has_xpu": True,
            "_xpu_init": self.init,
            "_xpu_isInBadFork": lambda: False,
            "_xpu_getDeviceCount": self.count,
            "_xpu_getDevice": lambda: self.device,
            "_xpu_setDevice": self.set_device,
            "_xpu_exchangeDevice": self.exchange,
            "_xpu_maybeExchangeDevice": self.exchange,
            "_xpu_synchronize": self.synchronize,
            "_xpu_emptyCache": _nothing,
            "_xpu_memoryStats": self.statistics,
            "_xpu_resetPeakMemoryStats": _nothing,
            "_xpu_resetAccumulatedMemoryStats": _nothing,
            "_xpu_getMemoryInfo": self.memory,
            "_xpu_getArchFlags": lambda: "pvc bmg",
            "_xpu_getCurrentStream": lambda device: (0, device, XPU),
            "_xpu_getCurrentRawStream": lambda _device: 0,
            "_xpu_setStream": _nothing,
            "_xpu_isCurrentStreamCapturing": lambda: False,
            "_xpu_graph_pool_handle": lambda: (0, 0),
            "_XPUGraph": Unused,
            "_XPUMemPool": Unused,
            "_xpu_XPUAllocator": Unused,
            "_xpu_beginAllocateCurrentThreadToPool": _nothing,
            "_xpu_endAllocateToPool": _nothing,
            "_xpu_releasePool": _nothing,
            "_XpuDeviceProperties": DeviceProperties,
            "_XpuStreamBase": Stream,
            "_XpuEventBase": Event,
        }


class DeviceProperties:
    """As torch.xpu.get_device_properties returns it: attributes, some of which are no plain data."""

    def __init__(self) -> None:
        from conformance.devices.targets import targets

        row = targets()[os.environ["STAND_IN_XPU"]]
        vars(self).update(row.properties)
        vars(self).update(json.loads(os.environ.get("STAND_IN_PROPERTIES", "{}")))
        self.uuid = "8680a0bd-2f00-0000-3a00-000000000001"


class Unused:
    """The base of classes of torch.xpu that nobody here makes: graphs, pools and allocators."""


class Stream:
    def __new__(cls, priority: int = 0, stream_id: int = 0, device_index: int = 0, device_type: int = XPU) -> Stream:
        created = super().__new__(cls)
        created.priority, created.stream_id = priority, stream_id
        created.device_index, created.device_type = device_index, device_type
        return created

    sycl_queue = 0

    @property
    def device(self) -> Any:
        import torch

        return torch.device("xpu", self.device_index)

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


class Event:
    def __new__(cls, enable_timing: bool = False) -> Event:
        created = super().__new__(cls)
        created.enable_timing, created.recorded = enable_timing, 0.0
        return created

    def record(self, _stream: Stream) -> None:
        self.recorded = time.perf_counter()

    def wait(self, _stream: Stream) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return 1e3 * (end.recorded - self.recorded)

    def synchronize(self) -> None: ...


def _change_c(module: Any) -> None:
    for name, value in Runtime().attributes().items():
        setattr(module, name, value)


def _change_version(module: Any) -> None:
    module.xpu = COMPILER


def _change_backends(module: Any) -> None:
    """Adds Intel's backend, whose driver is active if there is a device. It compiles nothing."""

    class Compiler:
        def __init__(self, target: Any) -> None:
            self.target = target

        def hash(self) -> str:
            return "stand-in"

        supports_target = staticmethod(lambda target: target.backend == "xpu")

    class Driver:
        is_active = staticmethod(lambda: not is_hidden())

        def get_current_target(self) -> Any:
            import torch
            from triton.backends.compiler import GPUTarget

            return GPUTarget("xpu", torch.xpu.get_device_capability(), 32)

        get_current_device = staticmethod(lambda: 0)

        def get_device_interface(self) -> Any:
            import torch

            return torch.xpu

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(1024, dtype=torch.int, device="xpu")

        def clear_cache(self, cache: Any) -> None:
            cache.zero_()

        @property
        def utils(self) -> Any:
            def get_device_properties(device: int) -> dict[str, Any]:
                found = DeviceProperties()
                return {
                    "max_shared_mem": found.local_mem_size,
                    "multiprocessor_count": found.gpu_subslice_count,
                    "warpSize": 32,
                    "mem_clock_rate": found.memory_clock_rate,
                    "mem_bus_width": found.memory_bus_width,
                }

            return types.SimpleNamespace(get_device_properties=get_device_properties)

    module.backends["intel"] = module.Backend(Compiler, Driver)


def _change_pretended_device(module: Any) -> None:
    """Gives this process tensors on xpu: those of the pretended device."""
    if is_hidden():
        return
    load, register, set_device = module.load, module.register_operators, module.set_device

    def load_with_xpu(build: Any, devices: tuple[str, ...], *, torch_was_imported: bool) -> str:
        return load(build, tuple(dict.fromkeys((*devices, "xpu"))), torch_was_imported=torch_was_imported)

    def register_with_xpu(devices: tuple[str, ...]) -> None:
        import torch

        register(tuple(dict.fromkeys((*devices, "xpu"))))
        set_or_stand_in(None)
        torch.autograd.set_multithreading_enabled(False)
        storage = torch.storage._StorageBase
        if not hasattr(storage.clone, "_of_stand_in"):
            storage.clone = _clone(storage.clone)

    def set_or_stand_in(target: Any) -> None:
        from conformance.devices.targets import targets

        set_device(target or targets()[os.environ["STAND_IN_XPU"]])

    module.load, module.register_operators, module.set_device = load_with_xpu, register_with_xpu, set_or_stand_in


def _clone(original: Callable[..., Any]) -> Callable[..., Any]:
    """Copies of constants: torch's own function allocates with the build's allocator for the device."""

    def clone(self: Any) -> Any:
        import torch

        if self.device.type != "xpu":
            return original(self)
        copy = torch.empty(self.nbytes(), dtype=torch.uint8, device=self.device).untyped_storage()
        return copy.copy_(self)

    clone._of_stand_in = True
    return clone


def _change_recorder(module: Any) -> None:
    """Native captures with an emulation load no kernels: there is nothing that could run them."""
    patches = module.Recorder.patches

    def patches_of_stand_in(self: Any, *, run: bool, emulation: Any = None, deferred: Any = None) -> Any:
        return patches(self, run=run and emulation is None, emulation=emulation, deferred=deferred)

    module.Recorder.patches = patches_of_stand_in


def _change_compile(module: Any) -> None:
    """Native captures for xpu run their kernels in Triton's interpreter."""
    original = module.capture

    @contextlib.contextmanager
    def capture(request: Any, emulation: Any = None) -> Iterator[Any]:
        if request.mode == "native" and request.target.device == "xpu":
            request = dataclasses.replace(request, emulate=True)
        with original(request, emulation) as result:
            yield result

    module.capture = capture


CHANGES: dict[str, Callable[[Any], None]] = {
    "torch._C": _change_c,
    "torch.version": _change_version,
    "triton.backends": _change_backends,
    "conformance.capture.deviceless.pretended_device": _change_pretended_device,
    "conformance.capture.wrappers.recorder": _change_recorder,
    "conformance.capture.compile": _change_compile,
}
