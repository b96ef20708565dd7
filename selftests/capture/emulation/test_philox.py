"""Compares random numbers of interpreted kernels with Philox in Python integers, and bit for bit with a GPU's."""
# ruff: noqa: N803 - kernels are written as Inductor writes them

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import philox  # noqa: E402 - after prepare()
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from interpreting import run  # noqa: E402
from torch._inductor.runtime import triton_helpers  # noqa: E402

SEEDS = (0, 1, 42, 2**31, 2**32 - 1, 2**32, 0x123456789ABCDEF0, 2**63 - 1, -1, -(2**62) - 7)
#: First of 64 offsets. Inductor's offsets have 32 bits.
OFFSETS = (0, 1000, 2**24 - 3, 2**31 - 70)
COUNT, LOW, HIGH = 64, -5, 1000003


@triton.jit
def vectors(words, out, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    c0, c1 = tl.load(words + 6 * place), tl.load(words + 6 * place + 1)
    c2, c3 = tl.load(words + 6 * place + 2), tl.load(words + 6 * place + 3)
    k0, k1 = tl.load(words + 6 * place + 4), tl.load(words + 6 * place + 5)
    seed = k0.to(tl.uint32, bitcast=True).to(tl.uint64) | (k1.to(tl.uint32, bitcast=True).to(tl.uint64) << 32)
    r0, r1, r2, r3 = tl.philox(seed, c0, c1, c2, c3)
    tl.store(out + 4 * place, r0.to(tl.int32, bitcast=True))
    tl.store(out + 4 * place + 1, r1.to(tl.int32, bitcast=True))
    tl.store(out + 4 * place + 2, r2.to(tl.int32, bitcast=True))
    tl.store(out + 4 * place + 3, r3.to(tl.int32, bitcast=True))


@triton.jit
def numbers(seeds, uniform, normal, whole, four, begin, low, high, xnumel, XBLOCK: tl.constexpr):
    """The functions that Inductor's rand, randn and randint use."""
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    seed = tl.load(seeds)
    offset = (begin + place).to(tl.uint32)
    tl.store(uniform + place, tl.rand(seed, offset))
    tl.store(normal + place, tl.randn(seed, offset))
    tl.store(whole + place, triton_helpers.randint64(seed, offset, low.to(tl.int64), high.to(tl.int64)))
    r0, r1, r2, r3 = tl.randint4x(seed, offset)
    tl.store(four + 4 * place, r0.to(tl.int32, bitcast=True))
    tl.store(four + 4 * place + 1, r1.to(tl.int32, bitcast=True))
    tl.store(four + 4 * place + 2, r2.to(tl.int32, bitcast=True))
    tl.store(four + 4 * place + 3, r3.to(tl.int32, bitcast=True))


def test_published_vectors_of_the_reference():
    for counter, key, wanted in philox.KNOWN:
        assert philox.philox(counter, key) == wanted


def test_published_vectors():
    inputs = [philox.signed(word) for counter, key, _ in philox.KNOWN for word in (*counter, *key)]
    inputs += inputs[:6]  # the size of a block is a power of two
    out = torch.zeros(16, dtype=torch.int32)
    run(vectors, torch.tensor(inputs, dtype=torch.int32), out, 4, block=4)
    wanted = [philox.signed(word) for _, _, result in philox.KNOWN for word in result]
    assert out.tolist()[:12] == wanted


def generated_numbers(launch, seed, begin, device="cpu"):
    """(uniform, normal, whole, four) of one seed, from the offset `begin` on. `launch(kernel, *arguments)` runs it."""
    results = [torch.zeros(COUNT * n, dtype=dtype, device=device) for dtype, n in (
        (torch.float32, 1), (torch.float32, 1), (torch.int64, 1), (torch.int32, 4))]  # fmt: skip
    launch(numbers, torch.tensor([seed], device=device), *results, begin, LOW, HIGH, COUNT)
    return [result.cpu() for result in results]


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_inductor(seed):
    for begin in OFFSETS:
        uniform, normal, whole, four = generated_numbers(run, seed, begin)
        words = [philox.words(seed, begin + place) for place in range(COUNT)]
        assert four.tolist() == [philox.signed(word) for each in words for word in each]
        assert uniform.tolist() == [float(philox.uniform(each[0])) for each in words]
        assert whole.tolist() == [philox.integer_between(*each[:2], LOW, HIGH) for each in words]
        torch.testing.assert_close(normal.double(), torch.tensor([philox.normal(*each[:2]) for each in words]).double(),
                                   rtol=2e-6, atol=2e-6)  # fmt: skip


@triton.jit
def eager(seeds, out, blocks, xnumel, XBLOCK: tl.constexpr):
    place = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out + place, triton_helpers.rand_eager_kernel(tl.load(seeds), blocks, place, 4))


@pytest.mark.skipif(
    not hasattr(triton_helpers, "rand_eager_kernel"),
    reason="Inductor makes the same numbers as eager only in torch 2.13 and later",
)
def test_numbers_as_eager():
    for seed, blocks in ((0, 0), (0x123456789ABCDEF0, 3), (42, 2**31 - 1)):
        out = torch.zeros(COUNT)
        run(eager, torch.tensor([seed]), out, blocks, COUNT)
        key = (seed & philox.WORD, seed >> 32)
        words = [philox.philox((blocks, 0, place // 4, 0), key)[place % 4] for place in range(COUNT)]
        assert out.tolist() == [float(philox.uniform_as_eager(word)) for word in words]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no cuda GPU")
def test_the_gpus_own_numbers():
    """Compares bit for bit. Not randn: its logarithm and cosine are the vendor's."""

    def launch(kernel, *args):
        kernel[1, 1, 1](*args, XBLOCK=COUNT)

    for seed in SEEDS:
        for begin in OFFSETS:
            interpreted = generated_numbers(run, seed, begin)
            native = generated_numbers(launch, seed, begin, "cuda")
            for name, first, second in zip(("uniform", "normal", "whole", "four"), interpreted, native, strict=True):
                if name == "normal":
                    torch.testing.assert_close(first, second, rtol=4e-6, atol=2e-6, msg=f"{name}, {seed}, {begin}")
                else:
                    assert torch.equal(first, second), (name, seed, begin)
