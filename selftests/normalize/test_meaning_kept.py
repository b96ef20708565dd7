"""Normalising hides no meaning: pairs of real modules that must stay different, and pairs that must become equal."""

from __future__ import annotations

import random
import re

import pytest
from raw import ALL, DEVICE, normalised, sample

from conformance.normalize.wrapper_modules import normalise

CUDA, MIXED, DYNAMIC = "flip-2.13-cuda_sm90", "mixed-2.13-cuda_sm90", "sum_dynamic-2.13-cuda_sm90"
MIX_ORDER = "mix_order"
CPU, NORM = "flip-2.13-cpu_avx2", "layer_norm-2.13-cpu_avx512"

DIFFERENT = {
    "eviction policy": (MIXED, "evict_first", "evict_last"),
    "eviction dropped": (DYNAMIC, ", eviction_policy='evict_first'", ""),
    "mask dropped": (MIXED, "tl.load(in_out_ptr0 + (x0), xmask)", "tl.load(in_out_ptr0 + (x0), None)"),
    "other value of a mask": (DYNAMIC, "other=0.0", "other=float('-inf')"),
    "precision of dot": (MIXED, "tmp1 = tl_math.cos(tmp0)", "tmp1 = tl.dot(tmp0, tmp0, input_precision='tf32')"),
    "tf32 and ieee": (MIXED, "tl_math.cos(tmp0)", "tl.dot(tmp0, tmp0, input_precision='ieee')"),
    "accuracy of a function": (MIXED, "tl_math.cos", "libdevice.cos"),
    "rounding": (MIXED, "tmp0.to(tl.float32)", "tmp0.to(tl.float32, fp_downcast_rounding='rtz')"),
    "dtype of a load": (DYNAMIC, "'in_ptr0': '*fp32'", "'in_ptr0': '*bf16'"),
    "type of an index": (CUDA, "'xnumel': 'i32'", "'xnumel': 'i64'"),
    "size hint": (CUDA, "size_hints={'x': 262144}", "size_hints={'x': 131072}"),
    "divisibility": (CUDA, "(2,): [['tt.divisibility', 16]]", "(2,): [['tt.divisibility', 8]]"),
    "divisibility dropped": (CUDA, ", (2,): [['tt.divisibility', 16]]", ""),
    "bound": (CUDA, "xnumel = 150528", "xnumel = 150527"),
    "grid": (CUDA, "'grid_type': 'Grid1D'", "'grid_type': 'Grid2D'"),
    "tiling scores": (CUDA, "'tiling_scores': {'x': 301056}", "'tiling_scores': {'x': 1}"),
    "loads": (CUDA, "'num_load': 1", "'num_load': 2"),
    "stores": (CUDA, "'num_store': 1", "'num_store': 2"),
    "reductions": (DYNAMIC, "'num_reduction': 1", "'num_reduction': 2"),
    "no_x_dim": (DYNAMIC, "'no_x_dim': False", "'no_x_dim': True"),
    "no_x_dim None": (MIXED, "'no_x_dim': None", "'no_x_dim': False"),
    "spill threshold": (CUDA, "'spill_threshold': 16", "'spill_threshold': 32"),
    "deterministic": (CUDA, "'deterministic': False", "'deterministic': True"),
    "deterministic algorithms": (
        CUDA,
        "'are_deterministic_algorithms_enabled': False",
        "'are_deterministic_algorithms_enabled': True",
    ),
    "max_autotune": (CUDA, "'max_autotune': False", "'max_autotune': True"),
    "atomic add": (CUDA, "'atomic_add_found': False", "'atomic_add_found': True"),
    "fp fusion": (CUDA, "'enable_fp_fusion': True", "'enable_fp_fusion': False"),
    "flush to zero": (CUDA, "'disable_ftz': False", "'disable_ftz': True"),
    "an option no rule knows": (CUDA, "'optimize_mem': True", "'optimize_mem': True, 'mystery': 3"),
    "constant": (MIXED, "'constants': {'xnumel': 1}", "'constants': {'xnumel': 2}"),
    "kind of kernel": (DYNAMIC, "triton_red_fused", "triton_per_fused"),
    "heuristic": (DYNAMIC, "triton_heuristics.reduction", "triton_heuristics.split_scan"),
    "reduction hint": (DYNAMIC, "ReductionHint.INNER", "ReductionHint.OUTER"),
    "elements a thread": (CUDA, "min_elem_per_thread=0", "min_elem_per_thread=4"),
    "what was fused": (MIXED, "Original ATen: [aten.cos]", "Original ATen: [aten.cos, aten.relu]"),
    "in place": (MIXED, "'mutated_arg_names': ['in_out_ptr0']", "'mutated_arg_names': []"),
    "operands": (DYNAMIC, "tmp4 = _tmp3 + tmp2", "tmp4 = _tmp3 + tmp1"),
    "device of a kernel": (CUDA, "''', device_str='cuda')", "''', device_str='cpu')"),
    "guard": (DYNAMIC, "DeviceProperties(type='cuda'", "DeviceProperties(type='cpu'"),
    "reuse": (MIXED, "buf2 = buf1; del buf1  # reuse", "buf2 = empty_strided_cuda((32, 32), (32, 1), torch.float32)"),
    "order of del": (MIXED, "            del arg1_1\n            buf2 = buf1;", "            buf2 = buf1; del arg1_1;"),
    "size of a call": (MIXED, ".run(buf2, 1024,", ".run(buf2, 512,"),
    "arguments of a call": (MIXED, "mm(arg0_1, arg1_1,", "mm(arg1_1, arg0_1,"),
    "order of arguments": (MIXED, "arg0_1, arg1_1 = args", "arg1_1, arg0_1 = args"),
    "extern": (MIXED, "extern_kernels.mm", "extern_kernels.bmm"),
    "strides of a buffer": (MIXED, "empty_strided_cuda((32, 32), (32, 1)", "empty_strided_cuda((32, 32), (1, 32)"),
    "dtype of a buffer": (CUDA, "torch.uint8)\n", "torch.int8)\n"),
    "place of a buffer": (CUDA, "buf0 = empty_strided_cuda", "buf0 = empty_strided_cpu"),
    "strides asserted": (CUDA, "(150528, 50176, 224, 1), 'input')", "(150528, 1, 672, 3), 'input')"),
    "assertion dropped": (CUDA, "        assert_size_stride(arg0_1", "        # (arg0_1"),
    "alignment": (CUDA, "            arg0_1 = copy_if_misaligned(arg0_1)\n", ""),
    "symbols swapped": (DYNAMIC, "(s77, s27), (s27, 1)", "(s77, s27), (s77, 1)"),
    "sizes given": (DYNAMIC, "buf0, s27, s77, s27,", "buf0, s27, s27, s77,"),
    "forward and backward": (NORM, "3_forward", "3_backward"),
    "threads": (CPU, "num_threads(8)", "num_threads(4)"),
    "parallel loop": (CPU, "#pragma omp for", "#pragma omp for collapse(2)"),
    "ivdep": (CPU, "#pragma GCC ivdep\n", "\n"),
    "C++ bound": (CPU, "x0<static_cast<int64_t>(672L)", "x0<static_cast<int64_t>(671L)"),
    "C++ index": (CPU, "223L + ((-1L)*x1) + 224L*x0", "223L + ((-1L)*x0) + 224L*x1"),
    "C++ type of an index": (CPU, "static_cast<int64_t>(x1 + 224L*x0)", "static_cast<int32_t>(x1 + 224L*x0)"),
    "width of a literal": (CPU, "x1+=static_cast<int64_t>(1L)", "x1+=static_cast<int32_t>(1L)"),
    "C++ dtype": (CPU, "uint8_t*", "int8_t*"),
    "vector width": (NORM, "x1+=static_cast<int64_t>(16L)", "x1+=static_cast<int64_t>(8L)"),
    "vector type": (NORM, "at::vec::Vectorized<float>::loadu(in_ptr0", "at::vec::Vectorized<half>::loadu(in_ptr0"),
    "tail": (NORM, "C10_LIKELY(x1 >= static_cast<int64_t>(0)", "C10_LIKELY(x1 > static_cast<int64_t>(0)"),
    "accumulator": (NORM, "tmp_acc0_vec = tmp_acc0_vec + tmp0", "tmp_acc0 = tmp_acc0_vec + tmp0"),
    "epsilon": (NORM, "1e-05", "1e-06"),
    "meaning of an argument": (CUDA, "'in_ptr0': '*u8', 'out_ptr0'", "'out_ptr0': '*u8', 'in_ptr0'"),
    "divisible by other names": (DYNAMIC, "[{(0,): [['tt.div", "[{(2,): [['tt.div"),
    "none divisible": (DYNAMIC, "(0,): [['tt.divisibility', 16]], (1,): [['tt.divisibility', 16]]", ""),
    "two configurations": (DYNAMIC, "'configs': [{(0,)", "'configs': [{(1,): [['tt.divisibility', 16]]}, {(0,)"),
    "a property no rule knows": (DYNAMIC, "{(0,): [[", "{(1,): [['tt.pointer_range', 32]], (0,): [["),
    "a size that is a constant": (DYNAMIC, "'ks0': 'i64'", "'ks0': 'constexpr'"),
    "a block size that is given": (DYNAMIC, "'R0_BLOCK': 'constexpr'", "'R0_BLOCK': 'i32'"),
    "memory": (CUDA, "'optimize_mem': True", "'optimize_mem': False"),
    "stages of a mix-order reduction": (MIX_ORDER, "allow_multi_stages': True", "allow_multi_stages': False"),
    "block of a vector": (DYNAMIC, "[XBLOCK, R0_BLOCK])", "[R0_BLOCK, XBLOCK])"),
    "type of an accumulator": (DYNAMIC, "0, tl.float32)", "0, tl.float64)"),
    "axis of a sum": (DYNAMIC, "tl.sum(_tmp3, 1)", "tl.sum(_tmp3, 0)"),
    "loop instead of all at once": (DYNAMIC, "tl.range(0, r0_numel, R0_BLOCK)", "tl.range(0, r0_numel, 1)"),
    "mask of a store": (CUDA, "tmp0, xmask)", "tmp0, None)"),
    "function of a scan": (MIXED, "arg0_0 + arg1_0", "arg0_0 * arg1_0"),
    "direction of a scan": (MIXED, "_triton_helper_fn_add0)", "_triton_helper_fn_add0, reverse=True)"),
    "what is returned": (MIXED, "return (buf0, buf2, buf3, )", "return (buf0, buf3, buf2, )"),
    "offset of a view": (
        NORM,
        "reinterpret_tensor(buf1, (8, 1), (1, 1), 0)",
        "reinterpret_tensor(buf1, (8, 1), (1, 1), 4)",
    ),
    "a cast of an index to less": (CPU, "in_ptr0[static_cast<int64_t>(", "in_ptr0[static_cast<int32_t>("),
    "a cast inside an index": (
        CPU,
        "static_cast<int64_t>(x1 + 224L*x0)",
        "static_cast<int64_t>(x1 + 224L*static_cast<int32_t>(x0))",
    ),
    "a cast that is not of an index": (NORM, "static_cast<float>(64.0)", "static_cast<double>(64.0)"),
    "a statement out of its loop": (
        NORM,
        "tmp_acc0_vec = tmp_acc0_vec + tmp0;\n                        }",
        "}\n tmp_acc0_vec = tmp_acc0_vec + tmp0;",
    ),
    "a reduction of other vectors": (NORM, "at::vec::vec_reduce_all<float, 1>", "at::vec::vec_reduce_all<float, 2>"),
    "where threads begin": (
        CPU,
        "#pragma omp parallel num_threads(8)\n    {",
        "{\n    #pragma omp parallel num_threads(8)",
    ),
    "order of C++ statements": (
        NORM,
        "auto tmp1 = static_cast<float>(64.0);\n                    auto tmp2 = at::vec::Vectorized<float>(tmp1);",
        "auto tmp2 = at::vec::Vectorized<float>(tmp1);\n                    auto tmp1 = static_cast<float>(64.0);",
    ),
    "rsqrt": (NORM, "tmp6.rsqrt()", "tmp6.sqrt().reciprocal()"),
}


