"""Each normalising rule, before and after; renamed variables; whole modules. test_meaning_kept.py tests what stays."""

from __future__ import annotations

import re

import pytest
from expecttest import assert_expected_inline
from raw import ALL, DEVICE, normalised, sample

from conformance.normalize import renaming
from conformance.normalize.rules import RULES, apply_rules
from conformance.normalize.text import normalised_graph
from conformance.normalize.wrapper_modules import normalise

CUDA = "flip-2.13-cuda_sm90"

# name of the rule → (part, text before, text after this rule alone)
BEFORE_AFTER = {
    "imports": ("statement", "from torch import device", ""),
    "aliases": ("statement", "assert_size_stride = torch._C._dynamo.guards.assert_size_stride", ""),
    "get_args": ("statement", "def get_args():\n    return []", ""),
    "benchmark": ("statement", "def benchmark_compiled_module(args, times=10):\n    pass", ""),
    "runner": ("statement", "runner = Runner(partitions=[])", ""),
    "async_compile": ("statement", "async_compile.wait(globals())", ""),
    "kernel path": ("statement", "# kernel path: /tmp/a/b.py\nx = 1", "x = 1"),
    "source nodes": (
        "call",
        "# Topologically Sorted Source Nodes: [y, z], Original ATen: [aten.add]",
        "# Original ATen: [aten.add]",
    ),
    "no origin": ("call", "# Original ATen: []\nf()", "f()"),
    "graph fragment": ("statement", "# Graph fragment:\n#   %a : x\n#   return %a\ny = 1", "y = 1"),
    "provenance": ("call", "# [Provenance debug handles] f:1\nf()", "f()"),
    "source": ("call", "# File: /home/me/a.py:3 in f, code: y = x\nf()", "f()"),
    "graph number": (
        "call",
        "with record_function('graph_3_inductor_wrapper_call'):",
        "with record_function('graph_<number>_inductor_wrapper_call'):",
    ),
    "pattern handlers": (
        "call",
        """check(buf, "a.functools.partial(<function f.<locals>.g at 0x7f1>, Match(..., [], {'x': y(1)}))")""",
        'check(buf, "a.f.<locals>.g")',
    ),
    "paths": ("call", "f('/home/me/.cache/ab/cab.so')", "f('<path>')"),
    "constants": (
        "statement",
        "constant0 = None  # device(type='cpu') torch.float32 (10,) (1,) 7f3a0c",
        "constant0 = None  # device(type='cpu') torch.float32 (10,) (1,)",
    ),
    "packed weights": (
        "statement",
        "_frozen_param4 = None  # device torch.float32 (1459233, 1) (1, 0)",
        "_frozen_param4 = None  # device torch.float32 (packed, 1) (1, 0)",
    ),
    "stream": ("call", "raw_stream0 = get_raw_stream(0)\nf.run(a, stream=raw_stream0)", "f.run(a)"),
    "device guard": (
        "call",
        "with torch.cuda._DeviceGuard(0):\n    torch.cuda.set_device(0)\n    f()",
        "with DeviceGuard(device):\n    f()",
    ),
    "allocator": (
        "call",
        "empty_strided_cuda(a); empty_strided_cpu(b); empty_strided_cpu_pinned(c)",
        "empty_strided_device(a); empty_strided_cpu(b); empty_strided_cpu_pinned(c)",
    ),
    "device": (
        "call",
        "f(device(type='cuda', index=0), 'cuda:0', torch.device('cuda:0'), device(type='cpu'))",
        "f(device, device, device, device(type='cpu'))",
    ),
    "device module": ("call", "torch.cuda.synchronize()", "torch.device.synchronize()"),
    "device index": ("call", "f(device(type='xpu', index=1))", "f(device(type='xpu'))"),
    "clear": ("call", "    args.clear()\n    f()", "    f()"),
    "triton preamble": (
        "triton",
        "import triton\nfrom torch._inductor.runtime import triton_helpers\n@triton.jit\ndef f(): pass",
        "@triton.jit\ndef f(): pass",
    ),
    "triton metadata": (
        "triton",
        "@triton_heuristics.pointwise(size_hints={'x': 8}, filename=__file__, inductor_meta={})\ndef f(): 0",
        "@triton_heuristics.pointwise(\n    size_hints={'x': 8},\n    inductor_meta={},\n)\ndef f(): 0",
    ),
    "includes": ("cpp", "#include <torch/csrc/inductor/cpp_prefix.h>\nint a;", "int a;"),
    "division error": ("cpp", "inductor_cpu_integer_div_error_flag = nullptr;\nint a;", "int a;"),
    "int64 literals": (
        "cpp",
        "f(static_cast<int64_t>(8), static_cast<int64_t>(-8L), static_cast<int32_t>(8))",
        "f(8L, -8L, static_cast<int32_t>(8))",
    ),
    "int64 indices": (
        "cpp",
        """\
in_ptr0[static_cast<int64_t>(x0 + (2L))] = f(out_ptr1 + static_cast<int64_t>(x0),
    in_ptr0 + static_cast<int64_t>(x0 + 8L),
    p + static_cast<int64_t>(y), in_ptr1[static_cast<int32_t>(x0)], in_ptr1[static_cast<int64_t>(x)*2])""",
        """\
in_ptr0[x0 + (2L)] = f(out_ptr1 + x0,
    in_ptr0 + (x0 + 8L),
    p + static_cast<int64_t>(y), in_ptr1[static_cast<int32_t>(x0)], in_ptr1[static_cast<int64_t>(x)*2])""",
    ),
    "vector types": (
        "cpp",
        "at::vec::Vectorized<float> a = at::vec::maximum(b, at::vec::VecMask<float,1>(c));",
        "Vectorized<float> a = at::vec::maximum(b, VecMask<float,1>(c));",
    ),
    "device in C++": ("cpp", "cached_torch_device_type_cuda", "cached_torch_device_type_device"),
    "error flags": ("cpp", "CACHE_TORCH_DTYPE(float32);\nint a;", "int a;"),
    "sizes": ("triton", "def f(ks3, ks1): ks3*ks1 + ks3", "def f(ks0, ks1): ks0*ks1 + ks0"),
    "triton names": (
        "triton",
        "def f():\n    x3 = 1\n    tmp9 = x3\n    _tmp4 = tmp9\n    tmp4 = _tmp4 + tmp9",
        "def f():\n    x0 = 1\n    tmp0 = x0\n    _tmp1 = tmp0\n    tmp1 = _tmp1 + tmp0",
    ),
    "C++ names": (
        "cpp",
        "{ auto tmp7 = a; { auto tmp9 = tmp7; } } { auto tmp1 = b; }",
        "{ auto tmp0 = a; { auto tmp1 = tmp0; } } { auto tmp0 = b; }",
    ),
    "C++ counters": ("cpp", "f(int_array_4, int_array_2, int_array_4)", "f(int_array_0, int_array_1, int_array_0)"),
    "C++ layout": (
        "cpp",
        """\
f(float* a,
                       float* b)
{
    #pragma omp parallel
    {
        for(int x=0;;)
        {
            {
                {
                    a();
                }
            }
            auto c =
            [&]()
            {
                return 1;
            }
            ()
            ;
        }
    }
}""",
        """\
f(float* a,
    float* b)
{
  #pragma omp parallel
  {
    for(int x=0;;) {
      {
        a();
      }
      auto c =
      [&]() {
        return 1;
      }();
    }
  }
}""",
    ),
    "arguments": (
        "call",
        "arg3_1, primals_7, mul_5, mul_2 = args\nf(mul_2, aten.mul_2, arg3_1)",
        "arg0, primals_1, mul, mul_1 = args\nf(mul_1, aten.mul_2, arg0)",
    ),
    "buffers": ("call", "buf7 = f(); buf2 = buf7; del buf7  # reuse", "buf0 = f(); buf1 = buf0; del buf0  # reuse"),
    "symbols": ("call", "s77 = a; s27 = b; f(s27, s77, u0)", "s0 = a; s1 = b; f(s1, s0, u0)"),
}


