"""What cached functions of torch return for a second device. test_caches.py runs this in a process of its own.

Prints, as JSON on the line that begins with RESULT: {function: [its result for the second device alone, its result
after the first device, the same if isolation.DEVICE_CACHES lacks the function]}, and the names that are only in
DEVICE_CACHES or only in QUESTIONS. Each result comes from its own fork.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
from collections.abc import Callable
from typing import Any

from conformance.capture.deviceless.prepare import prepare

prepare()

import torch  # noqa: E402
import torch._inductor.compile_fx  # noqa: E402 - what every capture imports, once for all forks

from conformance.capture import isolation  # noqa: E402
from conformance.capture.deviceless import pretended_device  # noqa: E402
from conformance.devices.targets import Target, targets  # noqa: E402

pretended_device.register_operators(prepare().pretended_devices)

SM80, SM90, SM100, PVC, BMG, CPU = (
    targets()[name] for name in ("cuda_sm80", "cuda_sm90", "cuda_sm100", "xpu_pvc", "xpu_bmg", "cpu_avx2")
)
GFX942, GFX950 = (targets()[name] for name in ("rocm_gfx942", "rocm_gfx950"))
GFX908 = dataclasses.replace(GFX942, name="rocm_gfx908", properties=dict(GFX942.properties) | {"gcnArchName": "gfx908"})
OLD = dataclasses.replace(SM80, name="cuda_sm70", capability=(7, 0))
SMALL = dataclasses.replace(SM90, name="cuda_small", properties=dict(SM90.properties) | {"multi_processor_count": 20})
Call = Callable[[Callable[..., Any]], Any]


def without_arguments(function: Callable[..., Any]) -> Any:
    return function()


GPU = torch.device("cuda", 0)


def with_gpu(function: Callable[..., Any]) -> Any:
    return function(GPU)


#: Function → two devices for which it returns different results, and how to call it.
QUESTIONS: dict[str, tuple[Target, Target, Call]] = {
    "torch._inductor.runtime.hints:DeviceProperties.create": (SM80, SM90, with_gpu),
    "torch._inductor.utils:get_gpu_type": (PVC, SM90, without_arguments),
    "torch._inductor.utils:is_big_gpu": (SM90, SMALL, with_gpu),
    "torch._inductor.utils:get_max_num_sms": (SM80, SM90, without_arguments),
    "torch._inductor.utils:using_b200": (SM90, SM100, without_arguments),
    "torch._inductor.utils:get_gpu_dram_gbps": (SM80, SM90, without_arguments),
    "torch._inductor.utils:get_device_tflops": (SM80, SM90, lambda function: function(torch.half)),
    "torch._inductor.utils:_get_device_tflops": (SM80, SM90, lambda function: function(torch.half, GPU)),
    "torch._inductor.utils:_get_device_dram_gbps": (SM80, SM90, lambda function: function(GPU)),
    "torch._inductor.utils:get_backend_num_stages": (GFX942, SM90, without_arguments),
    "torch._inductor.utils:_rocm_native_device_arch_name": (GFX942, GFX950, lambda function: function("cuda")),
    "torch._utils_internal:max_clock_rate": (GFX942, GFX908, without_arguments),
    "torch._inductor.comm_analysis:get_gpu_type": (SM80, SM90, without_arguments),
    "torch._inductor.kernel.mm:_is_sm7x_or_older_gpu": (OLD, SM90, lambda function: function(0)),
    "torch._inductor.codegen.cuda.cuda_env:get_cuda_arch": (SM80, SM90, without_arguments),
    "torch._inductor.codegen.cuda.cuda_env:is_datacenter_blackwell_arch": (SM90, SM100, without_arguments),
    "torch._inductor.codegen.cutlass.utils:cutlass_arch": (SM80, SM90, lambda function: function("cuda")),
    "torch.utils._triton:has_triton": (CPU, SM90, without_arguments),
    "torch.utils._triton:_device_supports_tma": (SM80, SM90, without_arguments),
    "torch.utils._triton:_device_supports_tensor_descriptor": (SM80, SM90, without_arguments),
    "torch.utils._triton:has_triton_tensor_descriptor_host_tma": (SM80, SM90, without_arguments),
    "torch.utils._triton:has_triton_tma": (SM80, SM90, without_arguments),
    "torch.utils._triton:has_triton_tma_device": (SM80, SM90, without_arguments),
    "torch.utils._triton:has_triton_cuda_tma_device": (SM80, SM90, without_arguments),
    "torch.utils._triton:has_datacenter_blackwell_tma_device": (SM90, SM100, without_arguments),
    "torch.utils._triton:has_triton_stable_tma_api": (SM80, SM90, without_arguments),
    "torch.utils._triton:triton_backend": (SM80, SM90, lambda function: function().target),
    "torch.xpu:get_device_capability": (PVC, BMG, without_arguments),
}


def named(where: str) -> Callable[..., Any]:
    module, _, path = where.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def exists(where: str) -> bool:
    try:
        return hasattr(named(where), "cache_clear")
    except (ImportError, AttributeError):
        return False


def answer(where: str, *, alone: bool, left_out: bool) -> str:
    first, second, call = QUESTIONS[where]
    if left_out:
        isolation.DEVICE_CACHES = tuple(name for name in isolation.DEVICE_CACHES if name != where)
    if not alone:
        with isolation.isolated(first, "deviceless", {}):
            call(named(where))
    with isolation.isolated(second, "deviceless", {}):
        return repr(call(named(where)))


def forked(where: str, **how: bool) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            try:
                out.write(answer(where, **how))
            except Exception as error:  # noqa: BLE001 - what it raises is the answer
                out.write(f"raises {type(error).__name__}: {error}")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


if __name__ == "__main__":
    found = {
        where: [
            forked(where, alone=True, left_out=False),
            forked(where, alone=False, left_out=False),
            forked(where, alone=False, left_out=True),
        ]
        for where in isolation.DEVICE_CACHES
        if where in QUESTIONS and exists(where)
    }
    print("RESULT" + json.dumps([found, sorted(set(isolation.DEVICE_CACHES) ^ set(QUESTIONS))]))
