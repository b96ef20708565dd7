"""Kernels compiled without the device: resources of their binaries, stages, and errors."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from conformance.capture.model import Capture, Module
from conformance.capture.offline import compiler, cubin

triton = pytest.importorskip("triton", reason="kernels are compiled by Triton")

HEAD = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties
triton_helpers.set_driver_to_gpu()
{extra}
@triton_heuristics.user_autotune(
    configs=[{blocks}],
    inductor_meta={{'kernel_name': '{name}', 'grid_type': 'FixedGrid', 'fixed_grid': ['1', '1', '1']}},
    triton_meta={{'signature': {signature}, 'constants': {{}}, 'configs': [{{{attributes}}}],
        'device': DeviceProperties(type='{device}', index=0, multi_processor_count=132, cc=90, major=9,
            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32)}},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def {name}({arguments}):
"""

POINTERS = {"a": "*fp32", "out": "*fp32"}


def kernel(name, body, *, blocks, pointers=POINTERS, aligned=True, warps=4, extra="", device="cuda"):
    """A kernel's text as Inductor writes it; `aligned`: whether its pointers are multiples of 16 bytes."""
    attributes = ", ".join(f"({n},): [['tt.divisibility', 16]]" for n in range(len(pointers)) if aligned)
    text = HEAD.format(
        name=name,
        blocks=blocks | {"num_warps": warps, "num_stages": 2},
        extra=extra,
        device=device,
        signature=pointers | dict.fromkeys(blocks, "constexpr"),
        attributes=attributes,
        arguments=", ".join([*pointers, *(f"{block}: tl.constexpr" for block in blocks)]),
    )
    return compiler.Kernel(name, text + "".join(f"    {line}\n" for line in body), device, "inference")


def launch(a_kernel):
    (only,) = compiler.launches(a_kernel)
    return only


COPY = ["index = tl.arange(0, X)", "tl.store(out + index, tl.load(a + index) + 1)"]
SPILLING = ["index = tl.arange(0, X)", "x = tl.load(a + index)", "tl.store(out + index, x * tl.sum(x, 0))"]
PRODUCT = [
    "row, column = tl.arange(0, X)[:, None], tl.arange(0, X)[None, :]",
    "x = tl.load(a + row * X + column)",
    "tl.store(out + row * X + column, tl.dot(x, x))",
]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """An empty cache, so that everything is compiled; one worker for the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONFORMANCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        compiler._worker.cache_clear()
        yield
        compiler._worker().close()
        compiler._worker.cache_clear()


def test_a_plain_kernel_needs_few_registers_and_nothing_else():
    found = launch(kernel("plain", COPY, blocks={"X": 1024}))
    assert (found.config, found.last) == ("X=1024 num_warps=4 num_stages=2", "cubin")
    assert 8 <= found.registers <= 32
    assert (found.spills, found.shared_memory, found.tensor_cores) == (0, 0, 0)


def test_spills_are_found():
    found = launch(kernel("spilling", SPILLING, blocks={"X": 16384}, warps=1))
    assert found.spills > 1000


def test_tensor_cores_and_shared_memory_are_found():
    pointers = {"a": "*fp16", "out": "*fp32"}
    found = launch(kernel("product", PRODUCT, blocks={"X": 64}, pointers=pointers))
    assert found.tensor_cores > 0
    assert found.shared_memory >= 64 * 64 * 2


def test_the_widest_access_depends_on_the_alignment():
    aligned, misaligned = (
        launch(kernel(name, COPY, blocks={"X": 1024}, aligned=name == "aligned")) for name in ("aligned", "misaligned")
    )
    assert (aligned.widest_access, misaligned.widest_access) == (128, 32)


def test_the_instructions_say_the_same_as_the_ptx():
    """The facts come from the PTX, since disassembling takes as long as compiling."""
    for aligned, loads in ((True, "LDG.E.128"), (False, "LDG.E R")):
        ((_, text),) = compiler.stage_texts(kernel("copied", COPY, blocks={"X": 1024}, aligned=aligned), "sass")
        assert loads in text


@pytest.mark.parametrize(
    ("ptx", "bits"),
    [
        ("@%p1 ld.global.L1::evict_first.L2::cache_hint.v4.b32 { %r1, %r2 }, [ %rd1 + 0 ];", 128),
        ("ld.global.v8.b32 {%r1}, [%rd1];", 256),
        ("st.global.b8 [ %rd1 + 0 ], { %rs1 };", 8),
        ("ld.volatile.global.u64 %rd1, [%rd2];", 64),
        ("ld.relaxed.gpu.global.v2.f32 {%f1, %f2}, [%rd2];", 64),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", 128),
        ("ld.shared.v4.b32 {%r1}, [%r2];", 0),
        ("ld.param.u64 %rd1, [x]; .param .u64 .ptr .global .align 1 x", 0),
    ],
)
def test_the_width_of_an_access(ptx, bits):
    assert cubin.widest_access(ptx) == bits


def test_a_mistake_is_named_with_its_line():
    a_kernel = kernel("mistaken", ["index = tl.arange(0, X)", "tl.store(out + index, nothing)"], blocks={"X": 64})
    line = a_kernel.text.rstrip().count("\n") + 1
    with pytest.raises(compiler.KernelError) as raised:
        compiler.launches(a_kernel)
    assert str(raised.value).startswith(
        f"mistaken (inference) does not compile for cuda: line {line} of its text, `tl.store(out + index, nothing)`: "
    )
    assert "nothing is not defined" in str(raised.value)


def test_a_text_that_is_no_python_is_named_with_its_line():
    a_kernel = kernel("broken", ["index = = 1"], blocks={"X": 64})
    with pytest.raises(compiler.KernelError, match=r"broken .* line \d+ of its text, `index = = 1`: SyntaxError"):
        compiler.launches(a_kernel)


#: A reduction that keeps twelve values per element: with 2048 elements per block, registers limit the occupancy.
CROWDED = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
triton_helpers.set_driver_to_gpu()

@triton_heuristics.reduction(
    size_hints={'x': 65536, 'r0_': 8192},
    reduction_hint=ReductionHint.INNER,
    filename=__file__,
    triton_meta={'constants': {}, 'configs': [{}],
        'signature': {'a': '*fp32', 'out': '*fp32', 'size': 'i32', 'XBLOCK': 'constexpr', 'R0_BLOCK': 'constexpr'},
        'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9, warp_size=32,
            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024)},
    inductor_meta={'kernel_name': 'crowded', 'grid_type': 'Grid1D'},
)
@triton.jit
def crowded(a, out, size, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r = tl.arange(0, R0_BLOCK)[None, :]
    KEEP
    for start in range(0, size, R0_BLOCK):
        value = tl.load(a + x * size + start + r, start + r < size, other=0.0)
        ADD
    tl.store(out + x, SUM)
"""