def mix_order():
    """A module with the keys that the heuristic for mix-order reductions reads."""
    return sample(DYNAMIC).replace("'num_load': 1", "'num_load': 1, 'RSPLIT_SIZE': 64")


@pytest.mark.parametrize("name", DIFFERENT)
def test_meaning_is_kept(name):
    source, before, after = DIFFERENT[name]
    code = mix_order() if source == MIX_ORDER else sample(source)
    assert before in code
    device = "cuda" if source == MIX_ORDER else DEVICE.search(source)[1]
    assert normalise(code.replace(before, after), device) != normalise(code, device)


# What must be equal -------------------------------------------------------------------------------------------------

BRACES = (
    """
                    {
                        if(C10_LIKELY(x1 >= static_cast<int64_t>(0) && x1 < static_cast<int64_t>(64L)))
                        {
                            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 64L*x0), static_cast<int64_t>(16));
                            tmp_acc0_vec = tmp_acc0_vec + tmp0;
                        }
                    }
""",  # noqa: E501
    """
                    if(C10_LIKELY(x1 >= static_cast<int64_t>(0) && x1 < static_cast<int64_t>(64L)))
                    {
                        {
                            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1 + 64L*x0), static_cast<int64_t>(16));
                            tmp_acc0_vec = tmp_acc0_vec + tmp0;
                        }
                    }
""",  # noqa: E501
)
OLD = "flip-2.11-cuda_sm90"
EQUAL = {
    "AOT ID": (CUDA, "# AOT ID: ['", "# AOT ID: ['9"),
    "an import": (CUDA, "import random\n", ""),
    "another import": (CPU, "import random\n", "import random\nfrom torch._inductor.somewhere import something\n"),
    "an import in a kernel": (
        DYNAMIC,
        "import triton.language as tl\n\n",
        "import triton.language as tl\nimport triton.extra\n\n",
    ),
    "an alias": (MIXED, "alloc_from_pool = torch.ops.inductor._alloc_from_pool\n", ""),
    "path of a kernel": (MIXED, "torchinductor_someone", "torchinductor_me"),
    "no path of a kernel": (DYNAMIC, "# kernel path: ", "# kernel path: somewhere else than "),
    "names in the user's code": (MIXED, "Source Nodes: [cos]", "Source Nodes: [y, activation]"),
    "names of nodes": (MIXED, "#   cos => cos\n", "#   y => cos, relu\n"),
    "a graph fragment": (MIXED, "#   return %cos\n", "#   %more : Tensor = x\n#   return %more\n"),
    "hash of the backend": (DYNAMIC, "'backend_hash': 'no-device'", "'backend_hash': 'F3C0FFEE'"),
    "keeping binaries": (DYNAMIC, "'store_cubin': False", "'store_cubin': True"),
    "a local cache": (CUDA, "'autotune_local_cache': True", "'autotune_local_cache': False"),
    "a remote cache": (CUDA, "'autotune_remote_cache': None", "'autotune_remote_cache': True"),
    "no caches": (CUDA, "'force_disable_caches': False", "'force_disable_caches': True"),
    "a default left out": (CUDA, "'native_matmul': False, ", ""),
    "two defaults left out": (CUDA, "'deterministic': False, 'batch_invariant': False, ", ""),
    "hints written as a tuple": (CUDA, "'autotune_hints': set()", "'autotune_hints': ()"),
    "keys in another order": (
        CUDA,
        "'num_load': 1, 'num_store': 1, 'num_reduction': 0",
        "'num_reduction': 0, 'num_store': 1, 'num_load': 1",
    ),
    "a switch of mix-order reductions elsewhere": (CUDA, "allow_multi_stages': True", "allow_multi_stages': False"),
    "file of a kernel": (MIXED, "    filename=__file__,\n", ""),
    "index of the device": (MIXED, "index=0,", "index=3,"),
    "multiprocessors of the target": (MIXED, "multi_processor_count=132", "multi_processor_count=108"),
    "another property of the target": (MIXED, "warp_size=32)", "warp_size=32, shared_memory=1)"),
    "name of the stream": (MIXED, "raw_stream0", "stream0"),
    "a guard for another device of that type": (MIXED, "_DeviceGuard(0)", "_DeviceGuard(1)"),
    "no set_device": (MIXED, "            torch.cuda.set_device(0)\n", ""),
    "inputs of the benchmark": (CUDA, "rand_strided((1, 3, 224, 224)", "rand_strided((2, 3, 224, 224)"),
    "repeats of the benchmark": (CUDA, "times=10, repeat=10", "times=100, repeat=1"),
    "runner": (CUDA, "recursively_apply_fns = runner.recursively_apply_fns\n", ""),
    "waiting": (CUDA, "del async_compile\n", ""),
    "args cleared": (CUDA, "        args.clear()\n", ""),
    "old: names of arguments": (OLD, "arg0_1", "arg7_1"),
    "number of a kernel": (MIXED, "triton_poi_fused_cos_1", "triton_poi_fused_cos_8"),
    "number of the last kernel": (MIXED, "triton_per_fused_cumsum_2", "triton_per_fused_cumsum_11"),
    "number of a buffer": (MIXED, "buf3", "buf17"),
    "number of a value": (DYNAMIC, "tmp2", "tmp12"),
    "number of an accumulator": (DYNAMIC, "tmp3", "tmp31"),
    "number of an index": (CUDA, "x2", "x7"),
    "number of a reduced index": (DYNAMIC, "r0_1", "r0_4"),
    "number of a size": (DYNAMIC, "ks0", "ks5"),
    "name of a symbol": (DYNAMIC, "s77", "s3"),
    "empty lines": (DYNAMIC, "async_compile.wait", "\n\nasync_compile.wait"),
    "blanks at an end": (MIXED, "size_hints={'x': 1024}, \n", "size_hints={'x': 1024},\n"),
    "headers": (CPU, "#include <torch/csrc/inductor/cpp_prefix.h>\n", '#include "/tmp/ab/cab.h"\n#include <array>\n'),
    "cast of a literal": (CPU, "static_cast<int64_t>(672L)", "672L"),
    "a literal that is cast": (NORM, "static_cast<int64_t>(16)", "static_cast<int64_t>(16L)"),
    "cast of an index": (CPU, "static_cast<int64_t>(x1 + 224L*x0)", "x1 + 224L*x0"),
    "cast of an offset": (NORM, "out_ptr0 + static_cast<int64_t>(x0)", "out_ptr0 + x0"),
    "namespace of vectors": (NORM, "at::vec::Vectorized<", "Vectorized<"),
    "braces around a block": (NORM, *BRACES),
    "number of a C++ value": (NORM, "tmp7", "tmp70"),
    "number of a C++ accumulator": (NORM, "tmp_acc0", "tmp_acc5"),
    "number of a loop": (CPU, "x1", "x4"),
    "the flag of a division": (CPU, "    inductor_cpu_integer_div_error_flag = nullptr;\n", ""),
    "number of a C++ kernel": (NORM, "cpp_fused_native_layer_norm_0", "cpp_fused_native_layer_norm_4"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_means_nothing_is_no_difference(name):
    source, before, after = EQUAL[name]
    code = sample(source)
    assert before in code
    device = DEVICE.search(source)[1]
    assert normalise(code.replace(before, after), device) == normalise(code, device)


def test_there_are_enough_of_both():
    assert len(DIFFERENT) >= 40
    assert len(EQUAL) >= 40


NAME = re.compile(r"\b(tmp|buf|x|arg|s|primals_|tmp_acc)(\d+)(?=\b|_)")
TOKEN = re.compile(r"(?<![\w.])\d+(?=\b|L)|\b(?:tl|torch|at::vec::)\.?[a-z]\w*\b|(?<= )[-+*/<](?= )")
#: Lines that a rule removes on purpose.
DROPPED = re.compile(r"import|division_error|div_error|_DeviceGuard|set_device|DeviceProperties|inductor_meta|^\s*#")


@pytest.mark.parametrize("name", [name for name in ALL if "cpp_wrapper" not in name])
def test_any_other_name_number_or_operator_shows(name):
    code, device, chance = sample(name), DEVICE.search(name)[1], random.Random(name)
    start, end = code.index("async_compile = "), code.index("async_compile.wait")
    lines = [m for m in re.finditer(r".+", code[start:end]) if not DROPPED.search(m[0])]
    found = [
        (pattern, match, start + line.start())
        for line in lines
        for pattern in (NAME, TOKEN)
        for match in pattern.finditer(line[0])
    ]
    numbers = {match[2] for pattern, match, _ in found if pattern is NAME}
    for pattern, match, offset in chance.sample(found, min(30, len(found))):
        if pattern is NAME:
            new = match[1] + chance.choice(sorted(numbers - {match[2]}))
        else:
            new = str(int(match[0]) + 1) if match[0].isdigit() else match[0] + "?"
        changed = code[: offset + match.start()] + new + code[offset + match.end() :]
        assert normalise(changed, device) != normalised(name), f"{match[0]} → {new} in {match.string}"


def test_order_of_calls_is_kept():
    code = sample(MIXED)
    calls = re.findall(r"^ +triton_\w+\.run\(.*\n", code, re.MULTILINE)
    first, last = calls[0], calls[-1]
    swapped = code.replace(first, "\0").replace(last, first).replace("\0", last)
    assert normalise(swapped, "cuda") != normalise(code, "cuda")
