"""Compares the interpreter with torch, with published vectors, and with the documented rules of devices."""
# ruff: noqa: N803 - kernels are written as Inductor writes them

import math
import time

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import torch  # noqa: E402 - after prepare()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from interpreting import run  # noqa: E402
from torch._inductor.runtime import triton_helpers  # noqa: E402
from torch._inductor.runtime.triton_helpers import libdevice  # noqa: E402

from conformance.capture.emulation.errors import EmulationError, NotEmulatedError  # noqa: E402

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, 1e-40, 3e38, -3e38, math.inf, -math.inf, math.nan, 7.25]

#: libdevice function → torch function of the same definition.
SAME = {name: getattr(torch, name) for name in (
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sin", "cos",
    "tan", "atan", "floor", "ceil", "trunc", "lgamma", "asinh", "sinh", "cosh")}  # fmt: skip
SAME["nearbyint"] = torch.round


def elementwise(name):
    """A kernel that applies one libdevice function."""
    space = {"tl": tl, "triton": triton, "libdevice": libdevice, "__name__": "elementwise"}
    source = f"""
@triton.jit
def kernel(x, y, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    value = libdevice.{name}(tl.load(x + place, mask, other=0.0))
    tl.store(y + place, value, mask)
"""
    import linecache

    linecache.cache[f"<{name}>"] = (len(source), None, source.splitlines(keepends=True), f"<{name}>")
    exec(compile(source, f"<{name}>", "exec"), space)  # noqa: S102
    return space["kernel"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SAME)
def test_libdevice(name, dtype):
    x = torch.tensor(SPECIAL, dtype=dtype)
    y = torch.full_like(x, 17)
    run(elementwise(name), x, y, len(x))
    wanted = SAME[name](x.double()).to(dtype)
    few_ulp = 4 * torch.finfo(dtype).eps  # torch's functions round differently at the end of a tensor
    torch.testing.assert_close(y, wanted, rtol=few_ulp if dtype == torch.float64 else 0, atol=0, equal_nan=True)


