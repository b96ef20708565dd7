"""Causes, one kind after another: what each is called. The texts are edited, so that no test compiles."""

from __future__ import annotations

import pytest
from kernel_text import KERNEL, TEXT, edited

from conformance.review.causes import Cause, ChangedText, find_causes
from conformance.review.review import ChangedItem, Review
from conformance.storage.runs import ItemRecord

KERNELS = "kernels     1: add (pointwise 20)"
VECTORISED = "vectorised  yes: 8 lanes along x0, tail masked"
PATTERNS = "patterns    joint_graph.bmm_to_mm 2 times, fuse_attention.sfdp"
FACTS = edited(
    ("extern      none", f"extern      none\nfallbacks   none\n{PATTERNS}\n{VECTORISED}\nbuffers     1 allocated")
)
#: FACTS with a second kernel.
TWO = edited(
    (KERNELS, f"kernels     2\n{' ' * 12}1: add (pointwise 20)\n{' ' * 12}2: mul (pointwise 20)"),
    (KERNEL, f"{KERNEL}\n{KERNEL.replace('_add_0', '_mul_0')}"),
    ("    return", "        triton_poi_fused_mul_0.run(arg0, arg1, buf0, 20)\n    return"),
    text=FACTS,
)
BUFFERS = "buffers are passed, allocated or reused in another way"
FREED = ("        triton_poi", "        del arg0\n        triton_poi")
EXP = ("tl_math.abs", "tl_math.exp")
HINT = ("{'x': 32}", "{'x': 64}")


def causes(new: str, stored: str = FACTS) -> list[Cause]:
    found = find_causes([ChangedText("op/c", "cuda_sm90", stored, new)])
    assert all([member.case for member in each.members] == ["op/c"] for each in found)
    return found


def titles(new: str, stored: str = FACTS) -> list[tuple[str, str]]:
    return [(each.kind, each.title) for each in causes(new, stored)]


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("extern      none", "extern      mm", "extern  now: mm"),
        ("fallbacks   none", "fallbacks   aten.sort", "fallbacks  now: aten.sort"),
        (PATTERNS, "patterns    fuse_attention.sfdp", "patterns  no longer match: joint_graph.bmm_to_mm"),
        (
            PATTERNS,
            "patterns    none",
            "patterns  no longer match: fuse_attention.sfdp, joint_graph.bmm_to_mm",
        ),
        (VECTORISED, "vectorised  no: load index 3*x0 is not contiguous in x0", "vectorised  yes → no"),
        (KERNELS, "kernels     1: add (reduction 2x[20])", "kernels  pointwise → reduction"),
        (KERNELS, "kernels     1: mul (pointwise 20)", "kernels  operator add → operator mul"),
        (KERNELS, "kernels     1: add (pointwise 40)", "kernels  sizes changed"),
        ("1 allocated", "2 allocated", "buffers  changed"),
    ],
)
def test_a_changed_fact(old, new, title):
    assert titles(edited((old, new), text=FACTS)) == [("fact", title)]


@pytest.mark.parametrize(("fact", "value"), [("extern", "mm"), ("fallbacks", "aten.sort")])
def test_a_call_that_is_gone(fact, value):
    called = edited((f"{fact:12}none", f"{fact:12}{value}"), text=FACTS)
    assert titles(FACTS, called) == [("fact", f"{fact}  no longer: {value}")]


def test_more_kernels_and_fewer_kernels():
    assert titles(TWO) == [("fact", "kernels  split")]
    assert titles(FACTS, TWO) == [("fact", "kernels  fused")]


def test_kernels_in_another_order_are_no_other_kernels():
    first, second = f"{' ' * 12}1: add (pointwise 20)", f"{' ' * 12}2: mul (pointwise 20)"
    swapped = edited((f"{first}\n{second}", f"{first.replace('add', 'mul')}\n{second.replace('mul', 'add')}"), text=TWO)
    assert titles(swapped, TWO) == [("fact", "kernels  order changed")]


@pytest.mark.parametrize(
    ("pairs", "title"),
    [
        ([EXP], "`abs` → `exp`"),
        ([("tmp0 - tmp1", "tmp0 + tmp1")], "`-` → `+` in `tmp0 + tmp1`"),
        ([HINT], "`32` → `64` in `# size_hints.x = N`"),
        (
            [("    size_hints={'x': 32},\n", "    size_hints={'x': 32},\n    inductor_meta={'num_load': 2},\n")],
            "added: `inductor_meta.num_load`",
        ),
        ([FREED], BUFFERS),
        ([("add_0.run(arg0, arg1", "add_0.run(arg1, arg0")], BUFFERS),
    ],
)
def test_an_edit_of_code(pairs, title):
    assert titles(edited(*pairs, text=FACTS)) == [("code", title)]


