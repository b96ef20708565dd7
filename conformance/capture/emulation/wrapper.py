"""Loads a generated wrapper module unchanged and calls it, with replacements for what needs a real device."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.capture.emulation.extents import Extents
from conformance.capture.emulation.fake_strides import DeviceStrides
from conformance.capture.patching.patch import Patch, applied
from conformance.devices.targets import Target
from conformance.devices.vendor_devices import kernel_language, vendor_devices

#: Seconds that the wrappers of one item may run in total. Also the limit of one launch of a user's kernel outside of a
#: wrapper.
TIME_LIMIT = 60.0


class Emulation:
    """Runs the wrappers of one capture.

    `rewrite`: for tests; changes the text of a wrapper before it is loaded. A test may set another one at any time.
    `seconds_left`: of TIME_LIMIT. `extents`: what the kernels ran so far.
    """

    def __init__(self, target: Target, rewrite: Callable[[str], str] | None = None) -> None:
        self.target = target
        self.rewrite = rewrite
        self.deadline = float("inf")
        self.seconds_left = TIME_LIMIT
        self.extents = Extents()
        self._call = 0  # of the wrapper that runs
        self.is_running = False  # nothing runs while the case is compiled

    @contextlib.contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Inside, torch uses one thread: inputs are small, so waiting for a second thread costs more than it saves.

        Wrap compiling too: Dynamo guards on the number of threads.
        """
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Inside, calls of the compiled function and of its backward run the generated code."""
        from conformance.capture.emulation import fake_strides, gpu_operators

        self.is_running = True
        fake_strides.forget_results()
        try:
            with (
                gpu_operators.registered_for(self.target.device),
                applied([_JITERATOR]),
                warnings.catch_warnings(),
            ):
                # Some CPU operators resize their results, and warn.
                warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
                yield
        finally:
            self.is_running = False

    def load(self, code: str, graph: Any) -> Callable[[list[Any]], Any]:
        """The wrapper's `call`. The first call loads the wrapper. `graph`: the GraphLowering that generated `code`.

        The call raises NotEmulatedError if the emulation does not support the wrapper, EmulationError if a kernel does
        something wrong.
        """
        constants = _constants(graph)
        cpp = graph.cpp_wrapper
        loaded: dict[Any, Callable[[list[Any]], Any]] = {}
        calls: Counter[Any] = Counter()

        def call(args: list[Any]) -> Any:
            if cpp:
                raise NotEmulatedError("a C++ wrapper launches compiled binaries")
            with self._device_replaced():
                if self.rewrite not in loaded:
                    loaded[self.rewrite] = self._load_wrapper(code, constants)
                self._call = calls[self.rewrite]
                calls[self.rewrite] += 1
                with self._interpreting(), self._time_limited():
                    return loaded[self.rewrite](args)

        if not cpp and kernel_language(self.target.device) != "triton":
            with contextlib.suppress(NotEmulatedError), self._device_replaced():  # a kernel that does not build: here
                loaded[self.rewrite] = self._load_wrapper(code, constants)
        return call

    @contextlib.contextmanager
    def _interpreting(self) -> Iterator[None]:
        """Inside, operators give the strides of the device, and kernels of Triton are interpreted, also users'."""
        with DeviceStrides(), contextlib.ExitStack() as stack:
            if kernel_language(self.target.device) == "triton":
                from conformance.capture.emulation import triton_language

                stack.enter_context(triton_language.shared_language().interpreting())
            yield

    @contextlib.contextmanager
    def _time_limited(self) -> Iterator[None]:
        """Counts the time inside against `seconds_left`."""
        began = time.monotonic()
        self.deadline = began + self.seconds_left
        try:
            yield
        finally:
            self.seconds_left = max(0.0, self.deadline - time.monotonic())

    def _load_wrapper(self, code: str, constants: Mapping[str, Any]) -> Callable[[list[Any]], Any]:
        text = self.rewrite(code) if self.rewrite else code
        namespace: dict[str, Any] = {"__name__": "conformance_emulated", "__file__": "emulated.py", **constants}
        exec(compile(text, "emulated.py", "exec"), namespace)  # noqa: S102 - the generated wrapper
        namespace |= constants  # again: the wrapper may set them to None, because Inductor sets them after loading
        namespace[f"empty_strided_{self.target.device}"] = self._empty_strided
        namespace["get_raw_stream"] = lambda index: 0
        return namespace["call"]

    def _empty_strided(self, size: Any, stride: Any, dtype: Any) -> Any:
        """Replaces torch's empty_strided. Fills the memory with NaN or -1, which show what a kernel did not store."""
        import torch

        tensor = torch.empty_strided(size, stride, dtype=dtype, device=f"{self.target.device}:0")
        host = torch.empty(0, dtype=torch.uint8).set_(_host_storage(tensor))
        host.fill_(1 if dtype == torch.bool else 0xFF)  # NaN, and -1 or the largest integer
        return tensor

    @contextlib.contextmanager
    def _device_replaced(self) -> Iterator[None]:
        """Replaces the parts of torch that would need a real device."""
        from conformance.capture.emulation import kernels

        device = self.target.device
        vendor = vendor_devices().get(device)
        if vendor is not None and vendor.emulating is not None:
            with vendor.emulating():
                yield
            return
        wrapper = kernels.Wrapper(lambda: self.deadline, lambda: self._call, self.extents)
        patches = _patches(device, kernels.kernel_loader(wrapper), kernels.interpreting_autotuner)
        if missing := [patch.where for patch in patches if patch.is_missing()]:
            raise NotEmulatedError(f"this torch has no {missing[0].replace(':', '.')}")
        with contextlib.ExitStack() as stack:
            stack.enter_context(applied(patches))
            stack.enter_context(_torch_c_attribute(f"_{device}_getCurrentRawStream", lambda index: 0))
            yield


