"""Facts of real captures: the values that requirements compare, the lines that snapshots store."""

from __future__ import annotations

import json

import pytest
from capturing import captured, facts_of

from conformance.capture.model import Capture, Module
from conformance.capture.observers import kernels as kernels_module
from conformance.cases.inputs import image, tensor
from conformance.facts import NAMES, FactError, changed_facts, extract
from conformance.facts.binary import MEASURES
from conformance.normalize.text import facts_block, parse_facts


def hflip(x):
    return x.flip(-1)


def vflip(x):
    return x.flip(-2)


def smooth_l1_loss(x, y):
    import torch

    return torch.nn.functional.smooth_l1_loss(x, y)


def by_hand(q, k, v):
    return (q @ k.transpose(-2, -1)).div(5.0).softmax(-1) @ v


class TestVectorised:
    """Why does Inductor not vectorise the flip of a uint8 image?"""

    @pytest.mark.parametrize(("dtype", "size"), [("u8", 150528), ("bf16", 301056), ("f32", 602112)])
    def test_flip_along_the_contiguous_dimension(self, dtype, size):
        found = facts_of(hflip, x=image(dtype=dtype))
        assert found.lines() == {
            "kernels": "1: flip (pointwise 672x224, parallel)",
            "vectorised": "no: load index 224*x0 - x1 + 223 is not contiguous in x1 (stride -1), 1 of 2 operations",
            "extern": "none",
            "fallbacks": "none",
            "patterns": "none",
            "unfused": "none",
            "bytes": f"{size} read, {size} written: the least",
            "buffers": "1 allocated",
            "graph_breaks": "none",
        }

    def test_channels_last_has_too_short_a_loop(self):
        found = facts_of(hflip, x=image(layout="channels_last"))
        reason = "no: range 3 of x2 is shorter than a quarter of a vector, 2 operations"
        assert found.lines()["vectorised"] == reason
        assert found.lines()["kernels"] == "1: flip (pointwise 224x224x3, parallel)"

    def test_sliced_image(self):
        reason = facts_of(hflip, x=image(layout="sliced")).lines()["vectorised"]
        assert reason == (
            "no: load index 60270*x0 + 246*x1 - x2 + 223 is not contiguous in x2 (stride -1), 1 of 2 operations"
        )

    @pytest.mark.parametrize(("target", "lanes"), [("cpu_avx2", 8), ("cpu_avx512", 16), ("cpu_neon", 4)])
    def test_the_vertical_flip_is(self, target, lanes):
        found = facts_of(vflip, target, x=image())
        assert (found.value("vectorised"), found.lines()["vectorised"]) == ("yes", f"yes: {lanes} lanes along x2")

    def test_a_dtype_without_vectors(self):
        def add(x):
            return x + 1

        assert facts_of(add, x=tensor(64, dtype="i16")).lines()["vectorised"] == "no: dtype int16 has no vectors"

    def test_a_transposed_tile(self):
        def transpose(x):
            return x.t().contiguous() + 1

        lines = facts_of(transpose, x=tensor(64, 100)).lines()
        assert lines["vectorised"] == "yes: 2-D tile of 16 by 16 lanes, transposed in x0, x1, tail masked"

    def test_what_stays_scalar_within_vectors(self):
        def bessel(x):
            import torch

            return torch.special.bessel_j0(x) + 1

        def gather(x, i):
            return (x[i] * 3 + 1).exp()

        assert facts_of(bessel, x=tensor(640)).lines()["vectorised"] == (
            "yes: 16 lanes along x0, bessel_j0 element by element (no vector code)"
        )
        index = tensor(640, dtype="i64", low=0, high=640)
        assert (
            facts_of(gather, x=tensor(640), i=index)
            .lines()["vectorised"]
            .startswith("yes: 16 lanes along x0, load index indirect0 element by element (computed index), 2 of ")
        )

    def test_no_loop_is_neither(self):
        def add(x):
            return x + 1

        found = facts_of(add, x=tensor(1))
        assert (found.value("kernels"), found.value("vectorised")) == (1, "none")

    def test_kernels_that_differ_say_so_one_by_one(self):
        def two(x, y):
            return x.flip(-1), y.to(dtype=y.dtype) * 2 + 1

        found = facts_of(two, x=tensor(64, 64), y=tensor(128, 3, 64))
        assert found.value("vectorised") == "partly"
        assert found.lines()["vectorised"] == (
            "partly\n"
            "  1 nest 1: no: load index 64*x0 - x1 + 63 is not contiguous in x1 (stride -1), 1 of 2 operations\n"
            "  1 nest 2: yes: 16 lanes along x0"
        )
        assert found.value("kernels") == 1, "Inductor puts both loop nests into one C++ function"

    def test_is_asked_of_the_cpu_alone(self):
        found = facts_of(hflip, "cuda_sm90", x=image())
        assert "vectorised" not in found.lines()
        with pytest.raises(FactError, match=r"no fact 'vectorised' \(only CPU captures have it\): known are kern"):
            found.value("vectorised")


