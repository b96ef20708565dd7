"""Attention by operators that only a GPU has: with dropout, and of lengths that are no multiple of a block."""

from dataclasses import replace

import pytest

from conformance import case, tensor
from conformance.capture.deviceless.prepare import prepare
from conformance.devices import environment

if not environment.triton_version():
    pytest.skip("Triton is not installed: pip install triton", allow_module_level=True)
prepare()

import torch  # noqa: E402 - after prepare()
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from conformance.capture import isolation  # noqa: E402
from conformance.capture.emulation import gpu_operators  # noqa: E402
from conformance.capture.emulation.fake_strides import with_device_strides  # noqa: E402
from conformance.compiler.case_request import CaseRequest, capture  # noqa: E402
from conformance.devices.targets import targets  # noqa: E402
from conformance.numerics.check import check_numerics  # noqa: E402

SM90 = targets()["cuda_sm90"]


# On torch 2.13: flash attention, cuDNN's, which takes only probabilities in sixteenths, and memory-efficient attention.
@pytest.mark.parametrize(("dtype", "dropped"), [(torch.half, 0.3), (torch.half, 0.5), (torch.float, 0.5)])
def test_the_backward_has_the_mask_of_the_forward(dtype, dropped):
    """Compares with what autograd computes for the definition of attention, with the same mask."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 2, 64, 64, generator=generator).to(dtype) for _ in range(4)]
    with isolation.isolated(SM90, "deviceless", {}), gpu_operators.registered_for("cuda"):
        query, key, value, gradient = (each.cuda().requires_grad_(place < 3) for place, each in enumerate(inputs))
        torch.manual_seed(7)
        result = scaled_dot_product_attention(query, key, value, dropout_p=dropped)
        result.backward(gradient)
        other = scaled_dot_product_attention(query, key, value, dropout_p=dropped)
        got = [each.detach().cpu().float() for each in (result, query.grad, key.grad, value.grad)]
        assert not torch.equal(other.detach().cpu().float(), got[0])  # another call draws another mask
    query, key, value, gradient = (each.float().requires_grad_() for each in inputs)
    probabilities = (query @ key.mT / 8).softmax(-1)
    torch.manual_seed(7)
    factor = gpu_operators._dropout_factor({"dropout_p": dropped}, probabilities, torch.randint(2**31, ()))
    assert abs(float((factor == 0).float().mean()) - dropped) < 0.02
    expected = (probabilities * factor) @ value
    expected.backward(gradient)
    torch.testing.assert_close(got, [expected.detach(), query.grad, key.grad, value.grad], rtol=1e-2, atol=1e-2)


def test_compiled_attention_with_dropout():
    @case(q=tensor(1, 2, 64, 64, dtype="f16"), k=tensor(1, 2, 64, 64, dtype="f16"), grad=True)
    def test_dropped(q, k):
        """Dropout divides each probability that it keeps by 1 - p. Times 1 - p it is the probability again.

        Where dropout dropped it, the test computes it, so that the result does not depend on the mask.
        """
        one = torch.eye(64, dtype=q.dtype, device=q.device).expand(1, 2, 64, 64)
        left = scaled_dot_product_attention(q, k, one, dropout_p=0.3) * 0.7
        return torch.where(left == 0, (q.float() @ k.float().mT / 8).softmax(-1).to(q.dtype), left)

    declared = test_dropped.cases[0]
    with capture(CaseRequest(declared, SM90, emulate=True)) as captured:
        assert "_scaled_dot_product_" in captured.capture.modules[0].code
        check_numerics(replace(declared, fn=with_device_strides(declared.fn)), captured.compiled, "cuda", SM90.name)


# float32 takes memory-efficient attention: it keeps the log of each row's sum, padded to a multiple of 32 rows.
@pytest.mark.parametrize("length", [1, 37, 64, 65])
def test_compiled_attention_of_any_length_with_gradients(length):
    @case(**{name: tensor(1, 2, length, 16) for name in "qkv"}, grad=True)
    def test_attended(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    declared = test_attended.cases[0]
    with capture(CaseRequest(declared, SM90, emulate=True)) as captured:
        assert "_scaled_dot_product_efficient_attention_backward" in "".join(m.code for m in captured.capture.modules)
        check_numerics(replace(declared, fn=with_device_strides(declared.fn)), captured.compiled, "cuda", SM90.name)
