"""Rare kinds of kernels, compared with the generated text; and the facts that are computed on request."""

from __future__ import annotations

import re

import pytest
from capturing import captured, facts_of
from functions import attention, flip, softmax, total

from conformance.cases.inputs import image, tensor
from conformance.facts import FactError, extract

SQUARE = tensor(64, 64)


def foreach(x, y):
    import torch

    return torch._foreach_add([x, y], [y, x])


def sum_and_double(x, y):
    return x.sum(-1), y * 2


def rows(x):
    return x.sum(-1)


def sort(x):
    return x.sort(-1)[0]


def cumsum(x):
    return x.cumsum(-1)


def matmul(a, b):
    return (a @ b).relu()


def flex(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)


class TestKinds:
    def test_foreach(self):
        """A GPU runs both in one launch. On CPU they are ordinary loops, here fused."""
        found = facts_of(foreach, "cuda_sm90", x=SQUARE, y=SQUARE)
        assert found.lines()["kernels"] == "1: _foreach_add (foreach of pointwise 4096 + pointwise 4096)"
        assert found.value("kinds") == ["foreach"]
        assert found.value("tiling") == ["x", "x"]
        on_cpu = facts_of(foreach, x=SQUARE, y=SQUARE)
        assert on_cpu.lines()["kernels"] == "1: _foreach_add (pointwise 4096, parallel)"

    def test_kernels_that_a_combination_leaves_out_have_their_own_operators(self):
        found = facts_of(sum_and_double, "cuda_sm90", x=SQUARE, y=tensor(100, 100), config={"combo_kernels": True})
        described = found.lines()["kernels"]
        if found.value("kernels") == 1:  # torch 2.11 combines both
            assert "combo of" in described
        else:
            assert "1: mul (pointwise 10000)" in described
            assert "2: sum (persistent reduction 64x[64])" in described

    def test_cooperative_reductions(self):
        config = {"triton.force_cooperative_reductions": True}
        capture = captured(rows, "cuda_sm90", x=tensor(64, 10_000), config=config)
        assert extract(capture).value("kinds") == ["cooperative reduction"]
        assert "cooperative_reduction" in capture.modules[0].code

    def test_cooperative_and_persistent(self):
        config = {"triton.force_cooperative_reductions": True}
        found = facts_of(rows, "cuda_sm90", x=tensor(2, 3000), config=config)
        assert found.value("kinds") == ["cooperative persistent reduction"]

    def test_split_scan(self):
        assert facts_of(cumsum, "cuda_sm90", x=tensor(1, 100_000)).value("kinds") == ["split scan"]

    def test_scan_and_sort(self):
        assert facts_of(cumsum, "cuda_sm90", x=tensor(64, 6400)).value("kinds.scan") == 1
        assert facts_of(sort, "cuda_sm90", x=SQUARE).value("kinds.sort") == 1
        assert facts_of(cumsum, x=tensor(64, 6400)).value("fallbacks") == ["aten.cumsum"]

    def test_split_reductions_can_be_demanded(self):
        x = tensor(4_000_000)
        assert facts_of(total, "cuda_sm90", x=x).value("kinds.split reduction") == 1
        assert facts_of(total, "cuda_sm90", x=x, config={"split_reductions": False}).value("kinds.split reduction") == 0

    def test_a_template_with_what_is_fused_into_it(self):
        config = {
            "max_autotune_gemm": True,
            "max_autotune_gemm_backends": "TRITON",
            "test_configs.max_mm_configs": 1,  # with one choice, Inductor times nothing
        }
        capture = captured(matmul, "cuda_sm90", a=SQUARE, b=SQUARE, config=config)
        found = extract(capture)
        assert found.lines()["kernels"] == "1: mm, relu (template 4096)"
        assert found.value("extern") == []
        assert "triton_tem_fused" in capture.modules[0].code

    @pytest.mark.parametrize("target", ["cpu_avx512", "cuda_sm90"])
    def test_flex_attention_is_a_template(self, target):
        heads = tensor(2, 4, 128, 64)
        assert facts_of(flex, target, q=heads, k=heads, v=heads).value("kinds.template") == 1


class TestPatterns:
    def test_which_attention_was_found(self):
        heads = tensor(2, 4, 16, 32)
        found = facts_of(attention, q=heads, k=heads, v=heads)
        assert found.value("patterns") == {"fuse_attention.sfdp_pattern_1": 1}
        assert found.value("patterns.fuse_attention.sfdp_pattern_1") == found.value("patterns.fuse_attention") == 1
        assert found.value("patterns.fuse_attention.sfdp_pattern_2") == 0

    def test_a_lowering_and_a_handler(self):
        """Inductor has three classes of patterns, and names only some patterns."""
        found = facts_of(softmax, "cuda_sm90", x=tensor(64, 1000))
        assert found.value("patterns") == {"post_grad.prepare_softmax_pattern": 1}


