"""The context of every capture: its result depends only on the case, the target, torch and Triton.

`isolated` applies patches to torch, sets options and clears caches. So captures of different targets in one process do
not affect each other.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from conformance.capture.compiler_options import refuse_wrong_options, split_options
from conformance.capture.deviceless import (
    gpu_patches,
    optimizers,
    pretended_device,
    rocm_build,
    user_kernels,
    xpu_build,
)
from conformance.capture.deviceless.device_queries import DeviceQueries, kernel_properties
from conformance.capture.deviceless.prepare import in_use, prepare
from conformance.capture.model import Mode
from conformance.capture.patching import device_patterns, name_lookup, template_choice
from conformance.capture.patching.patch import Patch, applied, is_missing
from conformance.capture.toolchain import atomic_build, cpu_isa, kernel_batch, other_backends, precompiled_headers
from conformance.devices import environment
from conformance.devices.targets import GPUS, Target
from conformance.devices.vendor_devices import vendor_devices

#: Functions of torch that cache a property of the device. Their caches are cleared before and after each capture.
#: A name that the installed torch does not have is skipped.
DEVICE_CACHES = (
    "torch._inductor.runtime.hints:DeviceProperties.create",  # by device type: sm80 would get sm90's properties
    "torch._inductor.utils:get_gpu_type",
    "torch._inductor.utils:is_big_gpu",
    "torch._inductor.utils:get_max_num_sms",
    "torch._inductor.utils:using_b200",
    "torch._inductor.utils:get_gpu_dram_gbps",
    "torch._inductor.utils:get_device_tflops",  # to 2.13
    "torch._inductor.utils:_get_device_tflops",  # from 2.15
    "torch._inductor.utils:_get_device_dram_gbps",  # from 2.15
    "torch._inductor.utils:get_backend_num_stages",
    "torch._inductor.utils:_rocm_native_device_arch_name",
    "torch._utils_internal:max_clock_rate",  # by ROCm's architecture
    "torch._inductor.comm_analysis:get_gpu_type",
    "torch._inductor.kernel.mm:_is_sm7x_or_older_gpu",
    "torch._inductor.codegen.cuda.cuda_env:get_cuda_arch",
    "torch._inductor.codegen.cuda.cuda_env:is_datacenter_blackwell_arch",
    "torch._inductor.codegen.cutlass.utils:cutlass_arch",  # from 2.13
    "torch.utils._triton:has_triton",
    "torch.utils._triton:_device_supports_tma",  # to 2.13
    "torch.utils._triton:_device_supports_tensor_descriptor",  # from 2.15
    "torch.utils._triton:has_triton_tensor_descriptor_host_tma",
    "torch.utils._triton:has_triton_tma",
    "torch.utils._triton:has_triton_tma_device",
    "torch.utils._triton:has_triton_cuda_tma_device",  # from 2.15
    "torch.utils._triton:has_datacenter_blackwell_tma_device",
    "torch.utils._triton:has_triton_stable_tma_api",
    "torch.utils._triton:triton_backend",
    "torch.xpu:get_device_capability",
)

#: Functions of torch that cache what an option of Inductor decides. They are cleared too.
OPTION_CACHES = (
    "torch._inductor.codegen.triton:TritonKernel.gen_common_triton_imports",  # proton_profiling adds an import
)

#: For native and deviceless captures, so that both give the same code.
COMMON_PATCHES = [
    Patch(
        "torch._inductor.fx_passes.pad_mm:_should_pad",
        lambda _: lambda *args, **kwargs: _force_shape_pad(),
        "it times padded and unpadded products and caches the result; now it pads only if the case's options say so",
    ),
    Patch(
        "torch.backends.opt_einsum:is_available",
        lambda _: lambda: False,
        "an optional package, if it is installed, chooses the order in which einsum contracts its operands",
    ),
    Patch(
        "torch._dynamo.guards:profile_guard_manager",
        lambda _: lambda *args: 0.0,
        "it flushes the processor's caches to time the guards for a log: 5 % of an item's time",
        optional=True,
    ),
    template_choice.PATCH,
    atomic_build.PATCH,
    *kernel_batch.PATCHES,
    *other_backends.PATCHES,
    *precompiled_headers.PATCHES,
]


#: To torch 2.12.
_DECLARATIONS = Patch(
    "torch._inductor.codegen.cpp_wrapper_cpu:CppWrapperCpu.codegen_int_array_var",
    lambda original: functools.partialmethod(_with_kept_writer, original),
    "it finds earlier declarations by the id of a bound method that is freed at once: the text depended on memory",
    until="2.12",
)


#: A capture without the device writes it as well, and runs nothing.
_AUTOTUNE_BLOCK = Patch(
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.generate_and_run_autotune_block",
    lambda original: functools.partialmethod(_with_autotune_block, original),
    "it runs the code that tunes kernels at compile time, and the generated code does not have it",
)


def _with_autotune_block(wrapper: Any, original: Callable[[Any], None]) -> None:
    gpu_patches.write_autotune_block(wrapper)
    original(wrapper)


def _common_patches(target: Target) -> list[Patch]:
    common = [*COMMON_PATCHES, device_patterns.patch(target.device), _DECLARATIONS]
    return [*common, *precompiled_headers.laid_patches(), *rocm_build.attention_patches()]


def _with_kept_writer(
    wrapper: Any, original: Callable[..., str], int_array: str, writeline: Any, *args: Any, **kwargs: Any
) -> str:
    """Calls `original` with the same object for equal bound methods `writeline`."""
    kept = wrapper.__dict__.setdefault("_conformance_writers", {})
    return original(wrapper, int_array, kept.setdefault(writeline, writeline), *args, **kwargs)


def _force_shape_pad() -> bool:
    from torch._inductor import config

    return config.force_shape_pad


def inductor_options(target: Target) -> dict[str, Any]:
    """Inductor's options for a capture: decisions depend on no timing, no host property and no cache."""
    options: dict[str, Any] = {
        "fx_graph_cache": False,  # a cache hit builds no scheduler, so there are no facts; its key lacks the ISA
        "fx_graph_remote_cache": False,
        "compile_threads": 1,  # patches do not reach other processes
        "max_autotune": False,
        "max_autotune_pointwise": False,
        "max_autotune_gemm": False,
        "coordinate_descent_tuning": False,
        "benchmark_fusion": False,
        "benchmark_combo_kernel": False,
        "combo_kernels": False,
        "triton.multi_kernel": 0,
        "triton.autotune_at_compile_time": False,
        "triton.cudagraphs": False,
        "freezing": False,
    }
    if target.threads:
        options["cpp.threads"] = target.threads
    if target.platform == "rocm":
        options |= rocm_build.CONFIG
    return options


