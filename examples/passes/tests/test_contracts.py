"""What our pass must do, in ordinary tests: code is generated for each target that we support, and none is run."""

import pytest
import torch

from conformance import contract
from engine import COMPILED_WITH, FeedForward, add_rms_norm

TARGETS = ["cpu_avx2", "cuda_sm80", "cuda_sm90"]
#: Our norm is one operator, and nothing of the written-out one is left.
FUSED = contract(
    pattern=add_rms_norm,
    contains={"engine.add_rms_norm": 1},
    lacks=["aten.rsqrt", "aten.mean"],
    graph_breaks=0,
)
#: After the products only silu(gate) * up is to be computed: one kernel, and no copy into another layout.
LAYER = FUSED | contract(kernels=1, layout_changes=0)


def rows(count=16):
    return torch.randn(count, 64, dtype=torch.bfloat16)


@pytest.mark.parametrize("target", TARGETS)
def test_layer(target):
    layer = FeedForward(64, 128).bfloat16()
    LAYER.check(layer, rows(), rows(), target=target, config=COMPILED_WITH)


@pytest.mark.parametrize("target", TARGETS)
def test_layer_with_any_number_of_rows(target):
    layer = FeedForward(64, 128).bfloat16()
    LAYER.check(layer, rows(), rows(), target=target, config=COMPILED_WITH, dynamic=True)


def without_all_reduce(hidden, residual, product, weight):
    return add_rms_norm(hidden @ product, residual, weight)


def test_a_sum_right_after_a_product_is_no_longer_ours():
    """Inductor makes one addmm of them before our pass runs. If that changes, our pass has one more place to match."""
    inputs = rows(), rows(), rows(64), rows(1)[0]
    with pytest.raises(AssertionError, match=r"matched 0: the graph has aten\.addmm where aten\.add\.Tensor was"):
        FUSED.check(without_all_reduce, *inputs, target="cuda_sm90", config=COMPILED_WITH)


def test_without_the_pass():
    """The message for a user who compiles without COMPILED_WITH."""
    with pytest.raises(AssertionError, match=r"no pass of this compile has the pattern: is the pass in `config`"):
        FUSED.check(FeedForward(64, 128).bfloat16(), rows(), rows(), target="cuda_sm90")