def test_every_rule_has_a_sample_and_a_reason():
    assert [rule.name for rule in RULES] == list(BEFORE_AFTER)
    assert all(rule.effect and rule.why for rule in RULES)


@pytest.mark.parametrize("name", BEFORE_AFTER)
def test_rule(name):
    part, before, after = BEFORE_AFTER[name]
    (rule,) = [rule for rule in RULES if rule.name == name]
    assert part in rule.parts
    assert rule.function(before, "cuda").strip("\n") == after


# Names --------------------------------------------------------------------------------------------------------------


def renumbered(code: str) -> str:
    """The same module with other numbers in all names, as after an unrelated change in the compiler."""
    for names, factor, offset in [("_?tmp", 7, 3), ("tmp_acc", 3, 1), ("buf", 3, 2), ("x", 2, 5), ("s", 5, 1)]:
        code = re.sub(rf"\b({names})(\d+)(?=\b|_)", lambda m, f=factor, o=offset: f"{m[1]}{int(m[2]) * f + o}", code)
    code = re.sub(r"\b(primals_|arg(?=\d+_1\b))(\d+)", lambda m: f"{m[1]}{int(m[2]) + 9}", code)
    return re.sub(r"\b((?:triton|cpp)_\w*?fused_\w+?_)(\d+)\b", lambda m: f"{m[1]}{int(m[2]) + 9}", code)


