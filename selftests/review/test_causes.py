"""Causes: changes planted into Inductor through its options; each is one cause, also beside a second change."""

from __future__ import annotations

import functools
import re

import pytest

from conformance import tensor
from conformance.facts import extract
from conformance.normalize.text import snapshot_text
from conformance.review.causes import Cause, ChangedText, find_causes
from conformance.review.fact_phrases import fact_phrases
from conformance.review.kernel_metadata import split_metadata

pytest.importorskip("triton", reason="Triton is not installed: pip install triton")

from capturing import captured


def layer_norm(x, weight):
    return (x - x.mean(-1, keepdim=True)) * weight


def softmax(x, weight):
    return x.softmax(-1) * weight


def two_sums(x, weight):
    return x.sum(-1), (x * weight).amax(0)


def pointwise(x, weight):
    return (x * weight).sin() + 1


CASES = (layer_norm, softmax, two_sums, pointwise)
INPUTS = {"x": tensor(60, 101), "weight": tensor(101)}


@functools.cache
def text(name: str, target: str, *options: tuple[str, object]) -> str:
    fn = next(each for each in CASES if each.__name__ == name)
    capture = captured(fn, target, config=dict(options), **INPUTS)
    return snapshot_text(capture, extract(capture).lines(), target.partition("_")[0])


def changed(target: str, *options: tuple[str, object]) -> list[ChangedText]:
    """What options of Inductor change in the texts."""
    names = [fn.__name__ for fn in CASES]
    return [ChangedText(f"op/{each}-f32", target, text(each, target), text(each, target, *options)) for each in names]


def titles(causes: list[Cause]) -> list[str]:
    return [each.title for each in causes]


@pytest.mark.parametrize(
    ("target", "option", "title"),
    [
        ("cpu_avx512", ("cpp.simdlen", 1), "vectorised  yes → no"),
        ("cpu_avx512", ("cpp.enable_loop_tail_vec", False), "vectorised  tail masked → tail scalar"),
        ("cuda_sm90", ("triton.persistent_reductions", False), "kernels  persistent reduction → reduction"),
        ("cuda_sm90", ("max_fusion_size", 1), "kernels  split: too many operators for one kernel (max_fusion_size)"),
        ("cuda_sm90", ("pattern_matcher", False), "patterns  no longer match: post_grad.prepare_softmax_pattern"),
        ("cuda_sm90", ("size_asserts", False), "removed: `assert_size_stride(…)`"),
    ],
)
def test_a_planted_change_is_the_first_cause(target, option, title):
    changes = changed(target, option)
    causes = find_causes(changes)
    differ = {each.name for each in changes if each.stored != each.new}
    assert causes[0].title == title
    assert differ
    assert len(causes) <= 3
    assert {member.name for cause in causes for member in cause.members} == differ


@pytest.mark.parametrize(
    ("option", "title"),
    [
        (("max_fusion_size", 1), "kernels  fused, no longer: too many operators for one kernel (max_fusion_size)"),
        (("triton.persistent_reductions", False), "kernels  reduction → persistent reduction"),
        (("pattern_matcher", False), "patterns  now: post_grad.prepare_softmax_pattern"),
    ],
)
def test_an_option_that_goes_back_is_the_first_cause(option, title):
    backward = [ChangedText(each.case, each.target, each.new, each.stored) for each in changed("cuda_sm90", option)]
    assert find_causes(backward)[0].title == title


SECOND = {
    "a keyword": lambda new: re.sub(r"(tl\.load\([^\n]*)\)", r"\1, cache_modifier='.cg')", new),
    "an operator": lambda new: new.replace("tl_math.sin", "tl_math.cos"),
    "a number": lambda new: new.replace("XBLOCK: tl.constexpr = 1", "XBLOCK: tl.constexpr = 2"),
}