def test_a_fact_that_only_looks_different_is_a_cause_too():
    """Blanks before a value are no part of a fact, and the text differs."""
    assert titles(FACTS.replace("\n--- inference", "\n\n--- inference")) == [
        ("code", "only names, blanks or headings changed")
    ]


def test_two_edits_are_two_causes_and_buffers_beside_an_edit_are_a_cause():
    separate = [titles(edited(each), TEXT) for each in (EXP, HINT)]
    assert sorted(titles(edited(EXP, HINT), TEXT)) == sorted([*separate[0], *separate[1]])
    assert titles(edited(EXP, FREED, text=FACTS)) == [("code", "`abs` → `exp`"), ("code", BUFFERS)]


def test_buffers_beside_a_changed_fact_are_a_named_consequence():
    [cause] = causes(edited(("extern      none", "extern      mm"), FREED, text=FACTS))
    assert cause.title == "extern  now: mm"
    assert [each.title for each in cause.consequences] == [BUFFERS]


def test_the_larger_cause_is_first_and_its_example_shows_the_edit():
    texts = [edited(EXP), edited(HINT), edited(EXP, HINT), edited(EXP)]
    first, second = find_causes(ChangedText(f"c{n}", "cuda_sm90", TEXT, text) for n, text in enumerate(texts))
    assert [member.case for member in first.members] == ["c0", "c2", "c3"]
    assert [member.case for member in second.members] == ["c1", "c2"]
    assert first.reach == "3 kernels, 3 cases, on cuda_sm90"
    assert "+    tmp3 = tl_math.exp(tmp2)" in first.example.hunk


def test_ids_are_those_of_the_cause():
    """An id that `review --accept` takes means the same cause in every run."""
    item = ChangedText("c", "cuda_sm90", TEXT, edited(EXP))
    other = ChangedText("d", "cuda_sm90", TEXT, edited(HINT))
    [alone] = find_causes([item])
    ids = {each.id: each.title for each in find_causes([other, item])}
    assert ids[alone.id] == alone.title
    assert len(ids) == 2


MM = ("extern      none", "extern      mm")
SWAPPED = ("tmp0 - tmp1", "tmp1 - tmp0")
UNMASKED = ("xmask)\n    tmp1", "None)\n    tmp1")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *((EXP, second) for second in (HINT, FREED, SWAPPED, UNMASKED, MM)),
        *((MM, second) for second in (HINT, SWAPPED, UNMASKED, EXP)),
    ],
)
def test_a_second_change_in_one_of_200_texts_stays_open(first, second):
    """A reviewer accepts the cause that all texts share. The text that differs by more than this is not stored."""
    changed = [
        ChangedText(f"op/c{n}", "cuda_sm90", TEXT, edited(first, second) if n == 77 else edited(first))
        for n in range(200)
    ]
    items = {
        each.name: ChangedItem(ItemRecord(each.case, each.target, "deviceless", "2.13.0", "", text=each.new), each)
        for each in changed
    }
    review = Review(changed_items=items)
    assert len(review.causes[0].members) == 200
    complete, incomplete = review.items_of_causes([1])
    assert list(incomplete) == ["op/c77-cuda_sm90"]
    assert len(complete) == 199
    assert len(review.items_of_causes(range(1, len(review.causes) + 1))[0]) == 200


def test_an_edit_in_kernels_that_became_other_kernels_stays_open():
    """The words of an edit that other texts show are gone from this text too: its cause may not be accepted alone."""
    policy = ", eviction_policy='evict_last'"
    stored = TEXT.replace("(x0), xmask)\n    tmp1", f"(x0), xmask{policy})\n    tmp1")
    split = (
        stored.replace(policy, "").replace("kernels     1: add", "kernels     2\n  1: add").replace("_add_0", "_sub_0")
    )
    plain = [ChangedText(f"op/c{number}", "cuda_sm90", stored, stored.replace(policy, "")) for number in range(9)]
    causes = find_causes([*plain, ChangedText("op/split", "cuda_sm90", stored, split)])
    [gone] = [each for each in causes if "eviction_policy" in each.title]
    assert len(gone.members) == 10
    assert any(each is not gone and [member.case for member in each.members] == ["op/split"] for each in causes)
