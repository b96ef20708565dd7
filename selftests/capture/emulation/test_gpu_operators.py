"""Operators that a GPU rounds otherwise than the CPU, or that only a GPU has: normalisations in 16 bits, products."""

import pytest

from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import torch  # noqa: E402 - after prepare()
from torch.nn import functional  # noqa: E402

from conformance.capture import isolation  # noqa: E402
from conformance.capture.emulation import gpu_operators  # noqa: E402
from conformance.devices.targets import targets  # noqa: E402

SM90 = targets()["cuda_sm90"]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _emulated():
    with isolation.isolated(SM90, "deviceless", {}), gpu_operators.registered_for("cuda"):
        yield


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype).cuda()


def test_batch_norms_of_16_bits_keep_statistics_in_float32():
    value, weight, bias = drawn(4, 3, 5), drawn(3), drawn(3)
    expected = value.cpu().float().mean((0, 2))
    for op in (aten.native_batch_norm.default, aten._native_batch_norm_legit.default):
        mean, var = torch.zeros_like(weight), torch.ones_like(weight)
        output, saved, deviation = op(value, weight, bias, mean, var, True, 0.5, 1e-5)
        assert (output.dtype, saved.dtype, deviation.dtype) == (torch.bfloat16, torch.float32, torch.float32)
        torch.testing.assert_close(saved.cpu(), expected)
        assert torch.equal(mean.cpu(), (expected / 2).bfloat16())  # the running mean was changed
    without = aten._native_batch_norm_legit.no_stats(value, weight, bias, True, 0.5, 1e-5)
    with_update = aten._batch_norm_with_update.default(value, weight, bias, mean, var, 0.5, 1e-5)
    for got in (without, with_update):
        assert torch.equal(got[0].cpu(), output.cpu())
        assert torch.equal(got[1].cpu(), saved.cpu())


@pytest.mark.parametrize("norm", ["batch", "updating batch", "layer"])
def test_gradients_of_norms_in_16_bits_are_rounded_once(norm):
    def gradients(*inputs: torch.Tensor) -> list[torch.Tensor]:
        value, weight, bias = (each.detach().requires_grad_() for each in inputs)
        if norm == "batch":
            result = functional.batch_norm(value, None, None, weight, bias, True)
        elif norm == "updating batch":
            mean, var = torch.zeros_like(weight), torch.ones_like(weight)
            result = aten._batch_norm_with_update.default(value, weight, bias, mean, var, 0.5, 1e-5)[0]
        else:
            result = functional.layer_norm(value, (5,), weight, bias)
        result.backward(cotangent.to(result))
        return [result.detach(), *(each.grad for each in (value, weight, bias))]

    cotangent = drawn(5, 3, 4).mT.reshape(4, 3, 5)
    size = 5 if norm == "layer" else 3
    inputs = drawn(4, 3, 5), drawn(size), drawn(size)
    got = gradients(*inputs)
    assert {each.dtype for each in got} == {torch.bfloat16}
    expected = gradients(*(each.cpu().double() for each in inputs))
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=2**-7, atol=2**-7)


def test_products_with_a_dtype_of_the_result():
    left, right = drawn(2, 3, 4), drawn(2, 4, 5)
    added = drawn(2, 3, 5)
    exact = left.cpu().float() @ right.cpu().float()
    assert torch.equal(torch.bmm(left, right, out_dtype=torch.float32).cpu(), exact)
    assert torch.equal(torch.mm(left[0], right[0], out_dtype=torch.float32).cpu(), exact[0])
    got = torch.baddbmm(added, left, right, out_dtype=torch.float32, beta=2)
    torch.testing.assert_close(got.cpu(), exact + 2 * added.cpu().float())
    out = torch.empty(3, 5, device="cuda")
    assert torch.addmm(added[0], left[0], right[0], out_dtype=torch.float32, out=out) is out
    torch.testing.assert_close(out.cpu(), exact[0] + added[0].cpu().float())


def test_an_addition_in_16_bits_is_rounded_each_time():
    ones, where = torch.ones(4, dtype=torch.bfloat16).cuda(), torch.zeros(4, dtype=torch.int64).cuda()
    start = torch.tensor([256.0, 7.0], dtype=torch.bfloat16).cuda()
    added = start.scatter_add(0, where, ones)
    assert start.tolist() == [256.0, 7.0]
    assert added.tolist() == [256.0, 7.0]  # 256 + 1 is rounded to 256 each time; 260 is what one rounding gives
    assert start.scatter_add_(0, where, ones * 2) is start
    assert start.tolist() == [264.0, 7.0]


def test_an_addition_in_float32_is_that_of_the_cpu():
    value, index, source = drawn(4, 5, dtype=torch.float32), torch.tensor([[0, 3, 3], [1, 1, 1]]), drawn(3, 4)
    source = source.float()
    expected = value.cpu().scatter_add(1, index, source.cpu())
    assert torch.equal(value.scatter_add(1, index.cuda(), source).cpu(), expected)
    rounded = value.bfloat16().scatter_add(1, index.cuda(), source.bfloat16()).float().cpu()
    torch.testing.assert_close(rounded, expected, rtol=0.05, atol=0.05)  # the same places


def test_autograd_does_not_count_the_write_to_running_statistics():
    """As on a device: the operator's schema does not say that it writes."""
    value, statistics = torch.randn(4, 3, device="cuda"), [torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")]
    before = [each._version for each in statistics]
    torch.ops.aten.native_batch_norm.default(value, None, None, *statistics, True, 0.5, 1e-5)
    assert [each._version for each in statistics] == before
    assert statistics[0].cpu().abs().sum() > 0


@pytest.mark.parametrize(
    "fn",
    [
        lambda z: z.conj(),
        lambda z: z + z.conj(),
        lambda z: z.conj().imag * 2,
        lambda z: z.conj() @ z.mH,
        lambda z: torch.zeros_like(z).conj().copy_(z),
    ],
    ids=["conjugate", "sum", "imaginary part", "product", "written"],
)
def test_views_that_are_conjugated_or_negated_later_have_their_values(fn):
    z = torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(fn(z.cuda()).cpu(), fn(z).clone())
