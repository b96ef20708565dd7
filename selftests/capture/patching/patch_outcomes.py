"""For each patch of torch, a function whose outcome changes without the patch. patches_driver.py calls them.

Imported in a process of its own: importing it prepares torch for deviceless captures.
"""

from __future__ import annotations

import ctypes
import tempfile
import types
from collections.abc import Callable
from pathlib import Path

from conformance.capture.deviceless.prepare import prepare
from conformance.devices.cpp_compiler import find_compiler

prepare()

import torch  # noqa: E402
import torch._inductor.codegen.cpp  # noqa: E402 - what every capture imports, once for all forks
import torch._inductor.codegen.triton  # noqa: E402
import torch._inductor.compile_fx  # noqa: E402
import torch._inductor.fx_passes.joint_graph  # noqa: E402
import torch._inductor.fx_passes.post_grad  # noqa: E402
import torch._inductor.fx_passes.reduced_atomic_contention  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from backend_outcomes import called_by_pallas, generated_by_halide  # noqa: E402
from processor_outcomes import cache_of, caches, flags, has_amx_fp16, has_avx2, of_amx, of_products  # noqa: E402
from torch._inductor import config  # noqa: E402

from conformance.capture import isolation  # noqa: E402
from conformance.capture.deviceless import pretended_device  # noqa: E402
from conformance.capture.deviceless.device_queries import DeviceQueries, kernel_properties  # noqa: E402
from conformance.cases.case import Case  # noqa: E402
from conformance.compiler.case_request import CaseRequest, capture  # noqa: E402
from conformance.devices.targets import targets  # noqa: E402

torch.set_num_threads(1)  # threads do not survive a fork
pretended_device.register_operators(prepare().pretended_devices)


class MadeCase(Case):
    """A case whose arguments are functions that make the values."""

    def build(self, seed: int = 0):
        torch.manual_seed(seed)
        return {name: make() for name, make in self.arguments.items()}


def code(fn: Callable, config: dict | None = None, **arguments: Callable) -> Callable[[str], str]:
    case = MadeCase("patches", "one", (), fn, Path(__file__), arguments, config=config or {})

    def generated(target: str) -> str:
        with capture(CaseRequest(case, targets()[target])) as result:
            return "\n".join(module.code for module in result.capture.modules)

    return generated


def explored(target: str) -> str:
    """The graphs and scripts of an explored capture."""
    arguments = {"x": random(40, grad=True)}
    a_case = MadeCase("patches", "one", (), lambda x: x.sin() * 2, Path(__file__), arguments, grad=("x",))
    with capture(CaseRequest(a_case, targets()[target], explore=True)) as result:
        found = result.capture.exploration
    graphs = [f"{graph.stage} {graph.when}" for graph in found.graphs]
    return "\n".join([*graphs, f"{found.script.count('class ')} graphs in the script"])


def with_compiler_check(name: str, value: bool, generate: Callable[[str], str]) -> Callable[[str], str]:
    """The code that is generated if Inductor's check `name` of the compiler returns `value`."""

    def generated(target: str) -> str:
        from torch._inductor import cpp_builder

        setattr(cpp_builder, name, lambda: value)
        return generate(target)

    return generated