class TestBytes:
    def test_a_slice_is_not_the_whole(self):
        def halves(x):
            return x[:32] + 1

        found = facts_of(halves, x=SQUARE)
        assert found.lines()["bytes"] == "8192 read, 8192 written: the least"

    def test_what_is_read_twice(self):
        def two(x):
            return x.sum(0), x.flip(-1)

        found = facts_of(two, "cuda_sm90", x=SQUARE)
        parts = {part: found.value(f"bytes.{part}") for part in ("read", "written", "least")}
        assert parts == {"read": 2 * 16384, "written": 256 + 16384, "least": 16384 + 256 + 16384}
        assert found.value("bytes") == 1.5

    def test_views_that_a_call_is_given(self):
        def halves(x, y):
            return x[:, :32] @ y

        found = facts_of(halves, x=SQUARE, y=tensor(32, 64))
        assert found.lines()["bytes"] == "16384 read, 16384 written: the least"

    def test_updates_of_an_input(self):
        def update(x):
            x.add_(1)

        assert facts_of(update, x=SQUARE).lines()["bytes"] == "16384 read, 16384 written: the least"

    def test_updates_of_a_part_of_an_input(self):
        def update(x):
            x[:16] = 1

        assert facts_of(update, x=SQUARE).lines()["bytes"] == "0 read, 4096 written: the least"

    def test_symbolic_sizes_are_those_of_the_call(self):
        def double(x):
            return x * 2

        found = facts_of(double, x=tensor(64, 32), dynamic=True)
        assert found.lines()["bytes"] == "8192 read, 8192 written: the least"


class TestOnRequest:
    def test_no_snapshot_holds_them(self):
        found = facts_of(flip, "cuda_sm90", x=image())
        assert not {*found.further().lines()} & {*found.lines()}

    def test_guards(self):
        def add(x, n):
            return x + n

        found = facts_of(add, x=SQUARE, n=3)
        assert found.value("guards.TENSOR_MATCH") == 1
        assert found.value("guards") > found.value("guards.TENSOR_MATCH")
        assert found.value("guards.NN_MODULE") == 0
        assert found.further().lines()["guards"].startswith(f"{found.value('guards')}: ")

    def test_casts(self):
        def widen(x):
            return x.float() + 1

        assert facts_of(widen, x=tensor(64, 64, dtype="f16")).value("casts") == 1
        assert facts_of(widen, x=SQUARE).value("casts") == 0

    def test_atomics(self):
        def scatter(x, index, source):
            return x.index_put((index,), source, accumulate=True)

        arguments = {"x": SQUARE, "index": tensor(32, dtype="i64", low=0, high=64), "source": tensor(32, 64)}
        for target, call in (("cpu_avx512", "atomic_add"), ("cuda_sm90", "tl.atomic_add(")):
            capture = captured(scatter, target, **arguments)
            assert extract(capture).value("atomics") == 1
            assert call in capture.modules[0].code

    def test_layout_changes(self):
        def transpose(x):
            return x.t().contiguous()

        def other(x):
            return x.t() + 1

        assert facts_of(transpose, x=SQUARE).value("layout_changes") == 1
        assert [facts_of(fn, x=SQUARE).value("layout_changes") for fn in (other, flip)] == [0, 0]

    def test_tiling(self):
        def transposed(x, y):
            return x.t() + y

        capture = captured(transposed, "cuda_sm90", x=tensor(512, 512), y=tensor(512, 512))
        found = extract(capture)
        assert found.value("tiling") == ["y x"]
        assert found.further().lines()["tiling"] == "y 512, x 512"
        assert re.search(r"\bYBLOCK\b", capture.modules[0].code)
        with pytest.raises(FactError, match=r"no fact 'tiling' \(only GPU captures have it\): known are"):
            facts_of(flip, x=image()).value("tiling")

    def test_tma(self):
        def add(x, y):
            return x + y

        config = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
        with_it, without = (facts_of(add, "cuda_sm90", x=SQUARE, y=SQUARE, config=each) for each in (config, {}))
        assert (with_it.value("tma"), without.value("tma")) == (3, 0)

    def test_block_pointers(self):
        if not hasattr(pytest.importorskip("triton.language"), "make_block_ptr"):
            pytest.skip("this Triton has no block pointers")

        def add(x, y):
            return x + y

        config = {"triton.use_block_ptr": True}
        with_them, without = (facts_of(add, "cuda_sm90", x=SQUARE, y=SQUARE, config=each) for each in (config, {}))
        assert (with_them.value("block_pointers"), without.value("block_pointers")) == (3, 0)
        assert (with_them.value("tma"), without.further().lines()["block_pointers"]) == (0, "none")
