"""A generated wrapper module, loaded as it is and called: what it asks of a real device is answered on the host."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.capture.emulation.errors import NotEmulatedError
from conformance.capture.emulation.fake_strides import DeviceLayout
from conformance.capture.patching.patch import Patch, applied
from conformance.devices.targets import Target

#: Seconds that the wrappers of one item may take together, or one launch of a user's kernel outside of them.
TIME_LIMIT = 60.0


class Emulation:
    """Runs the wrappers of one capture. `rewrite`: applied to a wrapper's text before it is loaded, for tests; another
    one may be set at any time.
    """

    def __init__(self, target: Target, rewrite: Callable[[str], str] | None = None) -> None:
        self.target = target
        self.rewrite = rewrite
        self.deadline = float("inf")
        self.left = TIME_LIMIT
        self.runs = False  # as long as the case is compiled, nothing is

    @contextlib.contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Inputs are small: waiting for a second thread costs more than it does. Around compiling too, as Dynamo
        guards on their number.
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
        """Inside, calls of the compiled function and its backward run what was generated."""
        from conformance.capture.emulation import gpu_operators

        self.runs = True
        try:
            with gpu_operators.registered(self.target.device), warnings.catch_warnings():
                # Operators that allocate their result in parts do so at first, when the cpu's are called for them.
                warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
                yield
        finally:
            self.runs = False

    def load(self, code: str, graph: Any) -> Callable[[list[Any]], Any]:
        """The wrapper's `call`, loaded when it is first called. `graph`: the GraphLowering that `code` was made from.

        The call raises NotEmulatedError where the wrapper cannot be run here, EmulationError for what a kernel does.
        """
        constants = _constants(graph)
        cpp = graph.cpp_wrapper
        loaded: dict[Any, Callable[[list[Any]], Any]] = {}

        def call(args: list[Any]) -> Any:
            if cpp:
                raise NotEmulatedError("a C++ wrapper launches compiled binaries")
            from conformance.capture.emulation import triton_language

            with self._answering():
                if self.rewrite not in loaded:
                    loaded[self.rewrite] = self._loaded(code, constants)
                with DeviceLayout(), self._timed(), triton_language.language().spoken():
                    return loaded[self.rewrite](args)

        return call

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.monotonic()
        self.deadline = began + self.left
        try:
            yield
        finally:
            self.left = max(0.0, self.deadline - time.monotonic())

    def _loaded(self, code: str, constants: Mapping[str, Any]) -> Callable[[list[Any]], Any]:
        text = self.rewrite(code) if self.rewrite else code
        namespace: dict[str, Any] = {"__name__": "conformance_emulated", "__file__": "emulated.py", **constants}
        exec(compile(text, "emulated.py", "exec"), namespace)  # noqa: S102 - the generated wrapper
        namespace |= constants  # again: a text may set what it is given to None, as Inductor's own loading expects
        namespace[f"empty_strided_{self.target.device}"] = self._unset
        namespace["get_raw_stream"] = lambda index: 0
        return namespace["call"]

    def _unset(self, size: Any, stride: Any, dtype: Any) -> Any:
        """Memory as Inductor asks for it, full of what nobody stored: what a kernel leaves out shows."""
        import torch

        tensor = torch.empty_strided(size, stride, dtype=dtype, device=f"{self.target.device}:0")
        host = torch.empty(0, dtype=torch.uint8).set_(_host_storage(tensor))
        host.fill_(1 if dtype == torch.bool else 0xFF)  # NaN, and -1 or the largest integer
        return tensor

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        from conformance.capture.emulation import kernels

        device = self.target.device
        patches = _patches(device, kernels.loading(lambda: self.deadline), kernels.autotuning)
        if gone := [patch.where for patch in patches if patch.is_missing()]:
            raise NotEmulatedError(f"this torch has no {gone[0].replace(':', '.')}")
        with contextlib.ExitStack() as stack:
            stack.enter_context(applied(patches))
            stack.enter_context(_added(f"_{device}_getCurrentRawStream", lambda index: 0))
            yield


def _constants(graph: Any) -> dict[str, Any]:
    """What Inductor sets on the module beside its text (2.11 to 2.15)."""
    found: dict[str, Any] = {}
    for name in ("constants", "torchbind_constants", "opaque_value_type_classes"):
        found |= getattr(graph, name, None) or {}
    return found


def _host_storage(tensor: Any) -> Any:
    import ctypes

    import torch

    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if not size:
        return torch.UntypedStorage(0)
    return torch.frombuffer(
        (ctypes.c_char * size).from_address(storage.data_ptr()), dtype=torch.uint8
    ).untyped_storage()


def _patches(device: str, load: Callable[..., Any], autotune: Callable[[Any], Any]) -> list[Patch]:
    from conformance.capture.emulation.kernels import MultiKernel

    return [
        Patch("torch._inductor.async_compile:AsyncCompile.triton", lambda _: load, "kernels would be compiled"),
        Patch(
            "torch._inductor.async_compile:AsyncCompile.multi_kernel",
            lambda _: lambda _compiler, *args, **kwargs: MultiKernel(*args, **kwargs),
            "its kernels would be timed",
        ),
        Patch("torch._inductor.runtime.triton_heuristics:cached_autotune", autotune, "kernels would be compiled"),
        Patch(
            "torch._inductor.runtime.triton_helpers:set_driver_to_gpu",
            lambda _: lambda: None,
            "Triton looks for the device's driver",
        ),
        Patch(f"torch.{device}:set_device", lambda _: lambda device: None, "the runtime is asked"),
    ]


@contextlib.contextmanager
def _added(name: str, value: Any) -> Iterator[None]:
    """torch._C with a name that a build without the device lacks, and wrappers import."""
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