#: AOTAutograd's options (torch._functorch.config).
FUNCTORCH_OPTIONS = {
    "enable_autograd_cache": False,
    "force_non_lazy_backward_lowering": True,  # else the backward is lowered at its first call, outside the context
}

#: Dynamo's options (torch._dynamo.config).
DYNAMO_OPTIONS = {
    "automatic_dynamic_local_pgo": False,  # it would use shapes that an earlier process recorded
    "automatic_dynamic_remote_pgo": False,
    # else Dynamo stops compiling after some recompiles, and the numerics check would compare eager with eager
    "fail_on_recompile_limit_hit": True,
    "specialize_float": True,  # a case's constants stay constants with dynamic shapes
    "specialize_int": True,
}


@functools.cache
def _cached_functions() -> tuple[Any, ...]:
    functions = []
    for name in DEVICE_CACHES + OPTION_CACHES:
        module, _, path = name.partition(":")
        try:
            function = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            continue
        if hasattr(function, "cache_clear"):
            functions.append(function)
    return tuple(functions)


def clear_caches() -> None:
    for function in _cached_functions():
        function.cache_clear()


def patches(target: Target, mode: Mode, queries: DeviceQueries | None = None) -> list[Patch]:
    """All patches of torch for a capture of the target in the mode. `queries`: gets what torch asks."""
    if target.isa:
        ask = functools.partial(queries.ask, "instruction set") if queries is not None else None
        return [*_common_patches(target), *cpu_isa.patches(target.isa, ask)]
    pretended = mode == "deviceless"
    if pretended and target.device not in GPUS:
        return [*_common_patches(target), *optimizers.PATCHES]
    device = gpu_patches.patches(target, queries) if pretended else [_AUTOTUNE_BLOCK]
    host = cpu_isa.patches(isa) if (isa := cpu_isa.isa_beside_gpu()) else []
    return [*_common_patches(target), *user_kernels.patches(pretended), *optimizers.PATCHES, *host, *device]