def test_a_crowded_reduction_is_compiled_with_half_the_block_too():
    kept = range(12)
    text = CROWDED.replace("KEEP", "; ".join(f"k{n} = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)" for n in kept))
    text = text.replace("ADD", "; ".join(f"k{n} = k{n} * value + {n}" for n in kept))
    text = text.replace("SUM", " + ".join(f"tl.sum(k{n}, 1)[:, None]" for n in kept))
    found = compiler.launches(compiler.Kernel("crowded", text, "cuda", "inference"))
    assert [re.search(r"R0_BLOCK=\d+", each.config)[0] for each in found] == ["R0_BLOCK=2048", "R0_BLOCK=1024"]
    assert found[0].registers > 32


def test_what_was_compiled_is_remembered(monkeypatch):
    a_kernel = kernel("remembered", COPY, blocks={"X": 64})
    first = compiler.launches(a_kernel)
    monkeypatch.setattr(compiler, "_ask_worker", None)
    assert compiler.launches(a_kernel) == first


def test_xpu_ends_where_the_installed_triton_does():
    a_kernel = kernel("for_xpu", COPY, blocks={"X": 64}, device="xpu")
    if Path(triton.__file__).with_name("backends").joinpath("intel").exists():
        pytest.skip("this Triton has Intel's backend")
    assert launch(a_kernel) == compiler.Launch("X=64 num_warps=4 num_stages=2", "ttir", combined="")
    assert "tt.func public @for_xpu" in compiler.stage_texts(a_kernel, "ttir")[0][1]
    with pytest.raises(compiler.StageError, match=r"no spv of for_xpu: Triton .* has no backend for xpu"):
        compiler.stage_texts(a_kernel, "spv")


@pytest.mark.parametrize(
    ("stage", "word"), [("ttir", "tt.load"), ("ttgir", "#blocked"), ("llir", "define"), ("ptx", ".entry")]
)
def test_stages(stage, word):
    ((config, text),) = compiler.stage_texts(kernel("staged", COPY, blocks={"X": 64}), stage)
    assert config == "X=64 num_warps=4 num_stages=2"
    assert word in text


def test_an_unknown_stage_is_refused_with_the_known_ones():
    message = "there is no stage spv on cuda: its stages are ttir, ttgir, llir, ptx"
    with pytest.raises(compiler.StageError, match=message):
        compiler.stage_texts(kernel("staged", COPY, blocks={"X": 64}), "spv")


def test_a_capture_whose_kernels_are_not_found_says_so():
    calls = {"calls": [{"call": "kernel", "language": "triton"}]}
    capture = Capture(
        "flip/x", "cuda_sm90", "deviceless", "2.13", "3.7", modules=[Module("forward", "", observed=calls)]
    )
    with pytest.raises(compiler.KernelError, match="no Triton kernel was found in the text of the forward module"):
        compiler.kernels(capture)


# The last two tests end the worker


def test_a_crash_fails_its_own_kernel_alone():
    a_kernel = kernel("crashing", COPY, blocks={"X": 64}, extra="import os; os.write(2, b'last words'); os.abort()")
    with pytest.raises(
        compiler.KernelError, match=r"crashing .* crashed the compiler .* SIGABRT.*\n(.*\n)*.*last words"
    ):
        compiler.launches(a_kernel)


@pytest.mark.long("it waits for a time limit, and starts the compiler's process anew")
def test_a_hang_is_cut_off_with_what_it_started(tmp_path, monkeypatch):
    assert launch(kernel("after_a_crash", COPY, blocks={"X": 64})).last == "cubin"
    pid = tmp_path / "pid"
    hang = (
        f"import subprocess; p = subprocess.Popen(['sleep', '99']); open({str(pid)!r}, 'w').write(str(p.pid)); p.wait()"
    )
    monkeypatch.setattr(compiler, "LIMIT", 1.0)
    start = time.monotonic()
    with pytest.raises(
        compiler.KernelError, match=r"hanging .* was cut off: it took more than 1 s to compile for cuda"
    ):
        compiler.launches(kernel("hanging", COPY, blocks={"X": 64}, extra=hang))
    assert time.monotonic() - start < 30
    assert not _alive(int(pid.read_text()))


def _alive(pid: int) -> bool:
    """A zombie, which nobody has waited for yet, is not alive."""
    time.sleep(0.2)
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and re.search(r"\) (\w)", stat.read_text())[1] not in "ZX"