def random(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(*shape).to(dtype).requires_grad_(grad)


def using_answer(question: str) -> Callable[[str], str]:
    """The code of a function that calls the device's module while it is compiled, or between two graphs."""

    def fn(x):
        return x * 2 if getattr(getattr(torch, x.device.type), question)() else x + 1

    return code(fn, x=random(4))


def synchronised(x):
    y = x + 1
    getattr(torch, x.device.type).synchronize()
    return y * 2


def within(x):
    with getattr(torch, x.device.type).device(x.device):
        return x + 1


@torch._dynamo.disable
def _beside(x):
    return within(x)


def beside(x):
    return _beside(x) * 2


def registered(target: str) -> str:
    """How many patterns a capture on a second device adds."""
    from torch._inductor.fx_passes import joint_graph, post_grad

    add("cpu_avx2")
    before = _patterns(joint_graph) + _patterns(post_grad)
    add(target)
    return f"{_patterns(joint_graph) + _patterns(post_grad) - before} patterns more"


def _patterns(module) -> int:
    passes = [value for value in vars(module).values() if type(value).__name__ == "PatternMatcherPass"]
    passes += getattr(module, "pass_patterns", [])
    return sum(len(entries) for each in passes for entries in each.patterns.values())


def queued(target: str) -> str:
    """How many calls torch queues until the device is initialised."""
    module = getattr(torch, targets()[target].device)
    before = len(module._queued_calls)
    add(target)
    return f"{len(module._queued_calls) - before} calls wait for the device"


def scattered(x, i):
    return torch.zeros(10, device=x.device).index_put((i,), x, accumulate=True)


def built(target: str) -> str:
    """The result of a build where a partial library exists."""
    from torch._inductor import codecache, cpp_builder

    with tempfile.TemporaryDirectory() as folder, isolation.isolated(targets()[target], "deviceless", {}):
        source, whole = Path(folder, "code.cpp"), Path(folder, "code.so")
        source.write_text('extern "C" int answer() { return 42; }')
        whole.write_text("\177ELF half of it")
        options = cpp_builder.BuildOptionsBase(compiler=find_compiler(), cflags=["fPIC"], ldflags=["shared"])
        options._finalize_options()
        builder = cpp_builder.CppBuilder("code", str(source), options, folder)
        codecache._worker_compile_cpp(f"{folder}/lock", (builder,))
        try:
            return f"answers {ctypes.CDLL(str(whole)).answer()}"
        except OSError as error:
            return str(error).rpartition(": ")[2]


def placed(name: str) -> Callable[[str], str]:
    """Whether Inductor's folder of precompiled headers is in its cache."""

    def where(target: str) -> str:
        from torch._inductor import codecache
        from torch._inductor.runtime.runtime_utils import cache_dir

        with isolation.isolated(targets()[target], "deviceless", {}):
            inside = Path(getattr(codecache, name)).is_relative_to(cache_dir())
        return "in the cache" if inside else "elsewhere"

    return where


def timed(target: str) -> str:
    """Whether Dynamo times the guards."""
    from torch._dynamo import guards

    calls, original = [], guards.profile_guard_manager
    guards.profile_guard_manager = lambda *args: calls.append(args) or original(*args)
    add(target)
    return "timed" if calls else "not timed"


def estimated(target: str) -> str:
    """The inputs of estimates of a kernel's time. Torch 2.15 asks for the clock by the device's index."""
    from torch import _utils_internal
    from torch._inductor import utils

    with isolation.isolated(targets()[target], "deviceless", {}):
        return f"{utils.get_device_tflops(torch.half)} TFLOPS, {_utils_internal.max_clock_rate()} MHz"


class ThroughTheCpu(torch.autograd.Function):
    """A backward that CUDA graphs cannot record."""

    @staticmethod
    def forward(_ctx, x):
        return x * 2

    @staticmethod
    def backward(_ctx, gradient):
        return gradient.cpu().to(gradient.device)


def unrecorded(target: str) -> str:
    """Why torch refuses to record CUDA graphs. In a build with cuda, its allocator is switched off here."""
    from torch._inductor import cudagraph_utils

    if torch.version.cuda:
        torch._C._cuda_cudaCachingAllocator_enable(False)
    with isolation.isolated(targets()[target], "deviceless", {}):
        return str(cudagraph_utils.check_caching_allocator_for_cudagraphs())


@triton.jit
def doubling(x, y, n, BLOCK: tl.constexpr):  # noqa: N803 - as users write them
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(x + place, place < n) * 2, place < n)


tuned = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])(doubling)


def doubled(x):
    y = torch.empty_like(x)
    doubling[(3,)](x, y, 40, BLOCK=16)
    return y


def tuning(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(40, meta["BLOCK"]),)](x, y, 40)
    return y


ADDED = MadeCase("patches", "one", (), lambda x: x + 1, Path(__file__), {"x": random(40)})
add = code(lambda x: x + 1, x=random(40))
graphs = {"triton.cudagraphs": True}
recorded = code(lambda x: x + 1, {**graphs, "graph_partition": False}, x=random(40))
partly = code(lambda x: ThroughTheCpu.apply(x) + 1, graphs, x=random(40, grad=True))
total = code(lambda x: x.sum(), x=random(300, 500))
unproven = code(lambda x: x + 1, {"cpp.vec_isa_ok": False}, x=random(4000))  # as if the probe could not be built
product = code(lambda a, b: a @ b, a=random(64, 64), b=random(64, 64))
odd = code(lambda a, b: a @ b, a=random(1023, 1021, dtype=torch.half), b=random(1021, 1019, dtype=torch.half))
listed = code(lambda x: x[[0, 3, 1]].sum(0), x=random(64, 12, grad=True))
normed = code(
    lambda x, w: torch.ops.aten._batch_norm_with_update(x, w, w, w.clone(), w.clone(), 0.1, 1e-5),
    x=random(2, 3, 4, 4),
    w=random(3),
)
#: A share of the device's memory. Torch 2.15 has a minimum instead, and does not catch an error of the query.
budget = {"partitioned_scatter_memory_budget": 1e-15}
scatter = code(
    scattered,
    {"partitioned_scatter_enabled": True} | {name: share for name, share in budget.items() if hasattr(config, name)},
    x=random(100000),
    i=lambda: torch.zeros(100000, dtype=torch.long),
)