@pytest.mark.parametrize("name", [name for name in ALL if "cpp_wrapper" not in name])
def test_renumbering_is_no_difference(name):
    code = sample(name)
    assert renumbered(code) != code
    assert normalise(renumbered(code), DEVICE.search(name)[1]) == normalised(name)


def test_names_stay_distinct_within_a_scope():
    before = "{ auto tmp3 = a; { auto tmp3 = tmp1; f(tmp3); } f(tmp3); }"
    assert renaming.renumber_cpp_variables(before) == "{ auto tmp0 = a; { auto tmp1 = tmp2; f(tmp1); } f(tmp0); }"


def test_sibling_loops_share_names_and_an_unbraced_loop_ends_with_its_statement():
    before = "for(int64_t x4=0; x4<8; x4++) f(x4); for(int64_t x2=0; x2<8; x2++) { g(x2); } for(int x7=0;;) {}"
    after = "for(int64_t x0=0; x0<8; x0++) f(x0); for(int64_t x0=0; x0<8; x0++) { g(x0); } for(int x0=0;;) {}"
    assert renaming.renumber_cpp_variables(before) == after


def test_accumulators_keep_their_number_together():
    before = "float tmp_acc3 = 0; Vec<float> tmp_acc3_vec = 0; float tmp_acc1 = tmp_acc3 + sum(tmp_acc3_vec);"
    after = "float tmp_acc0 = 0; Vec<float> tmp_acc0_vec = 0; float tmp_acc1 = tmp_acc0 + sum(tmp_acc0_vec);"
    assert renaming.renumber_cpp_variables(before) == after


def test_a_name_in_a_message_follows_its_variable():
    assert (
        renaming.renumber_cpp_variables('auto tmp5 = 1; CHECK(tmp5, "tmp5 { <");')
        == 'auto tmp0 = 1; CHECK(tmp0, "tmp0 { <");'
    )


def test_kernels_are_numbered_among_their_own_name():
    names = ["triton_poi_fused_add_3", "triton_poi_fused_mul_4", "triton_poi_fused_add_5", "call_me"]
    assert list(renaming.kernel_names(names).values()) == [
        "triton_poi_fused_add_0",
        "triton_poi_fused_mul_0",
        "triton_poi_fused_add_1",
        "call_me",
    ]


# Targets and versions -----------------------------------------------------------------------------------------------


def test_targets_share_a_text_where_the_kernel_is_the_same():
    a100 = re.sub(
        r"multi_processor_count=132, cc=90, major=9", "multi_processor_count=108, cc=80, major=8", sample(CUDA)
    )
    assert a100 != sample(CUDA)
    assert normalised(CUDA) == normalise(a100, "cuda") == normalised("flip-2.13-xpu_pvc")


def test_another_device_stays_visible():
    assert normalise(sample("flip-2.13-cuda_sm90"), "xpu") != normalised("flip-2.13-xpu_pvc")


def test_versions_differ_by_what_they_do():
    old, new = (set(normalised(f"flip-{version}-cuda_sm90").splitlines()) for version in ("2.11", "2.13"))
    assert_expected_inline(
        "\n".join(sorted({f"- {line.strip()}" for line in old - new} | {f"+ {line.strip()}" for line in new - old})),
        """\
+ arg0 = copy_if_misaligned(arg0)
+ assert_size_stride(arg0, (1, 3, 224, 224), (150528, 50176, 224, 1), 'input')
- assert_size_stride(arg0, (1, 3, 224, 224), (150528, 50176, 224, 1))""",
    )
    assert normalised("flip-2.15-cuda_sm90") == normalised("flip-2.13-cuda_sm90")


@pytest.mark.parametrize("name", ALL)
def test_nothing_of_this_machine_is_left(name):
    text = normalised(name)
    assert not re.search(
        r"torchinductor_|\.py\b|kernel_name|backend_hash|cuda|xpu|raw_stream|Source Nodes|Graph fragment", text
    )
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert all(character.isprintable() or character == "\n" for character in text)


