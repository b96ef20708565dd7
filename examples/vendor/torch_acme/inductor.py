"""The device's Inductor backend: kernels in C++, and a wrapper of its own that calls them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor import config
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

from torch_acme import device as acme


class AcmeInterface(DeviceInterface):
    """What Dynamo and Inductor ask the device."""

    device = acme.device
    Stream, Event = torch.Stream, torch.Event
    is_available = staticmethod(acme.is_available)
    device_count = staticmethod(acme.device_count)
    current_device = staticmethod(acme.current_device)
    set_device = staticmethod(acme.set_device)
    current_stream = staticmethod(acme.current_stream)
    set_stream = staticmethod(acme.set_stream)
    stream = staticmethod(acme.stream)
    synchronize = staticmethod(acme.synchronize)

    class Worker:
        """The same, for Inductor's compile processes."""

        set_device = staticmethod(acme.set_device)
        current_device = staticmethod(acme.current_device)
        get_device_properties = staticmethod(acme.get_device_properties)

    @staticmethod
    def exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        return 0


class AcmeOverrides(DeviceOpOverrides):
    """Lines of the wrapper's code."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(_):\n    return 0\n"

    def set_device(self, device_idx: int) -> str:
        return f"torch.{acme.NAME}.set_device({device_idx})"

    def synchronize(self) -> str:
        return f"torch.{acme.NAME}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{acme.NAME}.device({device_idx})"

    def cpp_kernel_type(self) -> str:
        return "void*"


class AcmeScheduling(CppScheduling):
    """Loops in C++: the device's memory is the host's, so a kernel gets pointers to it."""

    def codegen_node(self, node: Any) -> None:
        with _kernels_in_cpp(vectorised=not any(map(_adds_by_index, node.get_nodes()))):
            super().codegen_node(node)

    def codegen_template(self, *args: Any, **kwargs: Any) -> Any:
        with _kernels_in_cpp():
            return super().codegen_template(*args, **kwargs)


def _kernels_in_cpp(*, vectorised: bool = True) -> contextlib.AbstractContextManager[None]:
    """Inductor takes the language of a device that it does not know from the option for cuda, which is Triton."""
    return config.patch({"cuda_backend": "cpp"} | ({} if vectorised else {"cpp.simdlen": 1}))


def _adds_by_index(node: Any) -> bool:
    """Whether the loop is a scatter with sums. Inductor leaves those of `cpu` to ATen: its vectorised kernels refuse
    some of them (an assertion in CppVecKernel.store, torch 2.13).
    """
    return getattr(getattr(node.node, "data", None), "scatter_mode", None) is not None


class _KernelCalls:
    """Calls of C++ kernels. PyTorch's own wrapper calls them for `cpu` only."""

    def _generate_kernel_call_helper(self: Any, kernel_name: str, call_args: Any, **options: Any) -> None:
        self.writeline(self.wrap_kernel_call(kernel_name, call_args))


class AcmeSubgraphWrapper(_KernelCalls, SubgraphPythonWrapperCodegen):
    """The wrapper of a branch or a loop's body."""


class AcmeWrapper(_KernelCalls, PythonWrapperCodegen):
    """The wrapper in Python."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return AcmeSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return AcmeWrapper()


#: Steps of fusion that Inductor leaves out for kernels in C++. It decides by the name of the device, `cpu`.
_NOT_FOR_CPP = ("loop_ordering_after_fusion", "loop_reindexing_after_fusion", "loop_index_inversion_in_fusion")


def register() -> None:
    """Registers the backend, and sets the options of Inductor that it needs."""
    for option in _NOT_FOR_CPP:
        if hasattr(config, option):  # the last two are newer than torch 2.11
            setattr(config, option, False)
    register_interface_for_device(acme.NAME, AcmeInterface)
    register_interface_for_device(f"{acme.NAME}:0", AcmeInterface)
    register_device_op_overrides(acme.NAME, AcmeOverrides())
    register_backend_for_device(acme.NAME, AcmeScheduling, AcmeWrapper, CppWrapperCpu)