square = torch.cuda.jiterator._create_jit_fn("template <typename T> T square(T x) { return x * x; }")

rows = code(lambda x: x.flip(-1)[:, ::3] % 7, x=lambda: torch.arange(4000).reshape(40, 100))


def batched(target: str) -> str:
    """The error of loading a kernel from a batch: the library of the batch has no kernel of that name."""
    import _ctypes
    import shutil

    from torch._inductor.codecache import CppPythonBindingsCodeCache

    with tempfile.TemporaryDirectory() as folder:
        for name in ("ab", "batches"):
            Path(folder, name).mkdir()
        shutil.copy(_ctypes.__file__, Path(folder, "batches", "batch-1.so"))
        kernel = Path(folder, "ab", "x.main.so")
        Path(f"{kernel}.batch").write_text("batch-1.so\n0\n", encoding="utf-8")
        with isolation.isolated(targets()[target], "deviceless", {}):
            try:
                CppPythonBindingsCodeCache._load_library_inner(str(kernel), "key")
            except ImportError as error:
                return str(error).replace(folder, "")
    return "it was loaded"


def asked(target: str) -> str:
    """What a capture asks the device, and what emulation asks."""
    with capture(CaseRequest(ADDED, targets()[target], emulate=True)) as result:
        result.compiled(torch.rand(40, device=targets()[target].device))
        return ", ".join(map(str, result.queries.answers))


def asked_by_a_kernel(target: str) -> str:
    """What the heuristics of an emulated kernel ask, which makes its DeviceProperties."""
    from torch._inductor.runtime import hints

    written, queries = kernel_properties(targets()[target]), DeviceQueries(targets()[target])
    with isolation.isolated(targets()[target], "deviceless", {}, queries):
        hints.DeviceProperties(*written).warp_size  # noqa: B018 - reading asks
    return ", ".join(map(str, queries.answers))


def asked_for_descriptors(target: str) -> str:
    """What it asks whether the device has TMA, where the answer counts."""
    queries = DeviceQueries(targets()[target])
    with isolation.isolated(targets()[target], "deviceless", {}, queries):
        torch.utils._triton.has_triton_tensor_descriptor_host_tma()
    return ", ".join(map(str, queries.answers))


def contracted(target: str) -> str:
    """The code of an einsum where the package opt_einsum is installed."""
    package = types.SimpleNamespace(contract_path=lambda *_, **__: ([(1, 2), (0, 1)], ""))
    is_available = torch.backends.opt_einsum.is_available
    is_available.__wrapped__.__globals__["_opt_einsum"] = package
    is_available.cache_clear()
    torch.backends.opt_einsum.enabled = True
    return code(lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), **dict.fromkeys("abc", random(4, 4)))(target)


def declared(_target: str) -> str:
    """The C++ wrapper of a sum, where no two bound methods have the same address."""
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    kept, original = [], CppWrapperCpu._codegen_int_array_var_impl

    def keep(self, int_array, writeline, *args, **kwargs):
        kept.append(writeline)
        return original(self, int_array, writeline, *args, **kwargs)

    CppWrapperCpu._codegen_int_array_var_impl = keep
    return code(lambda x: x.sum(), {"cpp_wrapper": True}, x=random(20))("cpu_avx2")


def answered(name: str) -> Callable[[str], str]:
    """What a function of the device's module returns during a capture."""

    def outcome(target: str) -> str:
        with isolation.isolated(targets()[target], "deviceless", {}):
            return str(getattr(getattr(torch, targets()[target].device), name)())

    return outcome


def built_for(target: str) -> str:
    """The version that torch was built with."""
    with isolation.isolated(targets()[target], "deviceless", {}):
        return str(getattr(torch.version, targets()[target].device))


def allowed_tf32(target: str) -> str:
    """Whether products in float32 may take TF32 on xpu."""
    with isolation.isolated(targets()[target], "deviceless", {}):
        return str(torch.backends.mkldnn.allow_tf32)