def test_cpp_text():
    assert_expected_inline(
        normalised("flip-2.13-cpu_avx2"),
        """\
# AOT ID: inference

# kernel cpp_fused_flip_0
extern "C"  void  kernel(const uint8_t* in_ptr0,
    uint8_t* out_ptr0)
{
  #pragma omp parallel num_threads(8)
  {
    int tid = omp_get_thread_num();
    {
      #pragma omp for
      for(int64_t x0=0L; x0<672L; x0+=1L) {
        #pragma GCC ivdep
        for(int64_t x1=0L; x1<224L; x1+=1L) {
          auto tmp0 = in_ptr0[223L + ((-1L)*x1) + 224L*x0];
          out_ptr0[x1 + 224L*x0] = tmp0;
        }
      }
    }
  }
}

def call(args):
    arg0, = args
    assert_size_stride(arg0, (1, 3, 224, 224), (150528, 50176, 224, 1), 'input')
    buf0 = empty_strided_device((1, 3, 224, 224), (150528, 50176, 224, 1), torch.uint8)
    cpp_fused_flip_0(arg0, buf0)
    del arg0
    return (buf0, )
""",
    )


def test_triton_text():
    assert_expected_inline(
        normalised("flip-2.13-cuda_sm90"),
        """\
# AOT ID: inference

# kernel triton_poi_fused_flip_0
# Original ATen: [aten.flip]
@triton_heuristics.pointwise(
    size_hints={'x': 262144},
    triton_meta={
        'configs': 'divisible by 16: in_ptr0, out_ptr0, xnumel',
        'signature': 'in_ptr0: *u8, out_ptr0: *u8, xnumel: i32',
    },
    inductor_meta={'num_load': 1, 'num_store': 1, 'tiling_scores': {'x': 301056}},
)
@triton.jit
def triton_poi_fused_flip_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 150528
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 224)
    x1 = xindex // 224
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (223 + ((-1)*x0) + 224*x1), xmask, eviction_policy='evict_last')
    tl.store(out_ptr0 + (x2), tmp0, xmask)

def call(args):
    arg0, = args
    assert_size_stride(arg0, (1, 3, 224, 224), (150528, 50176, 224, 1), 'input')
    with DeviceGuard(device):
        arg0 = copy_if_misaligned(arg0)
        buf0 = empty_strided_device((1, 3, 224, 224), (150528, 50176, 224, 1), torch.uint8)
        # Original ATen: [aten.flip]
        triton_poi_fused_flip_0.run(arg0, buf0, 150528)
        del arg0
    return (buf0, )
""",
    )


def test_a_cpp_wrapper_shows_its_calls():
    text = normalised("flip-2.13-cpu_cpp_wrapper")
    assert "cpp_fused_flip_0((const uint8_t*)(arg0_1.data_ptr()), (uint8_t*)(buf0.data_ptr()));" in text
    assert "_wrap_func" not in text


def test_a_subgraph_is_a_call():
    code = "def true_graph_0(args):\n    true_graph_0_arg3_1, = args\n    args.clear()\n    true_graph_0_buf4 = 1\n"
    assert normalise(code, "cpu") == (
        "def true_graph_0(args):\n    true_graph_0_arg0, = args\n    true_graph_0_buf0 = 1\n"
    )


def test_what_no_rule_knows_stays():
    assert "mystery = torch.ops.mylib.mystery" in normalise("mystery = torch.ops.mylib.mystery\n", "cpu")
    assert "partitions=[partition_0]" in normalise("runner = Runner(partitions=[partition_0])\n", "cpu")
    assert "# argument types: float*" in normalise(
        "k = async_compile.cpp_pybinding(['float*'], r'''\nextern \"C\" void kernel(double* a)\n{}\n''')\n", "cpu"
    )


def test_control_characters_become_escapes():
    assert apply_rules("f('\x1b[0m')", "call", "cpu") == "f('\x1b[0m')"
    assert normalise("f('\x1b[0m')\n", "cpu") == "f('\\x1b[0m')\n"


def test_a_graph_counts_users_kernels_by_itself():
    call = "wrap(kernel_idx = {}, constant_args_idx = {})\n"
    printed = call.format(3, 7) + call.format(3, 9) + call.format(5, 7)
    assert normalised_graph(printed, "cuda") == call.format(0, 0) + call.format(0, 1) + call.format(1, 0)


def test_a_graph_names_no_file():
    printed = """
def forward(self, primals):
     # File: /home/me/test_mm.py:4 in f, code: return x @ y
    mm: "f32[2]cuda:0" = torch.ops.aten.mm.default(primals_1, primals_2);  primals_1 = None
     # ac_graph_id: 2 - PREFER_RECOMPUTE File: /home/me/test_mm.py:4 in f, code: return x @ y
     # Backward of forward node: File: /home/me/test_mm.py:4 in f, code: return x @ y
    permute: "f32[2]cuda:0" = torch.ops.aten.permute.default(mm, [1, 0])
"""
    assert (
        normalised_graph(printed, "cuda")
        == """\
def forward(self, primals):
    mm: "f32[2]device" = torch.ops.aten.mm.default(primals_1, primals_2)
    permute: "f32[2]device" = torch.ops.aten.permute.default(mm, [1, 0])
"""
    )