@contextlib.contextmanager
def isolated(
    target: Target, mode: Mode, config: dict[str, Any], queries: DeviceQueries | None = None
) -> Iterator[None]:
    """The context of one capture. `config`: the case's options, applied last; Dynamo's begin with `dynamo.`.

    `queries`: gets what torch asks a pretended device.

    Private: torch._dynamo.reset and the config modules of Inductor, AOTAutograd and Dynamo, since no public function
    resets or sets them.
    """
    import torch
    import torch._dynamo
    from torch._dynamo import config as dynamo_config
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    with contextlib.ExitStack() as stack:
        pretended = mode == "deviceless" and target.device != "cpu"
        stack.enter_context(in_use())
        stack.callback(clear_caches)
        stack.callback(torch._dynamo.reset)
        stack.callback(_end_profiling)
        if pretended:
            pretended_device.register_operators(prepare().pretended_devices)
            if target.device in GPUS:
                queries = queries or DeviceQueries(target)
                kernel_properties(target)  # before the patches below replace what it needs
            xpu_build.import_deciding_modules()
            pretended_device.set_device(target)
            stack.callback(pretended_device.set_device, None)
            if queries is not None:
                stack.callback(_note_choices, queries, pretended_device.choice_count())
        clear_caches()
        # without it, several sizes of one code object become dynamic, and Dynamo stops after 8 recompiles
        torch._dynamo.reset()
        if mode == "native":
            cpu_isa.use_natively(target.isa)
        stack.enter_context(applied(patches(target, mode, queries)))
        if pretended:
            vendor = vendor_devices().get(target.device)
            if vendor is not None and vendor.pretending is not None:
                stack.enter_context(vendor.pretending(target.properties))
            elif queries is not None:
                stack.enter_context(gpu_patches.registered_target(queries))
            # autograd's thread for a missing device would abort the process
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(_patch_existing(inductor_config, inductor_options(target)))
        refuse_wrong_options(config)
        case_inductor_options, case_dynamo_options = split_options(config)
        stack.enter_context(inductor_config.patch(case_inductor_options))
        stack.enter_context(_patch_existing(functorch_config, FUNCTORCH_OPTIONS))
        stack.enter_context(_patch_existing(dynamo_config, DYNAMO_OPTIONS))
        stack.enter_context(dynamo_config.patch(case_dynamo_options))
        yield


def _end_profiling() -> None:
    """Ends Triton's profiler. Code for triton.proton_profiling starts it, and would end it with the process.

    Until then it hooks into each launch of a kernel, and a later capture ended with a signal.
    """
    if profiler := sys.modules.get("triton.profiler"):
        profiler.finalize()


def _note_choices(queries: DeviceQueries, before: int) -> None:
    """`before`: the count at the beginning. Choices of a capture inside this one count here too."""
    if pretended_device.choice_count() != before:
        queries.ask("choices of C++")


def _patch_existing(module: Any, options: dict[str, Any]) -> Any:
    """Sets those of the options that the installed torch has."""
    return module.patch({name: value for name, value in options.items() if hasattr(module, name)})


def patch_problems(
    targets: Iterable[Target], native: Collection[str] = (), is_missing: Callable[[str], bool] = is_missing
) -> dict[str, str]:
    """Device type or platform → the message that names a part of torch which a patch needs and this torch lacks.

    Those without a problem are left out. `native`: device types whose GPU is on this machine; they need fewer
    patches. `is_missing`: decides whether torch lacks a name; by default by importing torch.
    """
    from conformance.capture.observers import kernels, recognised

    of_all = recognised.missing_for_all(is_missing)
    first: dict[str, str] = {}  # device type or platform → the first missing name
    for target in targets:
        pretended = target.device in GPUS and target.device not in native
        mode: Mode = "deviceless" if pretended else "native"
        if of_all:
            first[target.family] = of_all
        for patch in [*patches(target, mode), *cpu_isa.CODEGEN_PATCHES, *kernels.patches()]:
            is_needed = patch.applies() and not patch.optional and not patch.facts
            if target.family not in first and is_needed and is_missing(patch.where):
                first[target.family] = patch.where.replace(":", ".")
    return {
        device: _missing_message(name, [each for each in first if first[each] == name])
        for device, name in first.items()
    }


def _missing_message(name: str, devices: Sequence[str]) -> str:
    *others, last = devices
    listed = f"{', '.join(others)} and {last}" if others else last
    version = environment.torch_build().version
    return f"torch {version}: {name} is missing, so code for {listed} cannot be generated reproducibly"


def missing_in_sources() -> Callable[[str], bool]:
    """Decides from torch's sources, without importing torch, whether torch lacks a name. It can miss one."""
    folder = environment.torch_build().folder
    return functools.cache(lambda where: name_lookup.is_missing(where, folder))