def heuristic(target: str) -> str:
    """The heuristics of pointwise kernels during a capture, after someone asked for them."""
    from torch._inductor.heuristics.registry import get_codegen_heuristic

    device = targets()[target].device
    get_codegen_heuristic("pointwise", device)
    with isolation.isolated(targets()[target], "deviceless", {}):
        return type(get_codegen_heuristic("pointwise", device)).__name__


def stepped(optimizer: str) -> Callable[[str], str]:
    """A step of an optimizer that can be recorded, with parameters on the CPU."""

    def outcome(target: str) -> str:
        weight = torch.ones(3, requires_grad=True)
        weight.grad = torch.ones(3)
        with isolation.isolated(targets()[target], "deviceless", {}):
            getattr(torch.optim, optimizer)([weight], capturable=True).step()
        return "made a step"

    return outcome


def masked(query, key, value, mask):
    """Attention with a mask of another dtype, which Inductor fuses in a build for ROCm."""
    query, key, value = (each.permute(0, 2, 1, 3) for each in (query, key, value))
    weights = ((query @ key.transpose(-2, -1)).div(3.0) + mask).softmax(dim=-1)
    return weights.to(query.dtype) @ value


def attention_on_rocm(target: str) -> str:
    """The code of attention for ROCm, where the patterns were made for a capture on another device."""
    add(target)
    heads = random(2, 8, 4, 16, dtype=torch.half)
    return code(masked, **dict.fromkeys(("query", "key", "value"), heads), mask=random(2, 4, 8, 8))("rocm_gfx942")


#: Without the patch, Inductor would time its choices on the device.
product_of_choices = code(lambda a, b: a @ b, {"max_autotune": True}, a=random(64, 64), b=random(64, 64))

#: Without the patch, Inductor would run the kernel on the device.
tuned_at_compile_time = code(lambda x: x.cos(), {"triton.autotune_at_compile_time": True}, x=random(20))