def _constants(graph: Any) -> dict[str, Any]:
    """The attributes that Inductor sets on the wrapper module after loading it."""
    constants: dict[str, Any] = {}
    for name in ("constants", "torchbind_constants", "opaque_value_type_classes"):
        constants |= getattr(graph, name, None) or {}
    return constants


def _host_storage(tensor: Any) -> Any:
    """The memory of a pretended device's tensor as a storage of the CPU."""
    import ctypes

    import torch

    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if not size:
        return torch.UntypedStorage(0)
    return torch.frombuffer(
        (ctypes.c_char * size).from_address(storage.data_ptr()), dtype=torch.uint8
    ).untyped_storage()


def _refuse_jiterator(*_args: Any, **_arguments: Any) -> Any:
    raise NotEmulatedError("a jiterator function is CUDA C++, which only a GPU runs")


_JITERATOR = Patch(
    "torch.cuda.jiterator:_JittedFunction.__call__",
    lambda _: _refuse_jiterator,
    "without a GPU, its results are zeros: good enough to compile with, and wrong as numbers",
)


def _patches(device: str, load: Callable[..., Any], autotune: Callable[[Any], Any]) -> list[Patch]:
    from conformance.capture.emulation.kernels import MultiKernel

    return [
        Patch("torch._inductor.async_compile:AsyncCompile.triton", lambda _: load, "Triton would compile the kernels"),
        Patch(
            "torch._inductor.async_compile:AsyncCompile.multi_kernel",
            lambda _: lambda _compiler, *args, **kwargs: MultiKernel(*args, **kwargs),
            "Inductor would time the kernels",
        ),
        Patch(
            "torch._inductor.runtime.triton_heuristics:cached_autotune", autotune, "Triton would compile the kernels"
        ),
        Patch(
            "torch._inductor.runtime.triton_helpers:set_driver_to_gpu",
            lambda _: lambda: None,
            "Triton would look for the device's driver",
        ),
        Patch(f"torch.{device}:set_device", lambda _: lambda device: None, "torch would call the device's runtime"),
    ]


@contextlib.contextmanager
def _torch_c_attribute(name: str, value: Any) -> Iterator[None]:
    """Inside, torch._C has an attribute that wrappers import, and that a build without the device lacks."""
    import torch

    before = getattr(torch._C, name, None)
    setattr(torch._C, name, value)
    try:
        yield
    finally:
        if before is None:
            delattr(torch._C, name)
        else:
            setattr(torch._C, name, before)