class TestKernels:
    def test_forward_and_backward_are_told_apart(self):
        found = facts_of(smooth_l1_loss, x=tensor(20), y=tensor(20), grad="x y")
        first, forward, backward = found.lines()["kernels"].split("\n")
        assert first == "2"
        assert forward == "  1 forward: smooth_l1_loss (reduction [20] + pointwise 1, serial)"
        assert backward.startswith("  2 backward: smooth_l1_loss_backward")
        assert (found.value("kernels.forward"), found.value("kernels.backward")) == (1, 1)
        assert found.value("vectorised") == "yes", "the loop is; the single element after it has none"

    def test_twenty_elements_are_one_persistent_reduction(self):
        found = facts_of(smooth_l1_loss, "cuda_sm90", x=tensor(20), y=tensor(20))
        assert found.value("kinds") == ["persistent reduction"]
        assert found.lines()["kernels"] == "1: smooth_l1_loss (persistent reduction [20])"

    def test_a_split_reduction(self):
        def total(x):
            return x.sum()

        found = facts_of(total, "cuda_sm90", x=tensor(4_000_000))
        assert found.value("kernels") == 2
        assert found.lines()["kernels"].endswith("second half of a split)")
        assert found.lines()["kernels"].count("first half of a split") == 1

    def test_loops_that_share_the_outer_one(self):
        def softmax(x):
            return x.softmax(-1)

        assert facts_of(softmax, x=tensor(64, 1000)).lines()["kernels"] == (
            "1: _softmax (reduction 64x[1000] + reduction 64x[1000] + pointwise 64x1000 in one outer loop, parallel)"
        )

    def test_dynamic_sizes_are_named(self):
        def double(x):
            return x * 2

        kernels = facts_of(double, x=tensor(64, 32), dynamic=True).lines()["kernels"]
        assert kernels.startswith("1: mul (pointwise (s")

    def test_equal_on_targets_where_nothing_differs(self):
        lines = [
            facts_of(hflip, target, x=image()).lines() for target in ("cuda_sm80", "cuda_sm90", "xpu_pvc", "xpu_bmg")
        ]
        assert all(each == lines[0] for each in lines)
        lines = [facts_of(hflip, target, x=image()).lines() for target in ("cpu_avx2", "cpu_avx512", "cpu_neon")]
        assert all(each == lines[0] for each in lines)


class TestCalls:
    def test_matrix_products_are_library_calls(self):
        def mm(a, b):
            return a @ b

        found = facts_of(mm, a=tensor(64, 64), b=tensor(64, 64), grad="a b")
        assert found.lines()["extern"] == "forward mm; backward mm, mm"
        assert (found.value("kernels"), found.value("extern.mm"), found.value("extern.addmm")) == (0, 3, 0)
        assert found.value("fallbacks") == []

    def test_attention_falls_back(self):
        def attention(q, k, v):
            import torch

            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

        shape = tensor(2, 4, 16, 32)
        found = facts_of(attention, q=shape, k=shape, v=shape)
        assert found.value("fallbacks") == ["aten._scaled_dot_product_flash_attention_for_cpu"]
        assert (found.value("extern"), found.value("patterns")) == ([], {})

    def test_attention_by_hand_is_rewritten(self):
        shape = tensor(2, 4, 16, 32)
        found = facts_of(by_hand, q=shape, k=shape, v=shape)
        assert found.value("patterns.fuse_attention") == 1
        assert found.lines()["patterns"] == "fuse_attention.sfdp_pattern_1"
        assert found.value("fallbacks") == ["aten._scaled_dot_product_flash_attention_for_cpu"]

    def test_graph_breaks(self):
        def broken(x):
            import torch

            y = x + 1
            torch._dynamo.graph_break()
            return y * 2

        found = facts_of(broken, x=tensor(64))
        assert found.value("graph_breaks") == 1
        assert "graph_break()" in found.lines()["graph_breaks"]
        assert found.lines()["kernels"].split("\n")[1] == "  1 graph 1 inference: add (pointwise 64, serial)"


