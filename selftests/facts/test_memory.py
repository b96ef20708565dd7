"""The fact memory: the most bytes at a time, from the wrapper's own allocations, reuses and frees."""

from __future__ import annotations

import pytest
import torch
from capturing import facts_of

from conformance import tensor
from conformance.bisection.observation import Observation, Question
from conformance.bisection.observing_process import _texts

BYTES = 4 * 10 * 100


@pytest.mark.parametrize("target", ["cpu_avx2", "cuda_sm90"])
@pytest.mark.parametrize(
    ("function", "shape", "peak", "left"),
    [
        (lambda x: x.sin() + 1, (10, 100), BYTES, BYTES),
        (lambda x: (x.sin(), x.cos()), (10, 100), 2 * BYTES, 2 * BYTES),
        (lambda x: x.sum(-1), (10, 100), 40, 40),
        (lambda x: (x @ x).sin() @ x, (50, 50), 2 * 10_000, 10_000),
        (lambda x: x.view(100, 10), (10, 100), 0, 0),
    ],
    ids=["one", "two outputs", "sum", "products", "view"],
)
def test_what_is_alive(function, shape, peak, left, target):
    found = facts_of(function, target, x=tensor(*shape))
    assert (found.value("memory"), found.value("memory.left")) == (peak, left)


@torch.compiler.nested_compile_region
def region(x):
    return ((x @ x).sin() @ x).cos()


@pytest.mark.parametrize("target", ["cpu_avx2", "cuda_sm90"])
@pytest.mark.parametrize(
    ("function", "peak", "left"),
    [
        (lambda x: region(region(x)), 3 * 10_000, 10_000),
        (lambda x: (region(x), region(x)), 3 * 10_000, 2 * 10_000),
    ],
    ids=["twice", "two outputs"],
)
def test_what_is_alive_within_a_subgraph(function, peak, left, target):
    """The first result of a region is alive in its second call."""
    found = facts_of(function, target, x=tensor(50, 50))
    assert (found.value("memory"), found.value("memory.left")) == (peak, left)


def large(y):
    return (y @ y).sin() @ y


@pytest.mark.parametrize("branches", [(large, torch.cos), (torch.cos, large)], ids=["first", "second"])
def test_the_branch_that_needs_most_counts(branches):
    found = facts_of(
        lambda x, first: torch.cond(first, *branches, (x.sin(),)) + 1,
        "cuda_sm90",
        x=tensor(50, 50),
        first=tensor(1, dtype="bool"),
    )
    assert (found.value("memory"), found.value("memory.left")) == (3 * 10_000, 10_000)


def test_a_buffer_that_is_used_again_counts_once():
    found = facts_of(lambda x: ((x @ x).sin() @ x).sin() @ x, "cuda_sm90", x=tensor(50, 50))
    assert found.value("memory") == 2 * 10_000
    assert "20000 bytes, when it calls " in found.instead("memory")


def test_the_backward_begins_with_what_the_forward_left():
    found = facts_of(lambda x: x.sin().exp(), "cuda_sm90", grad="x", x=tensor(10, 100))
    assert found.value("memory.left") == BYTES, "the backward computes again what it needs"
    assert found.value("memory.backward") >= BYTES


def test_what_only_the_backward_needs_is_saved():
    """The inputs of the forward are alive anyway: w and x are saved, and not counted."""
    found = facts_of(
        lambda x, w: ((x @ w).sin() @ w).sum(), "cuda_sm90", grad="x w", x=tensor(50, 50), w=tensor(50, 50)
    )
    assert found.value("memory.saved") == 2 * 10_000, "the first product, and its sine"
    assert found.value("memory.left") == 4 + 2 * 10_000
    assert "20000 of them for the backward" in found.text("memory")


def test_a_symbol_is_in_the_formula():
    found = facts_of(lambda x: (x.sin(), x.cos()), "cuda_sm90", dynamic=True, x=tensor(10, 100))
    assert found.text("memory").endswith("= 8*s27*s77 bytes")


def test_the_buffers_at_the_peak_have_their_operators():
    found = facts_of(lambda x: (x @ x).sin() @ x, "cuda_sm90", x=tensor(50, 50))
    assert "10000 bytes: float32 [50, 50] of aten.mm" in found.text("memory")


@pytest.mark.parametrize("pool", ["none", "intermediates", "outputs", "combined"])
def test_a_pool_counts_from_its_first_use_to_its_last(pool):
    options = {"memory_planning": True, "memory_pool": pool}
    found = facts_of(lambda x: ((x @ x).sin() @ x).sin() @ x, "cuda_sm90", config=options, x=tensor(50, 50))
    assert found.value("memory") >= 2 * 10_000
    assert found.value("memory.left") >= 10_000


def test_a_split_sum_needs_its_first_half():
    found = facts_of(lambda x: x.sum(), "cuda_sm90", x=tensor(300_000))
    assert found.value("memory") > 4
    assert found.value("memory.left") == 4


def test_a_bisection_may_ask_for_a_part():
    found = _texts(facts_of(lambda x: x.sin() + 1, "cuda_sm90", x=tensor(10, 100)))
    assert Question("fact", "memory.peak").answer(Observation(facts=found)) == str(BYTES)
    assert Question("fact", "memory").answer(Observation(facts=found)).startswith(f"{BYTES} bytes, when it calls ")
    assert Question("fact", "kernels.forward").answer(Observation(facts=found)) == "1"


def test_an_output_may_be_none():
    found = facts_of(
        lambda x, i: (x.index_reduce(0, i, x, "amax"), None)[0],
        "cuda_sm90",
        grad="x",
        x=tensor(4, 3),
        i=tensor(4, dtype="i64", high=4),
    )
    assert found.value("memory") > 0


@pytest.mark.parametrize(
    ("grad", "dtype", "rest"),
    [("", "f32", 0), ("", "bf16", 2 * 8), ("q", "bf16", 4 * 2 * 64 + 2 * 8)],
    ids=["seeds on the CPU", "no logarithms", "logarithms for the backward"],
)
def test_results_of_an_attention_that_a_gpu_does_not_have(grad, dtype, rest):
    inputs = {name: tensor(1, 2, 64, 64, dtype=dtype) for name in "qkv"}
    attention = torch.nn.functional.scaled_dot_product_attention
    found = facts_of(lambda q, k, v: attention(q, k, v, is_causal=False), "cuda_sm90", grad=grad, **inputs)
    output = 2 * 64 * 64 * (4 if dtype == "f32" else 2)
    assert found.value("memory.forward" if grad else "memory") == output + rest


def test_a_graph_for_a_gpu_does_not_count_the_memory_of_the_cpu():
    found = facts_of(lambda x: (x + 1).cpu() * 2, "cuda_sm90", x=tensor(10, 100))
    assert found.value("memory") == BYTES
