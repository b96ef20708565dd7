"""Five losses that keep results right: each is planted, mostly into the compiler, and the first line names it."""

from __future__ import annotations

import functools
import sys
from unittest import mock

import pytest
import torch
from torch._inductor import decomposition, lowering, scheduler
from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

from conformance import contract
from conformance.expectations.requirements import RequirementError

aten = torch.ops.aten
CPU, CUDA = "cpu_avx2", "cuda_sm90"
each_device = pytest.mark.parametrize("target", [CPU, CUDA])


def first_line(demand, function, *inputs, target, **options):
    """The first line without the function's and the target's name; "" if the demand is met."""
    try:
        demand.check(function, *inputs, target=target, **options)
    except RequirementError as error:
        first = str(error).split("\n")[0]
        start = f"{function.__name__} on {target}: "
        assert first.startswith(start)
        assert first.endswith("requirements not met")
        return first.removeprefix(start)
    return ""


# a pattern that stops matching ----------------------------------------------------------------------------------------


def product_of_halves(x):
    a, b = torch.split(x, [10, 10])
    return a * b


def replacement(x):
    return x[:10] * x[10:]


def apply(own, graph):
    own.apply(graph)


def in_slices(x, sizes, dim=0):
    parts, start = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, start, start + size))
        start += size
    return parts


@each_device
def test_a_pattern_that_stops_matching(target):
    """The compiler decomposes a split into slices, and the pass of a library was written for the split."""
    own = PatternMatcherPass()
    register_replacement(product_of_halves, replacement, [torch.ones(20)], fwd_only, [own])
    demand = contract(pattern=product_of_halves)
    checked = (demand, product_of_halves, torch.ones(20))
    options = {"target": target, "config": {"post_grad_custom_post_pass": functools.partial(apply, own)}}
    assert first_line(*checked, **options) == ""
    table = decomposition.select_decomp_table()
    with mock.patch.dict(table, {aten.split_with_sizes.default: in_slices}):
        assert first_line(*checked, **options) == (
            "pattern product_of_halves: wanted 1, matched 0: "
            "the graph has aten.slice.Tensor where aten.split_with_sizes was; 1 of 1 requirements not met"
        )


# a lost fusion of norm and residual -----------------------------------------------------------------------------------


def norm_of_sum(x, residual, weight):
    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6) * weight, total


def norm_inputs():
    return torch.ones(64, 256), torch.ones(64, 256), torch.ones(256)


ROWS = 4 * 64 * 256  # bytes of an input
LEAST = 4 * ROWS + 4 * 256  # two inputs, two results and the weight


def test_a_lost_fusion_of_norm_and_residual_on_a_gpu():
    demand = contract(kernels=1, bytes_at_most=LEAST)
    assert first_line(demand, norm_of_sum, *norm_inputs(), target=CUDA) == ""
    with mock.patch.object(scheduler.Scheduler, "can_fuse", return_value=False):
        said = first_line(demand, norm_of_sum, *norm_inputs(), target=CUDA)
    assert said == (
        "kernels: wanted 1, got 3: 1: add; 2: pow, mean; 3: pow, mean, add, rsqrt, mul (also bytes.moved); "
        "2 of 2 requirements not met"
    )


def test_a_lost_fusion_of_norm_and_residual_on_a_cpu():
    """There, loops that are not fused are still one function of C++: the bytes say that the sum is read again."""
    most = LEAST + ROWS + 4 * 64  # the second loop over a row reads the sum again, and the mean of each row
    demand = contract(kernels=1, bytes_at_most=most)
    assert first_line(demand, norm_of_sum, *norm_inputs(), target=CPU) == ""
    with mock.patch.object(scheduler.Scheduler, "can_fuse", return_value=False):
        said = first_line(demand, norm_of_sum, *norm_inputs(), target=CPU)
    assert said.startswith(f"bytes.moved: wanted '<={most}', got ")
    assert "times the least" in said


# an extra layout copy -------------------------------------------------------------------------------------------------


def transposed_product(x, weight):
    return x.t() @ weight


@each_device
def test_an_extra_layout_copy(target):
    """The compiler copies what a permutation gives, instead of passing a view to the product."""
    demand = contract(layout_changes=0)
    checked = (demand, transposed_product, torch.ones(64, 32), torch.ones(64, 16))
    assert first_line(*checked, target=target) == ""
    original = lowering.lowerings[aten.permute.default]
    copying = {aten.permute.default: lambda x, dims: lowering.clone(original(x, dims))}
    with mock.patch.dict(lowering.lowerings, copying):
        assert first_line(*checked, target=target) == (
            "layout_changes: wanted 0, got 1: kernel 1 (t) has 1; 1 of 1 requirements not met"
        )


# a graph break --------------------------------------------------------------------------------------------------------


def sine(x):
    return x.sin()


def with_a_helper(x):
    return sine(x + 1) * 2


@each_device
def test_a_graph_break(target):
    demand = contract(kernels=1, graph_breaks=0)
    assert first_line(demand, with_a_helper, torch.ones(20), target=target) == ""
    with mock.patch.object(sys.modules[__name__], "sine", torch.compiler.disable(sine)):
        said = first_line(demand, with_a_helper, torch.ones(20), target=target)
    assert said.startswith("graph_breaks: wanted 0, got 1: Skip calling `torch.compiler.disable()`d function")
    assert said.endswith(" at `return sine(x + 1) * 2` (also kernels); 2 of 2 requirements not met")


# an attention that falls back -----------------------------------------------------------------------------------------


def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def attention_by_hand(q, k, v):
    return (q @ k.transpose(-2, -1)).div(5.0).softmax(-1) @ v


def heads():
    return [torch.ones(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3)]


@pytest.mark.parametrize(
    ("target", "fused"),
    [
        (CPU, "aten._scaled_dot_product_flash_attention_for_cpu"),
        (CUDA, "aten._scaled_dot_product_cudnn_attention"),
    ],
)
def test_an_attention_that_falls_back_to_products(target, fused):
    demand = contract(contains=[fused], lacks=["aten.bmm"])
    assert first_line(demand, attention, *heads(), target=target) == ""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        said = first_line(demand, attention, *heads(), target=target)
    assert said.startswith(f"operators.{fused}: wanted '>=1', got 0: the graph after the passes has ")
    assert said.endswith(" (also operators.aten.bmm); 2 of 2 requirements not met")


def test_an_attention_by_hand_that_is_no_longer_fused():
    """The compiler no longer recognises it: a softmax without the maximum, which its pattern subtracts."""
    demand = contract(pattern="fuse_attention", contains=["aten._scaled_dot_product_flash_attention_for_cpu"])
    q, k, v = (each.float() for each in heads())
    assert first_line(demand, attention_by_hand, q, k, v, target=CPU) == ""

    def softmax(x, dim, half_to_float):
        powers = torch.exp(x)
        return powers / powers.sum(dim, keepdim=True)

    with mock.patch.dict(decomposition.select_decomp_table(), {aten._softmax.default: softmax}):
        said = first_line(demand, attention_by_hand, q, k, v, target=CPU)
    assert said.startswith("pattern fuse_attention: wanted 1, matched 0: the graph has ")