class TestFacts:
    def test_everything_that_is_watched_exists_in_this_torch(self):
        assert [patch.where for patch in kernels_module.patches() if patch.is_missing()] == []

    def test_travel_as_json_and_repeat(self):
        first, second = (captured(smooth_l1_loss, x=tensor(20), y=tensor(20), grad="x") for _ in range(2))
        again = Capture.from_json(json.loads(json.dumps(first.to_json())))
        assert extract(again).lines() == extract(first).lines() == extract(second).lines()

    def test_unknown_names_list_the_known(self):
        found = facts_of(vflip, x=image())
        with pytest.raises(
            FactError, match="no fact 'kernel': known are kernels, kinds, vectorised, extern, fallbacks"
        ):
            found.value("kernel")
        with pytest.raises(FactError, match=r"'kernels' has no part 'total': known are kernels.forward, kernels.back"):
            found.value("kernels.total")

    def test_the_names_are_known_beforehand(self):
        config = {"triton.cudagraphs": True}
        on_cpu, on_gpu = (facts_of(vflip, target, config=config, x=image()) for target in ("cpu_avx512", "cuda_sm90"))
        assert set(NAMES) == {*on_cpu, *on_cpu.further(), *on_gpu.further(), *MEASURES}
        assert set(on_cpu) - set(on_gpu) == {"vectorised"}
        of_gpus = {"tiling", "tma", "block_pointers", "fp64", "cuda_graphs"}
        assert set(on_gpu.further()) - set(on_cpu.further()) == of_gpus

    def test_a_capture_that_was_not_observed(self):
        blind = Capture("flip/hflip", "cpu_avx2", "native", "2.13.0", "", [Module("inference", code="")])
        with pytest.raises(FactError, match=r"module 1 \(inference\) was not observed"):
            extract(blind)

    def test_counts_of_one_capture_do_not_reach_the_next(self):
        shape = tensor(2, 4, 16, 32)
        assert facts_of(by_hand, q=shape, k=shape, v=shape).value("patterns.fuse_attention") == 1
        assert facts_of(vflip, x=image()).value("patterns.fuse_attention") == 0

    def test_lines_survive_a_snapshot(self):
        lines = facts_of(smooth_l1_loss, x=tensor(20), y=tensor(20), grad="x").lines()
        assert parse_facts(facts_block(lines)) == lines


class TestChanged:
    def test_one_line(self):
        assert changed_facts(
            {"vectorised": "yes: along x1", "kernels": "1: a"}, {"kernels": "1: a", "vectorised": "no: b"}
        ) == ["vectorised  yes: along x1 → no: b"]

    def test_several_lines(self):
        old, new = {"kernels": "2\n  1: a\n  2: b"}, {"kernels": "3\n  1: a\n  2: c\n  3: d"}
        assert changed_facts(old, new) == ["kernels  2 → 3\n  - 2: b\n  + 2: c\n  + 3: d"]
        assert changed_facts(old, {"kernels": "2\n  1: a\n  2: c"}) == [
            "kernels  2 (details changed)\n  - 2: b\n  + 2: c"
        ]

    def test_lines_in_another_order(self):
        old, new = {"kernels": "2\n  1: a\n  2: b"}, {"kernels": "2\n  2: b\n  1: a"}
        assert changed_facts(old, new) == ["kernels  2 (order changed)"]

    def test_facts_that_come_and_go(self):
        assert changed_facts({"old": "1"}, {"new": "2"}) == ["new  not known → 2", "old  1 → not known"]
