"""smooth_l1_loss before it is compiled: the Python reference and the decompositions that Inductor starts from."""

import pytest
import torch

from conformance import REDUCTIONS, assert_agrees_with_eager, decomposition, python_reference, references
from conformance.ops import test_smooth_l1_loss as compiled

aten, functional = torch.ops.aten, torch.nn.functional

pytestmark = pytest.mark.skipif(
    torch.__version__.startswith("2.8."),
    reason="torch 2.8 is supported for --backend ipex only",
)


test_references = references(
    compiled.test_functional,
    compiled.test_aten,
    disagree={"aten.smooth_l1_loss_backward.default": "for NaN the decomposition returns 0; for beta 0 see below"},
)


def pair(dtype):
    """A prediction and a target that are equal nowhere: equal elements have a test of their own."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(64, 100, generator=generator).to(dtype) for _ in "xy")
    return x, torch.where(x == y, y + 1, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
class TestUncompiled:
    """Each is compared with eager and float64."""

    def test_python_reference(self, reduction, beta, dtype):
        x, y = pair(dtype)
        reference = python_reference("smooth_l1_loss")
        assert_agrees_with_eager(
            reference, functional.smooth_l1_loss, x.requires_grad_(), y, reduction=reduction, beta=beta
        )

    def test_decomposition(self, reduction, beta, dtype):
        op = aten.smooth_l1_loss.default
        assert_agrees_with_eager(decomposition(op), op, *pair(dtype), REDUCTIONS[reduction], beta)

    def test_decomposition_of_backward(self, reduction, beta, dtype):
        x, y = pair(dtype)
        gradient = torch.ones(x.shape if reduction == "none" else (), dtype=dtype)
        op = aten.smooth_l1_loss_backward.default
        assert_agrees_with_eager(decomposition(op), op, gradient, x, y, REDUCTIONS[reduction], beta)


def test_gradient_where_both_are_equal_at_beta_0():
    """PyTorch disagrees with itself: eager's kernel returns -1, the decomposition 0, as l1_loss does."""
    x = torch.zeros(3)
    op = aten.smooth_l1_loss_backward.default
    arguments = torch.ones(3), x, x.clone(), REDUCTIONS["none"], 0.0
    assert op(*arguments).tolist() == [-1, -1, -1]
    assert decomposition(op)(*arguments).tolist() == [0, 0, 0]
