"""Changes of the compiler that cost memory or work, planted: the fact that changes, and what it names."""

from __future__ import annotations

import pytest
from capturing import facts_of

from conformance import tensor

SQUARE = {"x": tensor(50, 50)}
BYTES = 4 * 50 * 50


def products(x):
    return ((x @ x).sin() @ x).sin() @ x


def trained(x, w):
    return (x @ w).sin().exp().sum()


def of_products(**options):
    return facts_of(products, "cuda_sm90", **SQUARE, **options)


def test_buffers_that_are_freed_at_the_end(monkeypatch):
    assert of_products().value("memory") == 2 * BYTES
    monkeypatch.setattr("torch._inductor.scheduler.Scheduler.free_buffers", lambda _: None)
    late = of_products()
    assert late.value("memory") > 2 * BYTES
    assert late.text("memory").count(f"{BYTES} bytes: float32 [50, 50] of aten.mm") >= 3, "all products are alive"


def test_kernels_that_write_no_more_over_their_input():
    apart = of_products(config={"inplace_buffers": False, "allow_buffer_reuse": False})
    assert apart.value("buffers.in_place") < of_products().value("buffers.in_place")
    assert apart.value("buffers.allocated") > of_products().value("buffers.allocated")


def test_an_intermediate_that_is_saved_and_was_computed_again(monkeypatch):
    arguments = {"grad": "x w", "x": tensor(50, 50), "w": tensor(50, 50)}
    before = facts_of(trained, "cuda_sm90", **arguments)
    from functorch.compile import default_partition

    def saving_all(joint, inputs, *, num_fwd_outputs, **_):
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    monkeypatch.setattr("torch._inductor.compile_fx.min_cut_rematerialization_partition", saving_all)
    after = facts_of(trained, "cuda_sm90", **arguments)
    assert after.value("memory.saved") > before.value("memory.saved")
    assert "of them for the backward" in after.text("memory")


def test_an_input_that_is_copied(monkeypatch):
    """As if the library took no transposed matrix any more."""

    def transposed(x):
        return x.t() @ x

    before = facts_of(transposed, "cuda_sm90", **SQUARE)
    from torch._inductor import ir, kernel

    original = kernel.mm.mm_args

    def copying(one, other, **options):
        return original(ir.ExternKernel.require_contiguous(one), other, **options)

    monkeypatch.setattr("torch._inductor.kernel.mm.mm_args", copying)
    after = facts_of(transposed, "cuda_sm90", **SQUARE)
    assert (before.value("memory"), after.value("memory")) == (BYTES, 2 * BYTES)
    assert after.value("kernels") == before.value("kernels") + 1


def test_a_guard_on_a_constant():
    class Scale:
        factor = 2.5

    scale = Scale()

    def with_attribute(x):
        return x * scale.factor

    before, after = facts_of(lambda x: x * 2.5, **SQUARE), facts_of(with_attribute, **SQUARE)
    assert after.value("guards") > before.value("guards")
    assert after.value("guards.CONSTANT_MATCH") + after.value("guards.EQUALS_MATCH") > 0


def test_a_workspace_of_a_split_reduction():
    """A scan over all, or a sum in two halves, holds its first half."""
    sums = facts_of(lambda x: x.sum(), "cuda_sm90", x=tensor(300_000))
    whole = facts_of(lambda x: x.sum(), "cuda_sm90", config={"split_reductions": False}, x=tensor(300_000))
    assert sums.value("memory") > whole.value("memory") == 4


@pytest.mark.parametrize("form", ["kept", "dropped"])
def test_an_output_that_is_kept(form):
    def function(x):
        first = (x @ x).sin()
        return (first @ x, first) if form == "kept" else first @ x

    left = facts_of(function, "cuda_sm90", **SQUARE).value("memory.left")
    assert left == (2 * BYTES if form == "kept" else BYTES)


def test_code_that_is_unrolled():
    """A sum that is written out makes more operators and nodes of one kernel, not more kernels."""
    looped = facts_of(lambda x: x.sum(-1), "cuda_sm90", config={"unroll_reductions_threshold": 1}, x=tensor(64, 6))
    unrolled = facts_of(lambda x: x.sum(-1), "cuda_sm90", config={"unroll_reductions_threshold": 8}, x=tensor(64, 6))
    assert unrolled.value("loads") > looped.value("loads")