@pytest.mark.parametrize("option", [("size_asserts", False), ("pattern_matcher", False)])
def test_a_second_change_in_one_text_is_not_accepted_with_the_first(option):
    """The first change is in several texts. The second one is in one text, which the first one may change too."""
    before = changed("cuda_sm90", option)
    changes = [ChangedText(each.case, each.target, each.stored, SECOND["an operator"](each.new)) for each in before]
    causes = find_causes(changes)
    [second] = [each for each in causes if "sin" in each.title]
    assert [member.case for member in second.members] == ["op/pointwise-f32"]
    first = find_causes(before)[0].title
    assert first in titles(causes)
    assert titles(causes).index(first) != causes.index(second)


def test_two_changes_of_different_kinds_are_two_causes():
    both = find_causes(changed("cuda_sm90", ("size_asserts", False), ("triton.persistent_reductions", False)))
    assert {"removed: `assert_size_stride(…)`", "kernels  persistent reduction → reduction"} <= set(titles(both))


def test_causes_are_the_same_whatever_the_order_of_the_texts():
    changes = changed("cuda_sm90", ("max_fusion_size", 1), ("size_asserts", False))
    forward, backward = find_causes(changes), find_causes(changes[::-1])
    assert [(each.id, each.title, each.consequences) for each in forward] == [
        (each.id, each.title, each.consequences) for each in backward
    ]


def test_names_alone_are_a_cause_too():
    old = text("pointwise", "cuda_sm90")
    [cause] = find_causes([ChangedText("op/pointwise-f32", "cuda_sm90", old, re.sub(r"\btmp(\d)", r"tmp1\1", old))])
    assert cause.title == "only names, blanks or headings changed"
    assert find_causes([ChangedText("op/pointwise-f32", "cuda_sm90", old, old)]) == []


def test_what_members_share_is_said():
    old = text("pointwise", "cuda_sm90")
    changes = [
        ChangedText(f"sin/one-{dtype}-{number}", "cuda_sm90", old, SECOND["an operator"](old))
        for dtype in ("bf16",)
        for number in range(2)
    ]
    changes.append(ChangedText("cos/two-f32", "cuda_sm90", old, SECOND["a keyword"](old)))
    causes = find_causes(changes)
    assert [each.only for each in causes] == [("bf16", "sin"), ()]
    assert causes[0].reach == "2 kernels, 2 cases, on cuda_sm90, only bf16 sin"


def test_phrases_of_facts():
    value = "yes\n1 nest 1: yes: 8 lanes along x0, tail masked\n1 nest 2: no: load index 3*x0 is not contiguous in x0"
    assert set(fact_phrases("vectorised", value)) == {
        "yes", "no", "N lanes along N", "tail masked", "load index is not contiguous in N",
    }  # fmt: skip
    assert fact_phrases("kernels", "1: sum (persistent reduction 12x[17])") == {
        "persistent reduction": 1,
        "operator sum": 1,
    }
    assert fact_phrases("patterns", "joint_graph.bmm_to_mm 2 times, fuse_attention.sfdp") == {
        "joint_graph.bmm_to_mm": 1, "fuse_attention.sfdp": 1,
    }  # fmt: skip


def test_metadata_is_split():
    old = (
        "@triton_heuristics.pointwise(\n    triton_meta={'signature': 'in_ptr0: *fp32, xnumel: i32'},\n"
        "    inductor_meta={'num_load': 2},\n)\n@triton.jit\ndef triton_poi_0("
    )
    metadata = (
        "@triton_heuristics.pointwise\n# triton_meta.signature in_ptr0: *fp32\n# triton_meta.signature xnumel: i32\n"
        "# inductor_meta.num_load = 2\n@triton.jit\ndef triton_poi_0("
    )
    for arguments in ("in_ptr0, xnumel", "in_ptr0, xnumel, XBLOCK : tl.constexpr"):
        assert split_metadata(f"{old}{arguments}):\n    pass\n") == f"{metadata}…):\n    pass\n"
    others = (
        "xnumel, in_ptr0",
        "in_ptr0, xoffset",
        "in_ptr0, in_ptr1, xnumel",
        "in_ptr0",
        "in_ptr0, xnumel, X : tl.int32",
    )
    for arguments in others:
        assert split_metadata(f"{old}{arguments}):\n    pass\n") == f"{metadata}{arguments}):\n    pass\n"