@triton.jit
def power_of_a_constant(x, y, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    value = tl.load(x + place, mask, other=0.0)
    tl.store(y + place, libdevice.pow(tl.full([1], 2.0, tl.float32), value) * value, mask)


def test_arguments_of_libdevice_broadcast():
    x = torch.arange(20.0)
    y = torch.zeros_like(x)
    run(power_of_a_constant, x, y, len(x))
    torch.testing.assert_close(y, 2**x * x)


@triton.jit
def predicates(x, y, z, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    value = tl.load(x + place, mask, other=0.0)
    tl.store(y + place, libdevice.isnan(value).to(tl.int1), mask)
    tl.store(z + place, libdevice.signbit(value) != 0, mask)


def test_predicates():
    x = torch.tensor(SPECIAL)
    y, z = (torch.zeros(len(x), dtype=torch.bool) for _ in "yz")
    run(predicates, x, y, z, len(x))
    assert torch.equal(y, x.isnan())
    assert torch.equal(z, x.signbit())


@triton.jit
def cast(x, y, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    tl.store(y + place, tl.load(x + place, mask).to(y.dtype.element_ty), mask)


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_casts_round_to_nearest_even(source, target):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(500, generator=generator) * 100
    halfway = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-11, 65519.0, 65520.0, 3.4e38])
    x = torch.cat([values, halfway, torch.tensor(SPECIAL)])
    x = (x.nan_to_num(0, 0, 0).clamp(-1e9, 1e9) if source == torch.int32 else x).to(source)
    y = torch.zeros(len(x), dtype=target)
    run(cast, x, y, len(x))
    assert torch.equal(y.nan_to_num(nan=9.0), x.to(target).nan_to_num(nan=9.0))


def test_floats_to_integers_saturate():
    x = torch.tensor([1.9, -1.9, 3e9, -3e9, math.inf, -math.inf, math.nan])
    y = torch.zeros(len(x), dtype=torch.int32)
    run(cast, x, y, len(x))
    assert y.tolist() == [1, -1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]


@triton.jit
def rows(x, y, z, best, at, xnumel, XBLOCK: tl.constexpr, R: tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    column = tl.arange(0, R)[None, :]
    mask = row < xnumel
    value = tl.load(x + R * row + column, mask, other=0.0)
    tl.store(y + row, tl.sum(value, 1)[:, None], mask)
    tl.store(z + R * row + column, tl.associative_scan(value, 1, triton_helpers.maximum), mask)
    index = tl.broadcast_to(column, [XBLOCK, R])
    largest, where = triton_helpers.max_with_index(value, index, 1)
    tl.store(best + row, largest[:, None], mask)
    tl.store(at + row, where[:, None], mask)


@pytest.mark.parametrize("block", [1, 4, 16])
def test_reductions_and_scans(block):
    x = torch.randn(10, 64, generator=torch.Generator().manual_seed(1))
    x[3, 5], x[3, 9] = math.nan, math.nan
    y, best, at, z = torch.zeros(10), torch.zeros(10), torch.zeros(10, dtype=torch.int32), torch.zeros(10, 64)
    began = time.perf_counter()
    run(rows, x, y, z, best, at, 10, block=block, R=64)
    assert time.perf_counter() - began < 2  # element by element it would take a minute
    torch.testing.assert_close(y, x.sum(1), equal_nan=True, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(z, x.cummax(1).values, equal_nan=True, rtol=0, atol=0)
    assert best[3].isnan()
    assert at.tolist() == x.argmax(1).tolist()


@triton.jit
def product(a, b, out, xnumel, XBLOCK: tl.constexpr, PRECISION: tl.constexpr):
    row, column = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    left, right = tl.load(a + 16 * row + column), tl.load(b + 16 * row + column)
    tl.store(out + 16 * row + column, tl.dot(left, right, input_precision=PRECISION))


def test_precision_of_dot():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(16, 16, generator=generator) for _ in "ab")
    errors = {}
    for precision in ("tf32", "tf32x3", "ieee"):
        out = torch.zeros(16, 16)
        run(product, a, b, out, 1, block=1, PRECISION=precision)
        errors[precision] = float((out - a.double() @ b.double()).abs().max())
    assert 1e-4 < errors["tf32"] < 1e-2
    assert errors["ieee"] < 1e-6
    assert errors["tf32x3"] < 1e-5


@triton.jit
def add_to_one(x, out, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    tl.atomic_add(out + tl.zeros([XBLOCK], tl.int32), tl.load(x + place, mask), mask, sem="relaxed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bfloat16])
def test_atomics(dtype):
    out = torch.zeros(1, dtype=dtype)
    run(add_to_one, torch.ones(100, dtype=dtype), out, 100, block=16)
    assert out.item() == 100


@triton.jit
def asserting(x, y, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    index = tl.load(x + place, mask, other=0)
    tl.device_assert(((index >= 0) & (index < 5)) | ~mask, "index out of bounds: 0 <= index < 5")
    tl.store(y + place, index, mask)


def test_device_asserts_are_found_with_their_line():
    y = torch.zeros(3, dtype=torch.int32)
    run(asserting, torch.tensor([0, 1, 4], dtype=torch.int32), y, 3)
    with pytest.raises(EmulationError, match=r"asserting, line \d+: tl.device_assert.*\n.*failed: index out of bounds"):
        run(asserting, torch.tensor([0, 1, 5], dtype=torch.int32), y, 3)


@triton.jit
def unmasked(x, y, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(y + place, tl.load(x + place) + 1, place < xnumel)


def test_accesses_out_of_bounds():
    y = torch.zeros(100)
    with pytest.raises(EmulationError) as raised:
        run(unmasked, torch.zeros(100), y, 100)
    message = str(raised.value)
    assert "unmasked, program (1, 0, 0), line" in message
    assert "load out of bounds: element 100 of x, which has 100 elements (28 of 128 accesses)" in message
    assert not y.any()
    run(unmasked, torch.zeros(128)[:100], y, 100)  # an access inside of the storage is right
    assert y.all()


@triton.jit
def by_blocks(row, column, out, rows, columns, xnumel, XBLOCK: tl.constexpr):
    start = tl.program_id(0) * XBLOCK
    x = tl.load(tl.make_block_ptr(row, [columns], [1], [start], [XBLOCK], [0]), boundary_check=[0])
    y = tl.load(tl.make_block_ptr(column, [rows], [1], [0], [4], [0]), boundary_check=[0])
    place = tl.make_block_ptr(out, [rows, columns], [columns, 1], [0, start], [4, XBLOCK], [1, 0])
    tl.store(place, x[None, :] + y[:, None], boundary_check=[0, 1])


@pytest.mark.skipif(not hasattr(tl, "make_block_ptr"), reason="this Triton has no block pointers")
def test_blocks_of_other_dimensions():
    row, column, out = torch.arange(10.0), torch.arange(3.0) * 100, torch.zeros(3, 10)
    run(by_blocks, row, column, out, 3, 10, 10, block=4)
    assert torch.equal(out, row + column[:, None])


@triton.jit
def endless(x, xnumel, XBLOCK: tl.constexpr):
    found = tl.load(x)
    while found == 0:
        found = tl.load(x)
    tl.store(x, found)


def test_a_kernel_that_hangs_fails():
    with pytest.raises(EmulationError, match="the kernel did not finish within the time limit"):
        run(endless, torch.zeros(1), 1, block=1, seconds=0.3)


@triton.jit
def branching(x, y, xnumel, XBLOCK: tl.constexpr):
    program = tl.program_id(0)
    place = program * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(y + place, tl.load(y + place) + 1)
    if program == 1:
        tl.store(y + place, tl.load(x + place))


def test_programs_that_go_different_ways():
    """The interpreter restores the memory and runs them one by one."""
    x, y = torch.full((64,), 5.0), torch.zeros(64)
    run(branching, x, y, 64, block=16)
    assert y.view(4, 16)[:, 0].tolist() == [1, 5, 1, 1]


@triton.jit
def integers(x, y, out, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = place < xnumel
    a, b = tl.load(x + place, mask, other=1), tl.load(y + place, mask, other=1)
    tl.store(out + 3 * place, a // b, mask)
    tl.store(out + 3 * place + 1, a % b, mask)
    tl.store(out + 3 * place + 2, ~a, mask)


def test_integers_divide_towards_zero():
    x = torch.tensor([7, -7, 7, -7, -(2**31), 0], dtype=torch.int32)
    y = torch.tensor([2, 2, -2, -2, 3, 5], dtype=torch.int32)
    out = torch.zeros(18, dtype=torch.int32)
    run(integers, x, y, out, 6)
    wanted = [[math.trunc(a / b), int(math.fmod(a, b)), ~a] for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert out.view(6, 3).tolist() == wanted


def test_language_is_put_back():
    """Outside of a launch, Triton is unchanged: Python cannot call its functions."""
    run(integers, *(torch.ones(4, dtype=torch.int32) for _ in "xy"), torch.zeros(12, dtype=torch.int32), 4)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        tl.sum(1)
    with pytest.raises(ValueError, match="_semantic"):
        tl.arange(0, 4)


@triton.jit
def looped(x, out, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    total = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        column = r0_offset + tl.arange(0, R0_BLOCK)[None, :]
        total += tl.load(x + r0_numel * row + column, (row < xnumel) & (column < r0_numel), other=0.0)
    tl.store(out + row, tl.sum(total, 1)[:, None], row < xnumel)


@pytest.mark.parametrize(
    ("block", "loop_block", "kernel", "shortfalls"),
    [
        (2, 4, "looped: 2 programs, 3 iterations", []),
        (4, 4, "looped: 1 program, 3 iterations", ["looped ran one program for 3 elements"]),
        (1, 16, "looped: 3 programs, 1 iteration", ["looped ran one iteration for 10 elements"]),
    ],
)
def test_programs_and_iterations_are_counted(block, loop_block, kernel, shortfalls):
    x, out = torch.randn(3, 10), torch.zeros(3)
    report = run(looped, x, out, 3, 10, block=block, R0_BLOCK=loop_block)
    torch.testing.assert_close(out, x.sum(1))
    assert (report.kernels, report.shortfalls) == ([kernel], shortfalls)


@triton.jit
def blockwise(x, y, xnumel, XBLOCK: tl.constexpr):
    for start in tl.range(0, xnumel, step=XBLOCK, num_stages=2):
        place = start.to(tl.int64) + tl.arange(0, XBLOCK)
        tl.store(y + place, tl.load(x + place, place < xnumel), place < xnumel)


def test_the_variable_of_a_range_is_a_tensor():
    x, out = torch.randn(10), torch.zeros(10)
    run(blockwise, x, out, 10, block=4)
    assert out.equal(x)


@triton.jit
def strided(x, y, stride, xnumel, XBLOCK: tl.constexpr):
    place = tl.arange(0, XBLOCK)
    tl.store(y + place, tl.load(x + stride * place))


def test_a_number_other_than_the_one_that_is_compiled_in():
    x, y = torch.arange(8.0), torch.zeros(4)
    run(strided, x, y, 1, 4, block=4, compiled_in={"stride": 1})
    assert y.tolist() == [0, 1, 2, 3]
    message = r"strided is called with stride = 1, but it is compiled for stride = 2: a device would"
    with pytest.raises(EmulationError, match=message):
        run(strided, x, y, 1, 4, block=4, compiled_in={"stride": 2})


@triton.jit
def with_absent(x, y, absent, xnumel, XBLOCK: tl.constexpr):
    place = tl.arange(0, XBLOCK)
    value = tl.load(x + place)
    if absent is not None:
        value += tl.load(absent + place)
    tl.store(y + place, value)


def test_a_none_that_is_compiled_in():
    x, y = torch.arange(4.0), torch.zeros(4)
    run(with_absent, x, y, -1, 4, block=4, compiled_in={"absent": None})
    assert y.tolist() == x.tolist()
    with pytest.raises(EmulationError, match="with absent = 2, but it is compiled for absent = None"):
        run(with_absent, x, y, 2, 4, block=4, compiled_in={"absent": None})


@triton.jit
def assembly(x, y, xnumel, XBLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, XBLOCK))
    asm: tl.constexpr = "mov.b32 $0, $1;"
    tl.store(y + tl.arange(0, XBLOCK), tl.inline_asm_elementwise(asm, "=r,r", [value], value.dtype, True, 1))


def test_what_cannot_be_interpreted_says_so():
    with pytest.raises(NotEmulatedError, match=r"inline assembly: mov.b32 \$0, \$1;"):
        run(assembly, torch.zeros(4), torch.zeros(4), 4, block=4)