#: Where a patch is, with "gpu" for the device → a function whose outcome changes without the patch.
OUTCOMES: dict[str, Callable[[str], str]] = {
    "torch._inductor.fx_passes.joint_graph:lazy_init": registered,
    "torch._inductor.fx_passes.pad_mm:_should_pad": odd,
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.__call__": product_of_choices,
    "torch._inductor.codegen.wrapper:PythonWrapperCodegen.generate_and_run_autotune_block": tuned_at_compile_time,
    "torch._dynamo.guards:profile_guard_manager": timed,
    "torch.backends.opt_einsum:is_available": contracted,
    "torch._inductor.codegen.cpp_wrapper_cpu:CppWrapperCpu.codegen_int_array_var": declared,
    "torch._inductor.runtime.hints:DeviceProperties.create": asked,
    "torch._inductor.runtime.hints:DeviceProperties": asked_by_a_kernel,
    "torch._dynamo.variables.builder:VariableBuilder._wrap": asked,
    "torch._inductor.codegen.triton:TMACompatibilityChecker.can_use_tma": asked,
    "torch.utils._triton:has_triton_experimental_host_tma": asked,
    "torch.utils._triton:has_triton_tensor_descriptor_host_tma": asked_for_descriptors,
    "torch._inductor.codecache:_worker_compile_cpp": built,
    "torch._inductor.codecache:_worker_task_halide": generated_by_halide,
    "torch._inductor.codegen.pallas:PallasKernelWrapper.run": called_by_pallas,
    "torch._inductor.codecache:CppPythonBindingsCodeCache._load_library_inner": batched,
    "torch._inductor.codecache:_HEADER_DIR": placed("_HEADER_DIR"),
    "torch._inductor.codecache:_HEADER_LOCK_DIR": placed("_HEADER_LOCK_DIR"),
    "torch.gpu:is_available": using_answer("is_available"),
    "torch.gpu:device_count": using_answer("device_count"),
    "torch.gpu:current_device": using_answer("current_device"),
    "torch.gpu:get_device_properties": using_answer("get_device_properties"),
    "torch.gpu:_is_compiled": using_answer("_is_compiled"),
    "torch.gpu:get_arch_list": answered("get_arch_list"),
    "torch.version:xpu": built_for,
    "torch._inductor.kernel.bmm:aten_bmm_dtype.cpp_kernel_name": code(
        lambda a, b: torch.bmm(a, b, out_dtype=torch.float32),
        {"cpp_wrapper": True},
        **dict.fromkeys("ab", random(2, 16, 16, dtype=torch.half)),
    ),
    "torch.backends.mkldnn:MkldnnModule.allow_tf32": allowed_tf32,
    "torch._inductor.heuristics.registry:_HEURISTIC_REGISTRY": heuristic,
    "torch._inductor.heuristics.registry:_HEURISTIC_CACHE": heuristic,
    "torch.gpu:synchronize": code(synchronised, x=random(4)),
    "torch.gpu:_lazy_init": add,
    "torch.gpu:is_current_stream_capturing": using_answer("is_current_stream_capturing"),
    "torch.gpu:_exchange_device": code(beside, x=random(4)),
    "torch.gpu:_maybe_exchange_device": code(beside, x=random(4)),
    "torch.gpu:set_rng_state": queued,
    "torch._dynamo.variables.ctx_manager:DeviceVariable._exchange_fn": code(within, x=random(4)),
    "torch._dynamo.variables.ctx_manager:DeviceVariable._maybe_exchange_fn": code(within, x=random(4)),
    "torch.gpu:get_rng_state": add,
    "torch.cuda:mem_get_info": scatter,
    "torch.xpu:mem_get_info": answered("mem_get_info"),
    "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init": listed,
    "torch.storage:_StorageBase.clone": listed,
    "torch._C:_get_cudnn_batch_norm_reserve_space_size": normed,
    "torch.cuda.jiterator:_JittedFunction.__call__": code(lambda x: square(x + 1) * 2, x=random(4)),
    "torch._utils_internal:max_clock_rate": estimated,
    "torch._inductor.cudagraph_utils:check_caching_allocator_for_cudagraphs": unrecorded,
    "torch._inductor.compile_fx:cudagraphify": recorded,
    "torch._inductor.compile_fx:compile_fx": explored,
    "torch._inductor.compile_fx:_recursive_pre_grad_passes": explored,
    "torch._inductor.compile_fx:_recursive_joint_graph_passes": explored,
    "torch._inductor.compile_fx:_recursive_post_grad_passes": explored,
    "torch._inductor.output_code:maybe_handle_backward_generation": partly,
    "torch.utils._triton:triton_hash_with_backend": add,
    "triton.runtime.jit:JITFunction.run": code(doubled, x=random(40)),
    "triton.runtime.autotuner:Autotuner._bench": code(tuning, x=random(40)),
    "torch._higher_order_ops.triton_kernel_wrap:generate_ttir": code(doubled, x=random(40)),
    "torch._inductor.runtime.triton_helpers:get_backend_options_for_target": code(doubled, x=random(40)),
    "torch._inductor.cpu_vec_isa:pick_vec_isa": total,
    "torch._inductor.codecache:pick_vec_isa": flags,
    "torch._inductor.codegen.cpp_micro_gemm:pick_vec_isa": of_products,
    "torch.cpu:_is_avx2_supported": has_avx2,
    "torch._inductor.cpu_vec_isa:VecAMX._is_avx512_bf16_supported": of_amx,
    "torch.cpu:_is_amx_fp16_supported": has_amx_fp16,
    "torch.cpu:get_capabilities": caches,
    "torch._C._cpu:_L1d_cache_size": cache_of("_L1d_cache_size"),
    "torch._C._cpu:_L2_cache_size": cache_of("_L2_cache_size"),
    "torch._inductor.cpu_vec_isa:VecISA.__bool__": unproven,
    "torch._inductor.fx_passes.fuse_attention:_sfdp_extra_check": attention_on_rocm,
    "torch.optim.adadelta:_get_capturable_supported_devices": stepped("Adadelta"),
    "torch.optim.adam:_get_capturable_supported_devices": stepped("Adam"),
    "torch.optim.adamax:_get_capturable_supported_devices": stepped("Adamax"),
    "torch.optim.asgd:_get_capturable_supported_devices": stepped("ASGD"),
    "torch.optim.nadam:_get_capturable_supported_devices": stepped("NAdam"),
    "torch.optim.radam:_get_capturable_supported_devices": stepped("RAdam"),
    "torch.optim.rmsprop:_get_capturable_supported_devices": stepped("RMSprop"),
    "torch.optim.rprop:_get_capturable_supported_devices": stepped("Rprop"),
    "torch._inductor.cpp_builder:is_gcc": with_compiler_check("is_gcc", False, rows),
    "torch._inductor.cpp_builder:is_msvc_cl": with_compiler_check("is_msvc_cl", True, total),
}
